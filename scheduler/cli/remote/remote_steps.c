/* remote_steps.c - see remote_steps.h. */
#include "scheduler/cli/remote/remote_steps.h"

#include <string.h>

#include "common/rpc/json.h"

enum { PAGE = 1000 };

static hyd_status ask(struct hyd_remote *remote, const struct hyd_remote_args *args,
                      const Hydra__V1__ListStepsRequest *request,
                      const Hydra__V1__ListStepsResponse **ret_page,
                      struct hyd_error *err)
{
    const ProtobufCMessage *response = NULL;
    hyd_status st = hyd_remote_call(remote, args, &hyd_rpc_list_steps, &request->base,
                                    &response, err);

    if (st == HYD_OK) {
        *ret_page = (const Hydra__V1__ListStepsResponse *)response;
    }
    return st;
}

/* The list made longer by a page: a new one, since the arena only grows. */
static hyd_status append(struct hyd_remote *remote, struct hyd_remote_steps *list,
                         const Hydra__V1__ListStepsResponse *page,
                         struct hyd_error *err)
{
    const size_t n = list->n + page->n_steps;
    Hydra__V1__StepInfo **step = page->steps;

    if (list->n > 0 && page->n_steps > 0) {
        step = hyd_arena_take(&remote->arena, n, sizeof(void *));
        if (step == NULL) {
            return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for %zu steps", n);
        }
        memcpy(step, list->step, list->n * sizeof(void *));
        memcpy(step + list->n, page->steps, page->n_steps * sizeof(void *));
    }
    list->step = n > list->n ? step : list->step;
    list->n = n;
    return HYD_OK;
}

hyd_status hyd_remote_steps_list(struct hyd_remote *remote,
                                 const struct hyd_remote_args *args,
                                 const struct hyd_remote_steps_query *query,
                                 struct hyd_remote_steps *ret_list,
                                 struct hyd_error *err)
{
    Hydra__V1__ListStepsRequest request = HYDRA__V1__LIST_STEPS_REQUEST__INIT;
    struct hyd_remote_steps list = {.more = true};
    hyd_status st = HYD_OK;

    request.job = (char *)query->job;
    request.from_step = query->from;
    while (st == HYD_OK && list.more && list.n < query->limit) {
        const uint64_t left = query->limit - list.n;
        const Hydra__V1__ListStepsResponse *page = NULL;

        request.limit = (uint32_t)(left < PAGE ? left : PAGE);
        st = ask(remote, args, &request, &page, err);
        if (st == HYD_OK) {
            st = append(remote, &list, page, err);
        }
        if (st == HYD_OK) {
            list.more = page->more && page->n_steps > 0;
            request.from_step = list.n > 0 ? list.step[list.n - 1]->step + 1 : 0;
        }
    }
    if (st == HYD_OK) {
        *ret_list = list;
    }
    return st;
}

json_t *hyd_remote_steps_json(const struct hyd_remote_steps *list)
{
    json_t *steps = json_array();

    for (size_t i = 0; i < list->n; i++) {
        (void)json_array_append_new(
            steps, hyd_json_encode(&list->step[i]->base, HYD_JSON_PLAIN));
    }
    return steps;
}

hyd_status hyd_remote_steps_newest(struct hyd_remote *remote,
                                   const struct hyd_remote_args *args, const char *job,
                                   uint32_t limit, struct hyd_remote_steps *ret_list,
                                   struct hyd_error *err)
{
    Hydra__V1__ListStepsRequest request = HYDRA__V1__LIST_STEPS_REQUEST__INIT;
    const Hydra__V1__ListStepsResponse *page = NULL;
    hyd_status st = HYD_OK;

    request.job = (char *)job;
    request.limit = limit;
    request.newest = true;
    st = ask(remote, args, &request, &page, err);
    if (st == HYD_OK) {
        *ret_list = (struct hyd_remote_steps){
            .step = page->steps, .n = page->n_steps, .more = page->more};
    }
    return st;
}
