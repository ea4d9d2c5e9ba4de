/* engine_rig.c - see engine_rig.h: running the engines. */
#include "tests/lib/engine_rig.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/check.h"
#include "tests/lib/compute_naive.h"
#include "tests/lib/fault_alloc.h"
#include "tests/lib/rig.h"
#include "tests/lib/world.h"
#include "worker/transport/self/transport_self.h"

enum { MAX_QUIET_ROUNDS = 20000 };

/* Tokens and split sequences of one cell. */
static void grow_limits(const struct hyd_rig_plan *plan, uint32_t cell,
                        struct hyd_attn_limits *limits)
{
    double tokens = 0.0;
    uint32_t split = 0;

    for (size_t i = 0; i < plan->n_groups; i++) {
        const struct hyd_group *group = &plan->group[i];
        uint32_t degree = hyd_group_degree(group);
        uint32_t member;

        if (group->microbatch != cell / plan->n_ranks ||
            !hyd_group_member(group, cell % plan->n_ranks, &member)) {
            continue;
        }
        split += degree > 1 ? group->n_seqs : 0;
        for (uint32_t s = 0; s < group->n_seqs; s++) {
            tokens += (double)group->length_tokens[s] / degree;
        }
    }
    limits->split_seqs = split > limits->split_seqs ? split : limits->split_seqs;
    if (tokens > limits->cell_tokens) {
        limits->cell_tokens = (uint32_t)tokens + 1;
    }
}

void rig_reset(struct hyd_rig *rig)
{
    rig->worst_forward = rig->worst_backward = 0.0;
    rig->sent_bytes = rig->exposed_bytes = rig->digest = 0;
    rig->wait_s = rig->compute_s = 0.0;
}

struct hyd_attn_limits hyd_rig_limits(const struct hyd_rig *rig)
{
    const struct hyd_rig_plan *plan = &rig->plan;
    struct hyd_attn_limits limits = {
        .cell_tokens = 1,
        .max_u = 1,
        .max_r = 1,
        .dense = !rig->strided && !rig->dout_strided,
        .n_saved = rig->backward ? plan->n_layers : 0,
    };

    for (size_t i = 0; i < plan->n_groups; i++) {
        limits.max_u =
            plan->group[i].u > limits.max_u ? plan->group[i].u : limits.max_u;
        limits.max_r =
            plan->group[i].r > limits.max_r ? plan->group[i].r : limits.max_r;
    }
    for (uint32_t cell = 0; cell < plan->n_ranks * plan->n_microbatches; cell++) {
        grow_limits(plan, cell, &limits);
    }
    return limits;
}

