/* Whatever comes in which order, an agent reports a step once, says Ready only when all its
 * ranks are, and never goes back an epoch. */
#include "worker/agent/step.h"

#include "tests/lib/prop.h"
#include "tests/lib/test.h"

struct watch {
    uint64_t opened; /* bits of ranks of this generation */
    uint64_t joined;
    uint64_t done;
    uint64_t generation;
    uint32_t epoch;
    uint64_t step;
    bool running;
    bool stream;
    bool ended;
};

/* What must hold of each update, whatever came before. */
static const char *watch_update(struct watch *watch, const struct hyd_agent_update *up,
                                uint64_t all)
{
    if (watch->ended) {
        return "an update after the end";
    }
    switch (up->kind) {
    case HYD_AGENT_UP_ATTACH:
        if (watch->stream) {
            return "two streams";
        }
        watch->stream = true;
        watch->epoch = 0;
        break;
    case HYD_AGENT_UP_DETACH:
        watch->stream = false;
        break;
    case HYD_AGENT_UP_OPEN:
        if (up->generation <= watch->generation || up->epoch <= watch->epoch ||
            watch->running) {
            return "a generation or epoch did not rise, or a step still runs";
        }
        *watch = (struct watch){
            .generation = up->generation, .epoch = up->epoch, .stream = watch->stream};
        break;
    case HYD_AGENT_UP_READY:
        if (watch->joined != all || watch->opened != all) {
            return "ready before all ranks are";
        }
        break;
    case HYD_AGENT_UP_START:
        if (watch->running) {
            return "two steps at a time";
        }
        watch->running = true;
        watch->step = up->step;
        watch->done = 0;
        break;
    case HYD_AGENT_UP_REPORT:
        if (watch->step != up->step || (!up->failed && watch->done != all)) {
            return "a report that is not due";
        }
        watch->step = UINT64_MAX; /* once */
        watch->running = false;
        break;
    case HYD_AGENT_UP_ABORT:
        watch->running = false;
        break;
    case HYD_AGENT_UP_END:
        watch->ended = true;
        break;
    case HYD_AGENT_UP_ADDRESS:
    case HYD_AGENT_UP_JOIN:
    case HYD_AGENT_UP_BEAT:
    case HYD_AGENT_UP_LEAVE:
        break;
    }
    if (up->kind >= HYD_AGENT_UP_ADDRESS && up->kind != HYD_AGENT_UP_ABORT &&
        up->kind != HYD_AGENT_UP_END && !watch->stream) {
        return "a message without a stream";
    }
    return NULL;
}

/* Turn the event into one that the state waits for. */
static void helpful(struct hyd_agent_event *event,
                    const struct hyd_agent_machine *machine)
{
    event->epoch = machine->epoch;
    event->generation = machine->generation;
    switch (machine->state) {
    case HYD_AGENT_OPENING:
        event->kind = HYD_AGENT_EV_OPENED;
        break;
    case HYD_AGENT_ADDRESSED:
        event->kind = HYD_AGENT_EV_MEMBERS;
        break;
    case HYD_AGENT_JOINING:
        event->kind = HYD_AGENT_EV_JOINED;
        break;
    case HYD_AGENT_READY:
        event->kind = HYD_AGENT_EV_ASSIGNMENT;
        event->status = HYD_OK;
        break;
    case HYD_AGENT_RUNNING:
        event->kind = HYD_AGENT_EV_DONE;
        break;
    case HYD_AGENT_ATTACHING:
    case HYD_AGENT_WAITING:
    case HYD_AGENT_SPENT:
        event->kind = HYD_AGENT_EV_WELCOME;
        event->epoch++;
        break;
    case HYD_AGENT_DETACHED:
    case HYD_AGENT_LEAVING:
    case HYD_AGENT_ENDED:
        event->kind = HYD_AGENT_EV_TICK;
        break;
    }
}

