/* handlers.c - the table of methods; see handlers.h. */
#include "scheduler/daemon/handlers.h"

#include "common/rpc/hydra_v1.h"
#include "scheduler/daemon/agents.h"
#include "scheduler/daemon/deferred.h"
#include "scheduler/daemon/service.h"
#include "scheduler/daemon/submit.h"
#include "scheduler/daemon/watch.h"

#include "common/base/banned.h"

enum { LOOK = HYD_ROLE_READER | HYD_ROLE_TRAINER };

const struct hyd_rpc_method hyd_daemon_methods[] = {
    {.spec = &hyd_rpc_open_job,
     .roles = HYD_ROLE_TRAINER,
     .on_open = hyd_handle_open_job,
     .on_close = hyd_deferred_close},
    {.spec = &hyd_rpc_close_job,
     .roles = HYD_ROLE_TRAINER,
     .on_open = hyd_handle_close_job,
     .on_close = hyd_deferred_close},
    {.spec = &hyd_rpc_list_jobs, .roles = LOOK, .on_open = hyd_handle_list_jobs},
    {.spec = &hyd_rpc_get_job, .roles = LOOK, .on_open = hyd_handle_get_job},
    {.spec = &hyd_rpc_submit_step,
     .roles = HYD_ROLE_TRAINER,
     .n_prearm = 32,
     .on_open = hyd_submit_open,
     .on_close = hyd_submit_close},
    {.spec = &hyd_rpc_train,
     .roles = HYD_ROLE_TRAINER,
     .overflow = HYD_RPC_REFUSE,
     .on_open = hyd_train_open,
     .on_message = hyd_train_message,
     .on_writable = hyd_train_writable,
     .on_close = hyd_train_close},
    {.spec = &hyd_rpc_plan,
     .roles = LOOK,
     .n_prearm = 32,
     .on_open = hyd_handle_plan,
     .on_close = hyd_handle_plan_close},
    {.spec = &hyd_rpc_report_step,
     .roles = HYD_ROLE_TRAINER,
     .on_open = hyd_handle_report_step,
     .on_close = hyd_deferred_close},
    {.spec = &hyd_rpc_get_plan,
     .roles = LOOK,
     .overflow = HYD_RPC_REFUSE,
     .on_open = hyd_get_plan_open,
     .on_writable = hyd_get_plan_writable,
     .on_close = hyd_get_plan_close},
    {.spec = &hyd_rpc_list_steps, .roles = LOOK, .on_open = hyd_handle_list_steps},
    {.spec = &hyd_rpc_watch_steps,
     .roles = LOOK,
     .overflow = HYD_RPC_REFUSE,
     .n_prearm = 32,
     .on_open = hyd_watch_open,
     .on_writable = hyd_watch_writable,
     .on_close = hyd_watch_close},
    {.spec = &hyd_rpc_get_cost_model,
     .roles = LOOK,
     .on_open = hyd_handle_get_cost_model},
    {.spec = &hyd_rpc_set_cost_model,
     .roles = HYD_ROLE_TRAINER,
     .on_open = hyd_handle_set_cost_model,
     .on_close = hyd_deferred_close},
    {.spec = &hyd_rpc_list_workers, .roles = LOOK, .on_open = hyd_handle_list_workers},
    {.spec = &hyd_rpc_drain_node,
     .roles = HYD_ROLE_TRAINER,
     .on_open = hyd_handle_drain_node},
    {.spec = &hyd_rpc_readmit_node,
     .roles = HYD_ROLE_TRAINER,
     .on_open = hyd_handle_readmit_node},
    {.spec = &hyd_rpc_attach,
     .roles = HYD_ROLE_WORKER,
     .overflow = HYD_RPC_CLOSE,
     .n_prearm = 128,
     .on_open = hyd_agent_open,
     .on_message = hyd_agent_message,
     .on_close = hyd_agent_close},
};

const size_t hyd_daemon_n_methods =
    sizeof hyd_daemon_methods / sizeof *hyd_daemon_methods;

void hyd_handler_reply(struct hyd_call *call, const ProtobufCMessage *response)
{
    struct hyd_error err = {0};

    if (response == NULL) {
        hyd_call_fail(call, HYD_ERR_NO_MEMORY, NULL);
    } else if (hyd_call_reply(call, response) == HYD_ERR_LIMIT) {
        (void)hyd_error_set(&err, HYD_ERR_LIMIT, "the answer does not fit one message");
        hyd_call_fail(call, HYD_ERR_LIMIT, &err);
    }
}

struct hyd_job *hyd_handler_find_job(struct hyd_call *call, const char *name)
{
    struct hyd_error err = {0};
    struct hyd_job *job = hyd_service_known(hyd_call_ctx(call), name, &err);

    if (job == NULL) {
        hyd_call_fail(call, HYD_ERR_NOT_FOUND, &err);
    }
    return job;
}
