/* step.c - see step.h. One switch over the event, a few lines an arm. A loss is cheap
 * here: whatever went wrong, the machine drops its generation and waits for a Welcome or
 * attaches again; only the scheduler decides who stays in. */
#include "worker/agent/step.h"

#include <stdio.h>

#include "common/base/check.h"

static const uint64_t NEVER = UINT64_MAX;

struct hyd_agent_step_config hyd_agent_step_config_default(uint32_t n_ranks,
                                                           uint64_t seed)
{
    return (struct hyd_agent_step_config){
        .n_ranks = n_ranks,
        .attach_ms = 10000,
        .retry_min_ms = 200,
        .retry_max_ms = 5000,
        .leave_ms = 2000,
        .seed = seed,
    };
}

static struct hyd_agent_update *push(struct hyd_agent_machine *machine,
                                     enum hyd_agent_update_kind kind)
{
    struct hyd_agent_update *update = NULL;

    hyd_assert(machine->n_updates < HYD_AGENT_MAX_UPDATES);
    update = &machine->update[machine->n_updates++];
    *update = (struct hyd_agent_update){
        .kind = kind,
        .epoch = machine->epoch,
        .generation = machine->generation,
        .step = machine->step,
    };
    return update;
}

static void enter(struct hyd_agent_machine *machine, enum hyd_agent_state state,
                  uint64_t end_ms)
{
    machine->state = state;
    machine->state_end_ms = end_ms;
}

static void because(struct hyd_agent_machine *machine, const char *reason)
{
    (void)snprintf(machine->reason, sizeof machine->reason, "%s",
                   reason != NULL ? reason : "");
}

static uint64_t all_ranks(const struct hyd_agent_machine *machine)
{
    return machine->config.n_ranks == 64 ? ~UINT64_C(0)
                                         : (UINT64_C(1) << machine->config.n_ranks) - 1;
}

static bool has_stream(const struct hyd_agent_machine *machine)
{
    return machine->state != HYD_AGENT_DETACHED && machine->state != HYD_AGENT_ENDED;
}

/* Between Welcome{epoch} and whatever ends the epoch for us. */
static bool in_epoch(const struct hyd_agent_machine *machine)
{
    return machine->state >= HYD_AGENT_OPENING && machine->state <= HYD_AGENT_RUNNING;
}

/* Make the ranks drop what they do, once a generation. */
static void drop_generation(struct hyd_agent_machine *machine)
{
    if (machine->generation > 0 && !machine->aborting) {
        machine->aborting = true;
        (void)push(machine, HYD_AGENT_UP_ABORT);
    }
}

static void end(struct hyd_agent_machine *machine, hyd_status status)
{
    drop_generation(machine);
    if (has_stream(machine)) {
        (void)push(machine, HYD_AGENT_UP_DETACH);
    }
    enter(machine, HYD_AGENT_ENDED, NEVER);
    machine->heartbeat_ms = 0;
    push(machine, HYD_AGENT_UP_END)->status = status;
}

/* Say goodbye; the end comes with the end of the stream. */
static void leave(struct hyd_agent_machine *machine, uint64_t now_ms, hyd_status status)
{
    drop_generation(machine);
    if (!has_stream(machine) || machine->state == HYD_AGENT_ATTACHING) {
        end(machine, status);
        return;
    }
    machine->leave_status = status;
    (void)push(machine, HYD_AGENT_UP_LEAVE);
    enter(machine, HYD_AGENT_LEAVING, now_ms + machine->config.leave_ms);
    machine->heartbeat_ms = 0;
}

static void detach(struct hyd_agent_machine *machine, uint64_t now_ms)
{
    const uint64_t delay_ms = machine->retry_ms;

    drop_generation(machine);
    machine->epoch = 0;
    machine->heartbeat_ms = 0;
    /* Between half and the whole delay, so that a fleet does not come back in step. */
    machine->retry_at_ms = now_ms + delay_ms / 2 +
                           hyd_rng_below(&machine->rng, (uint32_t)(delay_ms / 2) + 1);
    machine->retry_ms = delay_ms * 2 < machine->config.retry_max_ms
                            ? delay_ms * 2
                            : machine->config.retry_max_ms;
    enter(machine, HYD_AGENT_DETACHED, NEVER);
}

