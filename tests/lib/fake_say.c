/* fake_say.c - see fake_impl.h. */
#include "proto/hydra/v1/worker.pb-c.h"
#include "tests/lib/fake_impl.h"

enum { MAX_GROUPS = 64 };

static void say(const struct hyd_fake_seat *seat,
                const Hydra__V1__SchedulerMessage *message)
{
    if (seat->call != NULL) {
        (void)hyd_call_send(seat->call, &message->base);
    }
}

void hyd_fake_send_welcome(struct hyd_fake *fake, struct hyd_fake_seat *seat,
                           uint32_t epoch)
{
    Hydra__V1__SchedulerMessage message = HYDRA__V1__SCHEDULER_MESSAGE__INIT;
    Hydra__V1__Welcome welcome = HYDRA__V1__WELCOME__INIT;
    Hydra__V1__JobSpec job = HYDRA__V1__JOB_SPEC__INIT;
    Hydra__V1__CostChoice cost = HYDRA__V1__COST_CHOICE__INIT;
    Hydra__V1__ModelShape shape = HYDRA__V1__MODEL_SHAPE__INIT;
    Hydra__V1__Limits limits = HYDRA__V1__LIMITS__INIT;
    Hydra__V1__Execution execution = HYDRA__V1__EXECUTION__INIT;
    uint32_t rank[HYD_FAKE_MAX_RANKS];

    shape.heads = fake->config.heads;
    shape.kv_heads = fake->config.kv_heads;
    shape.head_dim = fake->config.head_dim;
    limits.cap_tokens = fake->config.cap_tokens;
    execution.layers = fake->config.layers;
    execution.dtype =
        fake->config.bf16 ? HYDRA__V1__DTYPE__DTYPE_BF16 : HYDRA__V1__DTYPE__DTYPE_F32;
    cost.model = &shape;
    job.cost = &cost;
    job.limits = &limits;
    job.execution = &execution;
    welcome.epoch = epoch;
    welcome.world = epoch > 0 ? fake->world : 0;
    welcome.heartbeat_ms = fake->config.heartbeat_ms;
    welcome.job = &job;
    for (uint32_t i = 0; i < seat->is.n_ranks && epoch > 0; i++) {
        rank[i] = seat->is.first_rank + i;
    }
    welcome.n_ranks = epoch > 0 ? seat->is.n_ranks : 0;
    welcome.ranks = rank;
    message.kind_case = HYDRA__V1__SCHEDULER_MESSAGE__KIND_WELCOME;
    message.welcome = &welcome;
    say(seat, &message);
}

void hyd_fake_do_welcome(struct hyd_fake *fake)
{
    fake->epoch++;
    fake->world = 0;
    for (int i = 0; i < HYD_FAKE_MAX_AGENTS; i++) {
        fake->seat[i].is.member = false;
        fake->seat[i].is.ready = false;
        fake->seat[i].is.n_addresses = 0;
    }
    for (const char *name = fake->names; *name != '\0'; name++) {
        struct hyd_fake_seat *seat = hyd_fake_seat_of(fake, *name);

        seat->is.member = true;
        seat->is.first_rank = fake->world;
        fake->world += seat->is.n_ranks;
    }
    for (const char *name = fake->names; *name != '\0'; name++) {
        hyd_fake_send_welcome(fake, hyd_fake_seat_of(fake, *name), fake->epoch);
    }
}

static void to_members(struct hyd_fake *fake,
                       const Hydra__V1__SchedulerMessage *message)
{
    for (int i = 0; i < HYD_FAKE_MAX_AGENTS; i++) {
        if (fake->seat[i].is.member) {
            say(&fake->seat[i], message);
        }
    }
}

void hyd_fake_do_members(struct hyd_fake *fake)
{
    Hydra__V1__SchedulerMessage message = HYDRA__V1__SCHEDULER_MESSAGE__INIT;
    Hydra__V1__Members members = HYDRA__V1__MEMBERS__INIT;
    Hydra__V1__MemberAddress member[HYD_FAKE_MAX_RANKS];
    Hydra__V1__MemberAddress *list[HYD_FAKE_MAX_RANKS];

    for (uint32_t i = 0; i < fake->world; i++) {
        hydra__v1__member_address__init(&member[i]);
        member[i].rank = i;
        member[i].address.data = fake->address[i];
        member[i].address.len = fake->address_bytes[i];
        list[i] = &member[i];
    }
    members.epoch = fake->epoch;
    members.n_members = fake->world;
    members.members = list;
    message.kind_case = HYDRA__V1__SCHEDULER_MESSAGE__KIND_MEMBERS;
    message.members = &members;
    to_members(fake, &message);
}

static bool touches(const struct hyd_group *group, const struct hyd_fake_seat *seat)
{
    for (uint32_t i = 0; i < group->u * group->r; i++) {
        if (group->rank[i] >= seat->is.first_rank &&
            group->rank[i] < seat->is.first_rank + seat->is.n_ranks) {
            return true;
        }
    }
    return false;
}

