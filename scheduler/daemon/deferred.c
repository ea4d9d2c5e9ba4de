/* deferred.c - see deferred.h. */
#include "scheduler/daemon/deferred.h"

#include "scheduler/daemon/service.h"

#include "common/base/banned.h"

static void on_done(void *ctx, hyd_status status)
{
    struct hyd_deferred *deferred = ctx;

    hyd_service_note_journal(deferred->service, status);
    if (deferred->call != NULL) {
        hyd_call_set_user(deferred->call, NULL);
        deferred->finish(deferred, status);
    }
    hyd_alloc_free(deferred->service->config.alloc, deferred);
}

void hyd_defer(struct hyd_call *call, const struct hyd_deferred *made,
               struct hyd_journal_op *op)
{
    struct hyd_service *service = made->service;
    struct hyd_deferred *deferred =
        hyd_alloc_zeroed(service->config.alloc, 1, sizeof *deferred);

    if (deferred == NULL) {
        hyd_call_fail(call, HYD_ERR_NO_MEMORY, NULL);
        op->done = NULL;
    } else {
        *deferred = *made;
        deferred->call = call;
        hyd_call_set_user(call, deferred);
        op->done = on_done;
        op->ctx = deferred;
    }
    hyd_journal_put(service->journal, service->config.alloc, op);
}

void hyd_deferred_unwritten(struct hyd_deferred *deferred, const char *why)
{
    struct hyd_error err = {0};

    hyd_call_fail(deferred->call,
                  hyd_error_field(&err, HYD_ERR_UNAVAILABLE, "journal", "%s", why),
                  &err);
}

void hyd_deferred_close(struct hyd_call *call, bool cancelled)
{
    struct hyd_deferred *deferred = hyd_call_user(call);

    (void)cancelled;
    if (deferred != NULL) {
        deferred->call = NULL;
    }
}