/* Whether another attempt can find the scheduler in a better mood. One that was in before
 * may find its certificate, its token or the rules half renewed. */
static bool may_attach_again(const struct hyd_agent_machine *machine, hyd_status status)
{
    switch (status) {
    case HYD_OK:
    case HYD_ERR_UNAVAILABLE:
    case HYD_ERR_TIMEOUT:
    case HYD_ERR_CANCELLED:
    case HYD_ERR_NOT_FOUND: /* the job is not open yet */
    case HYD_ERR_EXISTS: /* our last life still holds the place */
    case HYD_ERR_LIMIT:
    case HYD_ERR_NO_MEMORY:
    case HYD_ERR_IO:
    case HYD_ERR_INTERNAL:
        return true;
    case HYD_ERR_INVALID:
    case HYD_ERR_DENIED:
        return machine->was_in;
    case HYD_ERR_INFEASIBLE:
    case HYD_ERR_MALFORMED:
    case HYD_ERR_OUT_OF_RANGE:
    case HYD_ERR_UNSUPPORTED:
        break;
    }
    return false;
}

static void on_stream_ended(struct hyd_agent_machine *machine, uint64_t now_ms,
                            const struct hyd_agent_event *event)
{
    if (!has_stream(machine)) {
        return;
    }
    if (machine->state == HYD_AGENT_LEAVING) {
        enter(machine, HYD_AGENT_DETACHED, NEVER); /* the stream is gone already */
        end(machine, machine->leave_status);
        return;
    }
    because(machine, event->reason);
    detach(machine, now_ms);
    if (machine->draining) {
        end(machine, HYD_OK);
    } else if (!may_attach_again(machine, event->status)) {
        end(machine, event->status);
    }
}

static void on_welcome(struct hyd_agent_machine *machine, uint64_t now_ms,
                       const struct hyd_agent_event *event)
{
    if (!has_stream(machine) || machine->state == HYD_AGENT_LEAVING) {
        return;
    }
    if (event->heartbeat_ms > 0) {
        if (machine->heartbeat_ms == 0) {
            machine->beat_at_ms = now_ms;
        }
        machine->heartbeat_ms = event->heartbeat_ms;
    }
    machine->was_in = true;
    machine->retry_ms = machine->config.retry_min_ms;
    if (event->epoch == 0) {
        /* Said once, when a stream begins: a double of it must not end an epoch. */
        if (machine->state != HYD_AGENT_ATTACHING) {
            return;
        }
        because(machine, "the scheduler holds us back");
        enter(machine, HYD_AGENT_WAITING, NEVER);
        return;
    }
    if (event->epoch <= machine->epoch) {
        return;
    }
    because(machine, "a new epoch begins");
    drop_generation(machine);
    machine->epoch = event->epoch;
    machine->generation++;
    machine->aborting = false;
    machine->todo = all_ranks(machine);
    (void)push(machine, HYD_AGENT_UP_OPEN);
    enter(machine, HYD_AGENT_OPENING, NEVER);
}

/* The step that runs has failed here: tell, drop it, and wait for the next epoch. */
static void fail_step(struct hyd_agent_machine *machine, bool peer_lost)
{
    struct hyd_agent_update *report = NULL;

    drop_generation(machine);
    report = push(machine, HYD_AGENT_UP_REPORT);
    report->failed = true;
    report->peer_lost = peer_lost;
    enter(machine, HYD_AGENT_SPENT, NEVER);
}

static void on_assignment(struct hyd_agent_machine *machine, uint64_t now_ms,
                          const struct hyd_agent_event *event)
{
    if (machine->state != HYD_AGENT_READY || event->epoch != machine->epoch) {
        return;
    }
    machine->step = event->step;
    machine->todo = all_ranks(machine);
    machine->patience_ms = event->deadline_ms * 2;
    enter(machine, HYD_AGENT_RUNNING,
          machine->patience_ms > 0 ? now_ms + machine->patience_ms : NEVER);
    if (event->status != HYD_OK) {
        because(machine, event->reason);
        fail_step(machine, false);
        return;
    }
    (void)push(machine, HYD_AGENT_UP_START);
}