/* A group's ranks as runs of one: any order is fine. */
struct group_room {
    Hydra__V1__AssignedGroup group;
    Hydra__V1__RankRun run[HYD_FAKE_MAX_RANKS];
    Hydra__V1__RankRun *list[HYD_FAKE_MAX_RANKS];
};

static void fill_group(const struct hyd_fake_step *step, size_t i,
                       struct group_room *room)
{
    const struct hyd_group *from = &step->group[i];

    hydra__v1__assigned_group__init(&room->group);
    room->group.microbatch = from->microbatch;
    room->group.group = (uint32_t)i;
    room->group.u = from->u;
    room->group.r = from->r;
    room->group.n_ids = from->n_seqs;
    room->group.ids = (uint32_t *)from->id;
    room->group.n_length_tokens = from->n_seqs;
    room->group.length_tokens = (uint32_t *)from->length_tokens;
    room->group.n_ranks = hyd_group_degree(from);
    room->group.ranks = room->list;
    for (uint32_t k = 0; k < from->u * from->r; k++) {
        hydra__v1__rank_run__init(&room->run[k]);
        room->run[k].first = from->rank[k];
        room->run[k].count = 1;
        room->list[k] = &room->run[k];
    }
}

void hyd_fake_do_assign(struct hyd_fake *fake)
{
    static struct group_room room[MAX_GROUPS];
    const struct hyd_fake_step *step = fake->step;

    fake->current_step = step->step;
    for (int i = 0; i < HYD_FAKE_MAX_AGENTS; i++) {
        struct hyd_fake_seat *seat = &fake->seat[i];
        Hydra__V1__SchedulerMessage message = HYDRA__V1__SCHEDULER_MESSAGE__INIT;
        Hydra__V1__Assignment assignment = HYDRA__V1__ASSIGNMENT__INIT;
        Hydra__V1__Execution execution = HYDRA__V1__EXECUTION__INIT;
        Hydra__V1__AssignedGroup *list[MAX_GROUPS];

        if (!seat->is.member) {
            continue;
        }
        seat->is.n_reports = 0;
        assignment.epoch = fake->epoch;
        assignment.step = step->step;
        assignment.pass = step->forward_only ? HYDRA__V1__PASS__PASS_FORWARD
                                             : HYDRA__V1__PASS__PASS_TRAIN;
        assignment.num_microbatches = step->n_microbatches;
        assignment.deadline_ms = step->deadline_ms;
        assignment.groups = list;
        for (size_t k = 0; k < step->n_groups; k++) {
            if (touches(&step->group[k], seat)) {
                fill_group(step, k, &room[k]);
                list[assignment.n_groups++] = &room[k].group;
            }
        }
        execution.seed = step->seed;
        execution.verify = fake->config.verify_full ? HYDRA__V1__VERIFY__VERIFY_FULL
                                                    : HYDRA__V1__VERIFY__VERIFY_OFF;
        assignment.execution = &execution;
        message.kind_case = HYDRA__V1__SCHEDULER_MESSAGE__KIND_ASSIGNMENT;
        message.assignment = &assignment;
        say(seat, &message);
    }
}

void hyd_fake_do_abort(struct hyd_fake *fake)
{
    Hydra__V1__SchedulerMessage message = HYDRA__V1__SCHEDULER_MESSAGE__INIT;
    Hydra__V1__Abort out = HYDRA__V1__ABORT__INIT;

    out.epoch = fake->epoch;
    out.step = fake->abort_step;
    out.reason = (char *)"the test says so";
    message.kind_case = HYDRA__V1__SCHEDULER_MESSAGE__KIND_ABORT;
    message.abort = &out;
    to_members(fake, &message);
}

void hyd_fake_do_drain(struct hyd_fake *fake)
{
    Hydra__V1__SchedulerMessage message = HYDRA__V1__SCHEDULER_MESSAGE__INIT;
    Hydra__V1__Drain drain = HYDRA__V1__DRAIN__INIT;

    drain.reason = (char *)"the node goes down";
    message.kind_case = HYDRA__V1__SCHEDULER_MESSAGE__KIND_DRAIN;
    message.drain = &drain;
    say(hyd_fake_seat_of(fake, fake->names[0]), &message);
}

void hyd_fake_do_refuse(struct hyd_fake *fake)
{
    Hydra__V1__SchedulerMessage message = HYDRA__V1__SCHEDULER_MESSAGE__INIT;
    Hydra__V1__Refused refused = HYDRA__V1__REFUSED__INIT;
    struct hyd_fake_seat *seat = hyd_fake_seat_of(fake, fake->names[0]);

    refused.reason = (char *)"too slow";
    message.kind_case = HYDRA__V1__SCHEDULER_MESSAGE__KIND_REFUSED;
    message.refused = &refused;
    say(seat, &message);
    if (seat->call != NULL) {
        hyd_call_finish(seat->call);
    }
}
