/* step_view.c - what the shell may see of the machine; see step.h. */
#include <xxhash.h>

#include "common/base/banned.h"
#include "scheduler/core/step_impl.h"

const struct hyd_step_update *hyd_step_updates(const struct hyd_step_machine *machine,
                                               size_t *ret_n)
{
    *ret_n = machine->n_updates;
    return machine->update;
}

uint64_t hyd_step_next_ms(const struct hyd_step_machine *machine)
{
    uint64_t next = machine->wake_ms;

    if (machine->n_agents > 0 && machine->next_scan_ms < next) {
        next = machine->next_scan_ms;
    }
    if (machine->doubt_until_ms != 0 && machine->doubt_until_ms < next) {
        next = machine->doubt_until_ms;
    }
    return next;
}

const struct hyd_step_agent *hyd_step_agent(const struct hyd_step_machine *machine,
                                            uint32_t slot)
{
    return slot < machine->n_slots ? machine->agent[slot] : NULL;
}

uint32_t hyd_step_n_slots(const struct hyd_step_machine *machine)
{
    return machine->n_slots;
}

uint32_t hyd_step_n_agents(const struct hyd_step_machine *machine)
{
    return machine->n_agents;
}

const struct hyd_step_record *hyd_step_find(const struct hyd_step_machine *machine,
                                            uint64_t step)
{
    size_t low = 0;
    size_t high = machine->n_records;

    while (low < high) {
        const size_t mid = low + (high - low) / 2;

        if (machine->record[mid].step < step) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low < machine->n_records && machine->record[low].step == step
               ? &machine->record[low]
               : NULL;
}

bool hyd_step_in_flight(const struct hyd_step_machine *machine, uint64_t *ret_step)
{
    if (machine->in_flight) {
        *ret_step = machine->running;
    }
    return machine->in_flight;
}

uint32_t hyd_step_n_ahead(const struct hyd_step_machine *machine)
{
    return machine->n_ahead;
}

uint32_t hyd_step_epoch(const struct hyd_step_machine *machine)
{
    return machine->epoch;
}

enum hyd_epoch_phase hyd_step_phase(const struct hyd_step_machine *machine)
{
    return machine->phase;
}

uint32_t hyd_step_world(const struct hyd_step_machine *machine)
{
    return machine->world;
}

bool hyd_step_closed(const struct hyd_step_machine *machine)
{
    return machine->closed;
}

uint64_t hyd_step_key(const struct hyd_batch *batch, enum hyd_pass pass)
{
    const uint64_t with_work =
        batch->extra_work_s == NULL
            ? 0
            : XXH64(batch->extra_work_s, batch->n_seqs * sizeof *batch->extra_work_s,
                    1);

    return XXH64(batch->length_tokens, batch->n_seqs * sizeof *batch->length_tokens,
                 with_work + (pass == HYD_PASS_FORWARD ? 1 : 0));
}

const char *hyd_step_state_name(enum hyd_step_state state)
{
    switch (state) {
    case HYD_STEP_PLANNING:
        return "planning";
    case HYD_STEP_PLANNED:
        return "planned";
    case HYD_STEP_ASSIGNED:
        return "assigned";
    case HYD_STEP_RUNNING:
        return "running";
    case HYD_STEP_REPLANNED:
        return "replanned";
    case HYD_STEP_DONE:
        return "done";
    case HYD_STEP_FAILED:
        return "failed";
    }
    return "unknown";
}