static void on_rank_failed(struct hyd_agent_machine *machine, uint64_t now_ms,
                           const struct hyd_agent_event *event)
{
    because(machine, event->reason);
    if (machine->state == HYD_AGENT_RUNNING) {
        fail_step(machine, event->peer_lost);
        if (machine->draining) {
            leave(machine, now_ms, HYD_OK);
        }
        return;
    }
    if (event->peer_lost) {
        drop_generation(machine);
        enter(machine, HYD_AGENT_SPENT, NEVER);
        return;
    }
    leave(machine, now_ms, event->status);
}

static void on_rank(struct hyd_agent_machine *machine, uint64_t now_ms,
                    const struct hyd_agent_event *event)
{
    const uint64_t bit = UINT64_C(1) << event->rank;
    enum hyd_agent_state wants = HYD_AGENT_OPENING;

    hyd_assert(event->rank < machine->config.n_ranks);
    if (event->generation != machine->generation || !in_epoch(machine)) {
        return;
    }
    if (event->kind == HYD_AGENT_EV_FAILED) {
        on_rank_failed(machine, now_ms, event);
        return;
    }
    if (event->kind == HYD_AGENT_EV_JOINED) {
        wants = HYD_AGENT_JOINING;
    } else if (event->kind == HYD_AGENT_EV_DONE) {
        wants = HYD_AGENT_RUNNING;
    }
    if (machine->state != wants || (machine->todo & bit) == 0) {
        return;
    }
    machine->todo &= ~bit;
    if (wants == HYD_AGENT_OPENING) {
        push(machine, HYD_AGENT_UP_ADDRESS)->rank = event->rank;
    }
    if (machine->todo != 0) {
        return;
    }
    if (wants == HYD_AGENT_OPENING) {
        enter(machine, HYD_AGENT_ADDRESSED, NEVER);
    } else if (wants == HYD_AGENT_JOINING) {
        (void)push(machine, HYD_AGENT_UP_READY);
        enter(machine, HYD_AGENT_READY, NEVER);
    } else {
        (void)push(machine, HYD_AGENT_UP_REPORT);
        enter(machine, HYD_AGENT_READY, NEVER);
        if (machine->draining) {
            leave(machine, now_ms, HYD_OK);
        }
    }
}

static void on_abort(struct hyd_agent_machine *machine, uint64_t now_ms,
                     const struct hyd_agent_event *event)
{
    if (!in_epoch(machine) || event->epoch != machine->epoch ||
        (machine->state == HYD_AGENT_RUNNING && event->step != machine->step)) {
        return;
    }
    because(machine, event->reason);
    drop_generation(machine);
    enter(machine, HYD_AGENT_SPENT, NEVER);
    if (machine->draining) {
        leave(machine, now_ms, HYD_OK);
    }
}

static void on_goodbye(struct hyd_agent_machine *machine, uint64_t now_ms,
                       const struct hyd_agent_event *event)
{
    const bool again = event->kind == HYD_AGENT_EV_STOP && machine->draining;

    because(machine, event->reason);
    machine->draining = true;
    if (machine->state == HYD_AGENT_LEAVING) {
        if (again) {
            end(machine, machine->leave_status);
        }
    } else if (machine->state != HYD_AGENT_RUNNING || again) {
        leave(machine, now_ms, HYD_OK);
    }
}

static void on_tick(struct hyd_agent_machine *machine, uint64_t now_ms,
                    const struct hyd_agent_event *event)
{
    if (machine->state == HYD_AGENT_RUNNING && machine->patience_ms > 0 &&
        event->progress != machine->progress) {
        machine->state_end_ms = now_ms + machine->patience_ms;
    }
    machine->progress = event->progress;
    if (machine->state == HYD_AGENT_DETACHED && now_ms >= machine->retry_at_ms) {
        (void)push(machine, HYD_AGENT_UP_ATTACH);
        enter(machine, HYD_AGENT_ATTACHING, now_ms + machine->config.attach_ms);
        return;
    }
    if (now_ms >= machine->state_end_ms) {
        if (machine->state == HYD_AGENT_ATTACHING) {
            because(machine, "the scheduler does not answer");
            (void)push(machine, HYD_AGENT_UP_DETACH);
            detach(machine, now_ms);
        } else if (machine->state == HYD_AGENT_RUNNING) {
            because(machine, "no rank here moved for twice the step's deadline");
            fail_step(machine, false);
            if (machine->draining) {
                leave(machine, now_ms, HYD_OK);
            }
        } else if (machine->state == HYD_AGENT_LEAVING) {
            end(machine, machine->leave_status);
        }
    }
    if (machine->heartbeat_ms > 0 && now_ms >= machine->beat_at_ms) {
        (void)push(machine, HYD_AGENT_UP_BEAT);
        /* Never later than told, and not in step with the rest of the fleet. */
        machine->beat_at_ms =
            now_ms + machine->heartbeat_ms -
            hyd_rng_below(&machine->rng, (uint32_t)(machine->heartbeat_ms / 8) + 1);
    }
}

