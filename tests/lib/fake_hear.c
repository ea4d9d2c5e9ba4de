/* fake_hear.c - see fake_impl.h. */
#include <stdio.h>
#include <string.h>

#include "common/rpc/hydra_v1.h"
#include "common/sys/clock.h"
#include "proto/hydra/v1/worker.pb-c.h"
#include "tests/lib/fake_impl.h"

static void on_hello(struct hyd_fake *fake, struct hyd_call *call,
                     const Hydra__V1__Hello *hello)
{
    struct hyd_fake_seat *seat = hyd_fake_seat_of(fake, hello->node[0]);

    *seat = (struct hyd_fake_seat){.call = call};
    seat->is.attached = true;
    seat->is.n_ranks = hello->ranks;
    hyd_call_set_user(call, seat);
    hyd_fake_send_welcome(fake, seat, 0);
}

static void on_report(struct hyd_fake *fake, struct hyd_fake_seat *seat,
                      const Hydra__V1__Report *report)
{
    const Hydra__V1__StepReport *figures = report->report;
    struct hyd_fake_agent *is = &seat->is;

    if (report->epoch != fake->epoch || report->step != fake->current_step) {
        (void)fprintf(stderr, "fake scheduler: a report of step %llu epoch %u\n",
                      (unsigned long long)report->step, report->epoch);
        return;
    }
    is->n_reports++;
    is->failed = report->failed;
    is->peer_lost = report->peer_lost;
    (void)snprintf(is->reason, sizeof is->reason, "%s", report->reason);
    if (figures == NULL) {
        return;
    }
    is->n_cells = (uint32_t)figures->n_cells;
    is->n_shards = (uint32_t)figures->n_shards;
    is->digest = figures->digest;
    is->predicted_peak_bytes = figures->predicted_peak_bytes;
    is->measured_peak_bytes = figures->measured_peak_bytes;
    is->compute_s = 0.0;
    is->sent_bytes = 0;
    for (size_t i = 0; i < figures->n_cells; i++) {
        is->compute_s += figures->cells[i]->compute_s;
        is->sent_bytes += figures->cells[i]->bytes;
    }
    if (figures->check != NULL) {
        is->by_reference = figures->check->by_reference;
        is->by_single_rank = figures->check->by_single_rank;
        is->unchecked = figures->check->unchecked;
        is->max_error = figures->check->max_error;
    }
}

static void on_address(struct hyd_fake *fake, struct hyd_fake_seat *seat,
                       const Hydra__V1__Address *address)
{
    if (address->epoch != fake->epoch || address->rank >= HYD_FAKE_MAX_RANKS ||
        address->address.len > HYD_FAKE_ADDRESS_BYTES) {
        return;
    }
    if (address->address.len > 0) {
        memcpy(fake->address[address->rank], address->address.data,
               address->address.len);
    }
    fake->address_bytes[address->rank] = (uint32_t)address->address.len;
    seat->is.n_addresses++;
}

static void hear(struct hyd_fake *fake, struct hyd_fake_seat *seat,
                 const Hydra__V1__AgentMessage *message)
{
    seat->heard_ms = hyd_clock_mono_ms(hyd_clock_system());
    switch (message->kind_case) {
    case HYDRA__V1__AGENT_MESSAGE__KIND_ADDRESS:
        on_address(fake, seat, message->address);
        break;
    case HYDRA__V1__AGENT_MESSAGE__KIND_READY:
        seat->is.ready = message->ready->epoch == fake->epoch;
        break;
    case HYDRA__V1__AGENT_MESSAGE__KIND_HEARTBEAT:
        seat->is.n_beats++;
        seat->is.progress = 0;
        for (size_t i = 0; i < message->heartbeat->n_progress; i++) {
            seat->is.progress += message->heartbeat->progress[i];
        }
        break;
    case HYDRA__V1__AGENT_MESSAGE__KIND_REPORT:
        on_report(fake, seat, message->report);
        break;
    case HYDRA__V1__AGENT_MESSAGE__KIND_LEAVING:
        seat->is.leaving = true;
        break;
    default:
        break;
    }
}

static void on_open(struct hyd_call *call, const ProtobufCMessage *request)
{
    (void)call;
    (void)request;
}

static void on_message(struct hyd_call *call, const ProtobufCMessage *base)
{
    struct hyd_fake *fake = hyd_call_ctx(call);
    const Hydra__V1__AgentMessage *message = (const Hydra__V1__AgentMessage *)base;

    if (message == NULL) {
        hyd_call_finish(call);
        return;
    }
    (void)pthread_mutex_lock(&fake->lock);
    if (message->kind_case == HYDRA__V1__AGENT_MESSAGE__KIND_HELLO) {
        on_hello(fake, call, message->hello);
    }
    if (hyd_call_user(call) != NULL) {
        hear(fake, hyd_call_user(call), message);
    }
    (void)pthread_cond_broadcast(&fake->changed);
    (void)pthread_mutex_unlock(&fake->lock);
}

static void on_close(struct hyd_call *call, bool cancelled)
{
    struct hyd_fake *fake = hyd_call_ctx(call);
    struct hyd_fake_seat *seat = hyd_call_user(call);

    (void)cancelled;
    (void)pthread_mutex_lock(&fake->lock);
    if (seat != NULL && seat->call == call) {
        seat->call = NULL;
        seat->is.attached = false;
    }
    (void)pthread_cond_broadcast(&fake->changed);
    (void)pthread_mutex_unlock(&fake->lock);
}

const struct hyd_rpc_method hyd_fake_methods[1] = {
    {.spec = &hyd_rpc_attach,
     .overflow = HYD_RPC_CLOSE,
     .on_open = on_open,
     .on_message = on_message,
     .on_close = on_close},
};