static struct hyd_agent_event any_event(struct hyd_rng *rng,
                                        const struct hyd_agent_machine *machine)
{
    struct hyd_agent_event event = {
        .kind = (enum hyd_agent_event_kind)hyd_rng_below(rng, HYD_AGENT_EV_STOP + 1),
        .epoch =
            machine->epoch + (hyd_rng_below(rng, 4) == 0 ? hyd_rng_below(rng, 3) : 0),
        .step = machine->step + hyd_rng_below(rng, 2),
        .deadline_ms = UINT64_C(100) * hyd_rng_below(rng, 3),
        .heartbeat_ms = 300,
        .generation = machine->generation - (hyd_rng_below(rng, 8) == 0 ? 1 : 0),
        .rank = hyd_rng_below(rng, machine->config.n_ranks),
        .peer_lost = hyd_rng_below(rng, 2) == 0,
        .status = hyd_rng_below(rng, 20) == 0 ? HYD_ERR_DENIED : HYD_ERR_UNAVAILABLE,
        .reason = "any",
    };

    if (hyd_rng_below(rng, 2) == 0) {
        helpful(&event, machine);
        return event;
    }
    /* Goodbyes are rare, or every case ends early; what helps on is frequent. */
    if ((event.kind == HYD_AGENT_EV_STOP || event.kind == HYD_AGENT_EV_DRAIN ||
         event.kind == HYD_AGENT_EV_REFUSED || event.kind == HYD_AGENT_EV_BROKEN ||
         event.kind == HYD_AGENT_EV_FAILED ||
         event.kind == HYD_AGENT_EV_STREAM_ENDED) &&
        hyd_rng_below(rng, 10) != 0) {
        event.kind = HYD_AGENT_EV_TICK;
    }
    return event;
}

static void watch_event(struct watch *watch, const struct hyd_agent_event *event)
{
    const uint64_t bit = UINT64_C(1) << event->rank;

    if (event->kind == HYD_AGENT_EV_STREAM_ENDED) {
        watch->stream = false;
    } else if (event->kind == HYD_AGENT_EV_ASSIGNMENT && event->status != HYD_OK &&
               !watch->running) {
        watch->step = event->step; /* unusable: reported without a start */
    } else if (event->generation == watch->generation) {
        watch->opened |= event->kind == HYD_AGENT_EV_OPENED ? bit : 0;
        watch->joined |= event->kind == HYD_AGENT_EV_JOINED ? bit : 0;
        watch->done |= event->kind == HYD_AGENT_EV_DONE ? bit : 0;
    }
}

static const char *agent_step_keeps_its_promises(struct hyd_rng *rng, void *ctx)
{
    const uint32_t n_ranks = 1 + hyd_rng_below(rng, 3);
    const struct hyd_agent_step_config config =
        hyd_agent_step_config_default(n_ranks, hyd_rng_next(rng));
    struct hyd_agent_machine machine;
    struct watch watch = {.step = UINT64_MAX};
    uint64_t now_ms = 0;
    unsigned *n_reports = ctx;

    hyd_agent_step_init(&machine, &config, 0);
    for (unsigned i = 0; i < 400; i++) {
        const struct hyd_agent_event event = any_event(rng, &machine);

        now_ms += hyd_rng_below(rng, 50);
        watch_event(&watch, &event);
        hyd_agent_step_handle(&machine, now_ms, &event);
        for (size_t k = 0; k < machine.n_updates; k++) {
            const char *why =
                watch_update(&watch, &machine.update[k], (UINT64_C(1) << n_ranks) - 1);

            if (why != NULL) {
                return hyd_prop_reason("event %u (kind %d): %s", i, (int)event.kind,
                                       why);
            }
            *n_reports += machine.update[k].kind == HYD_AGENT_UP_REPORT;
        }
        if (machine.state != HYD_AGENT_ENDED &&
            hyd_agent_step_next_ms(&machine) == UINT64_MAX &&
            machine.heartbeat_ms > 0) {
            return "nobody would wake the machine for its heartbeat";
        }
    }
    return NULL;
}

static void agent_step_survives_any_list_of_events(void **state)
{
    unsigned n_reports = 0;

    (void)state;
    hyd_prop_run("agent_step_keeps_its_promises", 500, agent_step_keeps_its_promises,
                 &n_reports);
    assert_true(n_reports > 20); /* the lists do get that far */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agent_step_survives_any_list_of_events),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