void hyd_agent_step_init(struct hyd_agent_machine *machine,
                         const struct hyd_agent_step_config *config, uint64_t now_ms)
{
    hyd_assert(config->n_ranks >= 1 && config->n_ranks <= HYD_AGENT_MAX_RANKS);
    *machine = (struct hyd_agent_machine){
        .config = *config,
        .state = HYD_AGENT_DETACHED,
        .rng = {config->seed},
        .state_end_ms = NEVER,
        .retry_at_ms = now_ms,
        .retry_ms = config->retry_min_ms,
    };
}

void hyd_agent_step_handle(struct hyd_agent_machine *machine, uint64_t now_ms,
                           const struct hyd_agent_event *event)
{
    machine->n_updates = 0;
    if (machine->state == HYD_AGENT_ENDED) {
        return;
    }
    switch (event->kind) {
    case HYD_AGENT_EV_TICK:
        on_tick(machine, now_ms, event);
        break;
    case HYD_AGENT_EV_STREAM_ENDED:
        on_stream_ended(machine, now_ms, event);
        break;
    case HYD_AGENT_EV_WELCOME:
        on_welcome(machine, now_ms, event);
        break;
    case HYD_AGENT_EV_MEMBERS:
        if (machine->state == HYD_AGENT_ADDRESSED && event->epoch == machine->epoch) {
            machine->todo = all_ranks(machine);
            (void)push(machine, HYD_AGENT_UP_JOIN);
            enter(machine, HYD_AGENT_JOINING, NEVER);
        }
        break;
    case HYD_AGENT_EV_ASSIGNMENT:
        on_assignment(machine, now_ms, event);
        break;
    case HYD_AGENT_EV_ABORT:
        on_abort(machine, now_ms, event);
        break;
    case HYD_AGENT_EV_REFUSED:
        because(machine, event->reason);
        end(machine, HYD_ERR_DENIED);
        break;
    case HYD_AGENT_EV_BROKEN:
        because(machine, event->reason);
        if (machine->state != HYD_AGENT_LEAVING) {
            leave(machine, now_ms, event->status);
        }
        break;
    case HYD_AGENT_EV_OPENED:
    case HYD_AGENT_EV_JOINED:
    case HYD_AGENT_EV_DONE:
    case HYD_AGENT_EV_FAILED:
        on_rank(machine, now_ms, event);
        break;
    case HYD_AGENT_EV_DRAIN:
    case HYD_AGENT_EV_STOP:
        on_goodbye(machine, now_ms, event);
        break;
    }
}

uint64_t hyd_agent_step_next_ms(const struct hyd_agent_machine *machine)
{
    uint64_t next_ms = machine->state_end_ms;

    if (machine->state == HYD_AGENT_DETACHED) {
        return machine->retry_at_ms;
    }
    if (machine->heartbeat_ms > 0 && machine->beat_at_ms < next_ms) {
        next_ms = machine->beat_at_ms;
    }
    return next_ms;
}

const char *hyd_agent_state_name(enum hyd_agent_state state)
{
    switch (state) {
    case HYD_AGENT_DETACHED:
        return "detached";
    case HYD_AGENT_ATTACHING:
        return "attaching";
    case HYD_AGENT_WAITING:
        return "waiting";
    case HYD_AGENT_OPENING:
        return "opening";
    case HYD_AGENT_ADDRESSED:
        return "addressed";
    case HYD_AGENT_JOINING:
        return "joining";
    case HYD_AGENT_READY:
        return "ready";
    case HYD_AGENT_RUNNING:
        return "running";
    case HYD_AGENT_SPENT:
        return "spent";
    case HYD_AGENT_LEAVING:
        return "leaving";
    case HYD_AGENT_ENDED:
        return "ended";
    }
    return "unknown";
}
