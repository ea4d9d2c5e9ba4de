/* step_rig.c - see step_rig.h. */
#include "tests/lib/step_rig.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/test.h"

static void note(struct step_rig *rig, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void note(struct step_rig *rig, const char *format, ...)
{
    const size_t at = strlen(rig->said);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(rig->said + at, sizeof rig->said - at, format, args);
    va_end(args);
}

static void note_update(struct step_rig *rig, const struct hyd_step_update *up)
{
    const unsigned long long step = (unsigned long long)up->step;

    switch (up->kind) {
    case HYD_STEP_UP_HOLD:
        note(rig, "hold %u; ", up->agent);
        break;
    case HYD_STEP_UP_WELCOME:
        note(rig, "welcome e%u w%u; ", up->epoch, up->n_ranks);
        break;
    case HYD_STEP_UP_MEMBERS:
        note(rig, "members e%u; ", up->epoch);
        break;
    case HYD_STEP_UP_ASSIGN:
        note(rig, "assign %llu e%u; ", step, up->epoch);
        break;
    case HYD_STEP_UP_ABORT:
        note(rig, "abort %llu e%u (%s); ", step, up->epoch, up->reason);
        break;
    case HYD_STEP_UP_LATE:
        note(rig, "late %u (%s); ", up->agent, up->reason);
        break;
    case HYD_STEP_UP_DRAIN:
        note(rig, "drain %u; ", up->agent);
        break;
    case HYD_STEP_UP_DROP:
        note(rig, "drop %u (%s); ", up->agent, up->reason);
        break;
    case HYD_STEP_UP_SHUT:
        note(rig, "shut (%s); ", up->reason);
        break;
    case HYD_STEP_UP_READMIT:
        note(rig, "readmit (%s); ", up->reason);
        break;
    case HYD_STEP_UP_PLAN:
        note(rig, "plan %llu for %u; ", step, up->n_ranks);
        break;
    case HYD_STEP_UP_STATE:
        if (up->state == HYD_STEP_FAILED) {
            note(rig, "%llu failed %s (%s); ", step, hyd_status_name(up->status),
                 up->reason);
        } else {
            note(rig, "%llu %s; ", step, hyd_step_state_name(up->state));
        }
        break;
    case HYD_STEP_UP_FORGET:
        note(rig, "forget %llu; ", step);
        break;
    }
}

void step_rig_feed(struct step_rig *rig, struct hyd_step_event ev)
{
    size_t n = 0;
    const struct hyd_step_update *up = NULL;

    rig->said[0] = '\0';
    rig->repeat = false;
    rig->st = hyd_step_handle(rig->m, rig->now_ms, &ev, &rig->repeat, &rig->err);
    up = hyd_step_updates(rig->m, &n);
    for (size_t i = 0; i < n; i++) {
        note_update(rig, &up[i]);
    }
}

void step_rig_attach(struct step_rig *rig, uint32_t slot, const char *node,
                     uint32_t n_ranks)
{
    step_rig_feed(rig, (struct hyd_step_event){.kind = HYD_STEP_EV_ATTACH,
                                               .agent = slot,
                                               .node = node,
                                               .transport = "ucx",
                                               .n_ranks = n_ranks,
                                               .heartbeat_ms = 1000});
}

void step_rig_beat(struct step_rig *rig, uint32_t slot, uint64_t count)
{
    const uint64_t progress[8] = {count, count, count, count};

    step_rig_feed(rig, (struct hyd_step_event){.kind = HYD_STEP_EV_BEAT,
                                               .agent = slot,
                                               .epoch = hyd_step_epoch(rig->m),
                                               .progress = progress,
                                               .n_progress = 2});
}

void step_rig_addresses(struct step_rig *rig, uint32_t slot)
{
    const struct hyd_step_agent *agent = hyd_step_agent(rig->m, slot);

    for (uint32_t k = 0; k < agent->n_ranks; k++) {
        step_rig_feed(rig, (struct hyd_step_event){.kind = HYD_STEP_EV_ADDRESS,
                                                   .agent = slot,
                                                   .epoch = hyd_step_epoch(rig->m),
                                                   .rank = agent->first_rank + k});
    }
}

void step_rig_ready(struct step_rig *rig, uint32_t slot)
{
    step_rig_feed(rig, (struct hyd_step_event){.kind = HYD_STEP_EV_READY,
                                               .agent = slot,
                                               .epoch = hyd_step_epoch(rig->m)});
}

void step_rig_submit(struct step_rig *rig, uint64_t step, uint64_t key)
{
    step_rig_feed(rig, (struct hyd_step_event){
                           .kind = HYD_STEP_EV_SUBMIT, .step = step, .key = key});
}

void step_rig_planned(struct step_rig *rig, uint64_t step, uint32_t n_ranks)
{
    const struct hyd_step_record *rec = hyd_step_find(rig->m, step);

    step_rig_feed(rig, (struct hyd_step_event){.kind = HYD_STEP_EV_PLANNED,
                                               .step = step,
                                               .plan_id = rec->plan_id,
                                               .plan_ranks = n_ranks,
                                               .predicted_s = 0.5});
}

void step_rig_report(struct step_rig *rig, uint32_t slot, uint64_t step)
{
    step_rig_feed(rig, (struct hyd_step_event){.kind = HYD_STEP_EV_REPORT,
                                               .agent = slot,
                                               .epoch = hyd_step_epoch(rig->m),
                                               .step = step});
}

void step_rig_detach(struct step_rig *rig, uint32_t slot)
{
    step_rig_feed(rig, (struct hyd_step_event){.kind = HYD_STEP_EV_DETACH,
                                               .agent = slot,
                                               .reason = "stream broke"});
}

void step_rig_tick(struct step_rig *rig, uint64_t ms)
{
    rig->now_ms += ms;
    step_rig_feed(rig, (struct hyd_step_event){.kind = HYD_STEP_EV_TICK});
}

void step_rig_pass(struct step_rig *rig, uint64_t ms)
{
    const uint64_t end_ms = rig->now_ms + ms;

    while (hyd_step_next_ms(rig->m) < end_ms) {
        const uint64_t next_ms = hyd_step_next_ms(rig->m);

        step_rig_tick(rig, next_ms > rig->now_ms ? next_ms - rig->now_ms : 0);
    }
    rig->now_ms = end_ms;
}

void step_rig_start(struct step_rig *rig, const struct hyd_step_config *config)
{
    *rig = (struct step_rig){.now_ms = 100000};
    assert_int_equal(hyd_step_create(hyd_alloc_system(), config, 0, &rig->m), HYD_OK);
}

struct hyd_step_config step_rig_config(void)
{
    struct hyd_step_config config = hyd_step_config_default();

    config.n_ranks = 4;
    return config;
}

/* Two agents of two ranks, in an epoch that is ready. */
void step_rig_start_ready(struct step_rig *rig, const struct hyd_step_config *config)
{
    step_rig_start(rig, config);
    step_rig_attach(rig, 0, "a", 2);
    step_rig_attach(rig, 1, "b", 2);
    step_rig_addresses(rig, 0);
    step_rig_addresses(rig, 1);
    step_rig_ready(rig, 0);
    step_rig_ready(rig, 1);
    assert_int_equal(hyd_step_phase(rig->m), HYD_EPOCH_READY);
}

/* And step 1 is with them. */
void step_rig_start_assigned(struct step_rig *rig, const struct hyd_step_config *config)
{
    step_rig_start_ready(rig, config);
    step_rig_submit(rig, 1, 7);
    step_rig_planned(rig, 1, 4);
    assert_string_equal(rig->said, "1 planned; 1 assigned; assign 1 e1; ");
}

void step_rig_stop(struct step_rig *rig)
{
    hyd_step_free(rig->m);
}