static double now_s(void *ctx)
{
    struct timespec t;

    (void)ctx;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Device and engine. */
static const char *make_engine(const struct hyd_rig *rig, struct rig_rank *rank)
{
    const struct hyd_compute_config compute_config = {.n_threads = 1};
    struct hyd_attn_config config = {.model = rig->model,
                                     .limits = hyd_rig_limits(rig),
                                     .compute = rig->compute,
                                     .clock = {now_s, NULL},
                                     .slices = rig->slices};
    struct hyd_error err = {.text = ""};

    if (rig->compute->open(&compute_config, &rank->dev, &err) != HYD_OK) {
        return hyd_world_reason("open: %s", err.text);
    }
    if (rig->compute == &hyd_compute_naive) {
        hyd_compute_naive_knobs(rank->dev)->lag = rig->device_lag;
    }
    config.dev = rank->dev;
    hyd_fault_alloc_init(&rank->alloc);
    if (hyd_attn_create(&config, &rank->alloc.alloc, &rank->attn, &err) != HYD_OK) {
        return hyd_world_reason("create: %s", err.text);
    }
    return NULL;
}

static size_t n_allocs(const struct hyd_rig *rig, const struct rig_rank *rank)
{
    size_t n = rank->alloc.n_calls;

    if (rig->compute == &hyd_compute_naive) {
        n += hyd_compute_naive_knobs(rank->dev)->n_allocs;
    }
    return n;
}

const char *rig_open(const struct hyd_rig *rig, struct rig_rank *rank, uint32_t i,
                     const struct hyd_transport_ops *net,
                     struct hyd_transport *transport)
{
    const struct hyd_rig_plan *plan = &rig->plan;
    struct hyd_error err = {.text = ""};
    const char *why = rank->attn == NULL ? make_engine(rig, rank) : NULL;

    rank->net = net;
    rank->transport = transport;
    net->counters(transport, &rank->before);
    rank->n_groups = 0;
    rank->next_pass = 0;
    rank->in_pass = rank->finished = false;
    if (why != NULL) {
        return why;
    }
    if (hyd_attn_set_transport(rank->attn, net, transport, i, plan->n_ranks, &err) !=
        HYD_OK) {
        return hyd_world_reason("set_transport: %s", err.text);
    }
    for (size_t g = 0; g < plan->n_groups; g++) {
        uint32_t member;

        if (hyd_group_member(&plan->group[g], i, &member)) {
            rank->group[rank->n_groups++] = plan->group[g];
        }
    }
    rank->step = (struct hyd_attn_step){.group = rank->group,
                                        .n_groups = rank->n_groups,
                                        .figures = rank->figures,
                                        .backward = rig->backward};
    rig_make_tensors(rig, rank, i);
    if (hyd_attn_begin_step(rank->attn, &rank->step, &err) != HYD_OK) {
        return hyd_world_reason("begin_step: %s", err.text);
    }
    rank->n_allocs = n_allocs(rig, rank);
    return NULL;
}

void rig_close(const struct hyd_rig *rig, struct rig_rank *rank)
{
    if (rank->attn != NULL) {
        hyd_attn_end_step(rank->attn);
    }
    hyd_attn_free(rank->attn);
    rig_free_tensors(rig, rank);
    rig->compute->close(rank->dev);
}

/* The passes of a step, in order: forward of all layers, then backward, each microbatch. */
static bool pass_of(const struct hyd_rig *rig, uint32_t number,
                    struct hyd_attn_pass *ret_pass)
{
    uint32_t layers = rig->plan.n_layers;
    uint32_t per_microbatch = rig->backward ? 2 * layers : layers;
    uint32_t inside = number % per_microbatch;

    ret_pass->microbatch = number / per_microbatch;
    ret_pass->pass = inside < layers ? HYD_DIRECTION_FORWARD : HYD_DIRECTION_BACKWARD;
    ret_pass->layer = inside < layers ? inside : 2 * layers - 1 - inside;
    return ret_pass->microbatch < rig->plan.n_microbatches;
}

/* One advance of one rank. */
const char *rig_advance(const struct hyd_rig *rig, struct rig_rank *rank,
                        bool *ret_moved)
{
    enum hyd_attn_state state;
    struct hyd_error err = {.text = ""};
    struct hyd_attn_pass pass;

    if (!rank->in_pass) {
        struct hyd_attn_io io;

        if (!pass_of(rig, rank->next_pass, &pass)) {
            rank->finished = true;
            return NULL;
        }
        io = rig_io(rig, rank, &pass);
        if (hyd_attn_start(rank->attn, &pass, &io, &err) != HYD_OK) {
            return hyd_world_reason("start: %s", err.text);
        }
        rank->in_pass = true;
        rank->next_pass++;
    }
    if (hyd_attn_advance(rank->attn, &state, &err) != HYD_OK) {
        return hyd_world_reason("advance: %s", err.text);
    }
    *ret_moved |= state != HYD_ATTN_WAIT_NETWORK;
    rank->state = state;
    rank->in_pass = state != HYD_ATTN_DONE;
    return NULL;
}

static const char *run_all(const struct hyd_rig *rig, struct rig_rank *rank)
{
    struct hyd_rng rng = {rig->seed};
    uint32_t n_ranks = rig->plan.n_ranks;
    uint32_t n_finished = 0;
    uint32_t quiet = 0;

    while (n_finished < n_ranks) {
        bool moved = false;

        for (uint32_t i = 0; i < n_ranks; i++) {
            struct rig_rank *one = &rank[hyd_rng_below(&rng, n_ranks)];
            const char *why = one->finished ? NULL : rig_advance(rig, one, &moved);

            if (why != NULL) {
                return why;
            }
        }
        n_finished = 0;
        for (uint32_t i = 0; i < n_ranks; i++) {
            n_finished += rank[i].finished;
        }
        quiet = moved ? 0 : quiet + 1;
        if (quiet > MAX_QUIET_ROUNDS) {
            return "the ranks wait for each other";
        }
    }
    return NULL;
}

/* What one program sends and receives. */
static void add_program_bytes(const struct hyd_rig *rig, const struct hyd_group *group,
                              uint32_t own, enum hyd_direction pass,
                              uint64_t ret_bytes[2])
{
    struct hyd_program program;
    struct hyd_program_op op;

    hyd_assert(hyd_program_start(&program, &rig->model, group, own, pass, NULL) ==
               HYD_OK);
    while (hyd_program_next(&program, &op)) {
        if (op.kind == HYD_PROGRAM_POST) {
            ret_bytes[0] += op.sent_bytes * rig->plan.n_layers;
            ret_bytes[1] += op.received_bytes * rig->plan.n_layers;
        }
    }
}

/* What the programs say this rank sends and receives in a step. */
static void program_bytes(const struct hyd_rig *rig, const struct rig_rank *rank,
                          uint32_t own, uint64_t ret_bytes[2])
{
    ret_bytes[0] = ret_bytes[1] = 0;
    for (size_t i = 0; i < rank->n_groups; i++) {
        add_program_bytes(rig, &rank->group[i], own, HYD_DIRECTION_FORWARD, ret_bytes);
        if (rig->backward) {
            add_program_bytes(rig, &rank->group[i], own, HYD_DIRECTION_BACKWARD,
                              ret_bytes);
        }
    }
}

const char *rig_check(struct hyd_rig *rig, const struct rig_rank *rank, uint32_t i)
{
    struct hyd_transport_counters counters;
    struct hyd_attn_memory memory;
    uint64_t program[2], figures[2] = {0, 0};
    size_t predicted =
        hyd_attn_step_bytes(&rig->model, &rank->step, i, rig->plan.n_layers);

    rank->net->counters(rank->transport, &counters);
    counters.sent_bytes -= rank->before.sent_bytes;
    counters.received_bytes -= rank->before.received_bytes;
    program_bytes(rig, rank, i, program);
    for (size_t g = 0; g < rank->n_groups; g++) {
        figures[0] += rank->figures[g].sent_bytes;
        figures[1] += rank->figures[g].received_bytes;
        rig->exposed_bytes += rank->figures[g].exposed_bytes;
        rig->wait_s += rank->figures[g].wait_s;
        rig->compute_s += rank->figures[g].compute_s;
    }
    rig->sent_bytes += figures[0];
    if (program[0] != counters.sent_bytes || program[1] != counters.received_bytes ||
        figures[0] != program[0] || figures[1] != program[1]) {
        return hyd_world_reason("rank %u: program sends %llu bytes, engine %llu, "
                                "transport %llu",
                                i, (unsigned long long)program[0],
                                (unsigned long long)figures[0],
                                (unsigned long long)counters.sent_bytes);
    }
    hyd_attn_memory(rank->attn, &memory);
    if (memory.peak_bytes > memory.arena_bytes) {
        return hyd_world_reason("rank %u used %zu of %zu bytes", i, memory.peak_bytes,
                                memory.arena_bytes);
    }
    if (!rig->strided && !rig->dout_strided && rank->n_groups > 0 &&
        memory.peak_bytes != predicted + memory.scratch_bytes) {
        return hyd_world_reason("rank %u used %zu bytes, %zu were predicted", i,
                                memory.peak_bytes, predicted + memory.scratch_bytes);
    }
    if (n_allocs(rig, rank) != rank->n_allocs) {
        return "something was allocated while the step ran";
    }
    return rig_check_padding(rig, rank, i);
}

struct hyd_transport *rig_open_self(const struct hyd_rig *rig, uint32_t i,
                                    uint32_t epoch)
{
    struct hyd_transport *transport = NULL;
    const struct hyd_transport_config config = {
        .rank = i, .n_ranks = rig->plan.n_ranks, .epoch = epoch, .session = "rig"};

    hyd_assert(hyd_transport_self.open(&config, &transport, NULL) == HYD_OK);
    if (rig->chaos) {
        hyd_transport_self_chaos(transport, rig->seed * 31 + i + 1);
    }
    return transport;
}

/* A step that nobody disturbs, and its result. */
static const char *run_step(struct hyd_rig *rig, struct rig_rank *rank, uint32_t epoch)
{
    uint32_t n_ranks = rig->plan.n_ranks;
    const char *why = NULL;

    for (uint32_t i = 0; i < n_ranks; i++) {
        const char *failure = rig_open(
            rig, &rank[i], i, rig->net != NULL ? rig->net : &hyd_transport_self,
            rig_open_self(rig, i, epoch));

        why = why == NULL ? failure : why;
    }
    if (why == NULL) {
        why = run_all(rig, rank);
    }
    for (uint32_t i = 0; i < n_ranks && why == NULL; i++) {
        why = rig_check(rig, &rank[i], i);
    }
    return why == NULL ? rig_compare(rig, rank) : why;
}

static void close_all(const struct hyd_rig *rig, struct rig_rank *rank)
{
    for (uint32_t i = 0; i < rig->plan.n_ranks; i++) {
        hyd_transport_self.close(rank[i].transport);
        rig_close(rig, &rank[i]);
    }
    free(rank);
}

const char *hyd_rig_run(struct hyd_rig *rig)
{
    struct rig_rank *rank = calloc(rig->plan.n_ranks, sizeof *rank);
    const char *why;

    hyd_assert(rank != NULL);
    rig_reset(rig);
    why = run_step(rig, rank, 1);
    close_all(rig, rank);
    return why;
}

/* Advance at random until `n_advances` are over, or all have finished. */
static const char *run_some(const struct hyd_rig *rig, struct rig_rank *rank,
                            struct hyd_rng *rng, uint32_t n_advances)
{
    for (uint32_t n = 0; n < n_advances; n++) {
        struct rig_rank *one = &rank[hyd_rng_below(rng, rig->plan.n_ranks)];
        bool moved = false;
        const char *why = one->finished ? NULL : rig_advance(rig, one, &moved);

        if (why != NULL) {
            return why;
        }
    }
    return NULL;
}

/* Whoever is left must come to an end: finished, or failed because of the victim. */
static const char *end_without(const struct hyd_rig *rig, struct rig_rank *rank,
                               uint32_t victim)
{
    for (uint32_t n = 0; n < 200 * MAX_QUIET_ROUNDS; n++) {
        uint32_t n_left = 0;

        for (uint32_t i = 0; i < rig->plan.n_ranks; i++) {
            bool moved = false;

            if (i == victim || rank[i].finished) {
                continue;
            }
            if (n == MAX_QUIET_ROUNDS / 100) {
                /* Ranks that wait for survivors who gave up hear it from the agent. */
                hyd_transport_self.abort(rank[i].transport);
            }
            if (rig_advance(rig, &rank[i], &moved) != NULL) {
                rank[i].finished = true;
            }
            n_left += !rank[i].finished;
        }
        if (n_left == 0) {
            return NULL;
        }
    }
    return "survivors do not come to an end";
}

const char *hyd_rig_run_with_loss(struct hyd_rig *rig, uint32_t n_advances)
{
    uint32_t n_ranks = rig->plan.n_ranks;
    struct rig_rank *rank = calloc(n_ranks, sizeof *rank);
    struct hyd_rng rng = {rig->seed};
    uint32_t victim = hyd_rng_below(&rng, n_ranks);
    const char *why = NULL;

    hyd_assert(rank != NULL);
    rig_reset(rig);
    for (uint32_t i = 0; i < n_ranks && why == NULL; i++) {
        why = rig_open(rig, &rank[i], i, &hyd_transport_self, rig_open_self(rig, i, 1));
    }
    why = why == NULL ? run_some(rig, rank, &rng, n_advances) : why;
    hyd_transport_self.close(rank[victim].transport);
    rank[victim].transport = NULL;
    why = why == NULL ? end_without(rig, rank, victim) : why;
    for (uint32_t i = 0; i < n_ranks; i++) {
        hyd_transport_self.close(rank[i].transport);
        rank[i].transport = NULL;
        hyd_attn_end_step(rank[i].attn);
        rig_free_tensors(rig, &rank[i]);
    }
    /* The next epoch, with a new rank in the victim's place and the old engines. */
    why = why == NULL ? run_step(rig, rank, 2) : why;
    close_all(rig, rank);
    return why;
}
