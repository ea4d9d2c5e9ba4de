/* hydra_v1.c - see hydra_v1.h. */
#include "common/rpc/hydra_v1.h"

#include "proto/grpc/health/v1/health.pb-c.h"
#include "proto/hydra/v1/scheduler.pb-c.h"
#include "proto/hydra/v1/worker.pb-c.h"

#include "common/base/banned.h"

/* Idempotent is what may run twice without harm: reading, and what names its own result
 * (a step number, a job name with the same specification). */

const struct hyd_rpc_spec hyd_rpc_open_job = {
    .path = "/hydra.v1.Scheduler/OpenJob",
    .request = &hydra__v1__open_job_request__descriptor,
    .response = &hydra__v1__open_job_response__descriptor,
    .idempotent = true,
};

const struct hyd_rpc_spec hyd_rpc_close_job = {
    .path = "/hydra.v1.Scheduler/CloseJob",
    .request = &hydra__v1__close_job_request__descriptor,
    .response = &hydra__v1__close_job_response__descriptor,
    .idempotent = true,
};

const struct hyd_rpc_spec hyd_rpc_list_jobs = {
    .path = "/hydra.v1.Scheduler/ListJobs",
    .request = &hydra__v1__list_jobs_request__descriptor,
    .response = &hydra__v1__list_jobs_response__descriptor,
    .idempotent = true,
};

const struct hyd_rpc_spec hyd_rpc_get_job = {
    .path = "/hydra.v1.Scheduler/GetJob",
    .request = &hydra__v1__get_job_request__descriptor,
    .response = &hydra__v1__get_job_response__descriptor,
    .idempotent = true,
};

const struct hyd_rpc_spec hyd_rpc_submit_step = {
    .path = "/hydra.v1.Scheduler/SubmitStep",
    .request = &hydra__v1__submit_step_request__descriptor,
    .response = &hydra__v1__submit_step_response__descriptor,
    .idempotent = true,
};

const struct hyd_rpc_spec hyd_rpc_train = {
    .path = "/hydra.v1.Scheduler/Train",
    .kind = HYD_RPC_BIDI,
    .request = &hydra__v1__submit_step_request__descriptor,
    .response = &hydra__v1__submit_step_response__descriptor,
};

const struct hyd_rpc_spec hyd_rpc_plan = {
    .path = "/hydra.v1.Scheduler/Plan",
    .request = &hydra__v1__plan_request__descriptor,
    .response = &hydra__v1__plan_response__descriptor,
    .idempotent = true,
};

const struct hyd_rpc_spec hyd_rpc_report_step = {
    .path = "/hydra.v1.Scheduler/ReportStep",
    .request = &hydra__v1__report_step_request__descriptor,
    .response = &hydra__v1__report_step_response__descriptor,
    .idempotent = true,
};

const struct hyd_rpc_spec hyd_rpc_get_plan = {
    .path = "/hydra.v1.Scheduler/GetPlan",
    .kind = HYD_RPC_SERVER_STREAM,
    .request = &hydra__v1__get_plan_request__descriptor,
    .response = &hydra__v1__get_plan_response__descriptor,
    .idempotent = true,
};

const struct hyd_rpc_spec hyd_rpc_list_steps = {
    .path = "/hydra.v1.Scheduler/ListSteps",
    .request = &hydra__v1__list_steps_request__descriptor,
    .response = &hydra__v1__list_steps_response__descriptor,
    .idempotent = true,
};

const struct hyd_rpc_spec hyd_rpc_watch_steps = {
    .path = "/hydra.v1.Scheduler/WatchSteps",
    .kind = HYD_RPC_SERVER_STREAM,
    .request = &hydra__v1__watch_steps_request__descriptor,
    .response = &hydra__v1__watch_steps_response__descriptor,
    .idempotent = true,
};

const struct hyd_rpc_spec hyd_rpc_get_cost_model = {
    .path = "/hydra.v1.Scheduler/GetCostModel",
    .request = &hydra__v1__get_cost_model_request__descriptor,
    .response = &hydra__v1__get_cost_model_response__descriptor,
    .idempotent = true,
};

const struct hyd_rpc_spec hyd_rpc_set_cost_model = {
    .path = "/hydra.v1.Scheduler/SetCostModel",
    .request = &hydra__v1__set_cost_model_request__descriptor,
    .response = &hydra__v1__set_cost_model_response__descriptor,
};

const struct hyd_rpc_spec hyd_rpc_list_workers = {
    .path = "/hydra.v1.Scheduler/ListWorkers",
    .request = &hydra__v1__list_workers_request__descriptor,
    .response = &hydra__v1__list_workers_response__descriptor,
    .idempotent = true,
};

const struct hyd_rpc_spec hyd_rpc_drain_node = {
    .path = "/hydra.v1.Scheduler/DrainNode",
    .request = &hydra__v1__drain_node_request__descriptor,
    .response = &hydra__v1__drain_node_response__descriptor,
    .idempotent = true,
};

const struct hyd_rpc_spec hyd_rpc_readmit_node = {
    .path = "/hydra.v1.Scheduler/ReadmitNode",
    .request = &hydra__v1__readmit_node_request__descriptor,
    .response = &hydra__v1__readmit_node_response__descriptor,
    .idempotent = true,
};

const struct hyd_rpc_spec hyd_rpc_attach = {
    .path = "/hydra.v1.Workers/Attach",
    .kind = HYD_RPC_BIDI,
    .request = &hydra__v1__agent_message__descriptor,
    .response = &hydra__v1__scheduler_message__descriptor,
};

const struct hyd_rpc_spec hyd_rpc_health_check = {
    .path = "/grpc.health.v1.Health/Check",
    .request = &grpc__health__v1__health_check_request__descriptor,
    .response = &grpc__health__v1__health_check_response__descriptor,
    .idempotent = true,
};

const struct hyd_rpc_spec hyd_rpc_health_watch = {
    .path = "/grpc.health.v1.Health/Watch",
    .kind = HYD_RPC_SERVER_STREAM,
    .request = &grpc__health__v1__health_check_request__descriptor,
    .response = &grpc__health__v1__health_check_response__descriptor,
    .idempotent = true,
};

const struct hyd_rpc_spec *const hyd_rpc_specs[] = {
    &hyd_rpc_open_job,       &hyd_rpc_close_job,    &hyd_rpc_list_jobs,
    &hyd_rpc_get_job,        &hyd_rpc_submit_step,  &hyd_rpc_train,
    &hyd_rpc_plan,           &hyd_rpc_report_step,  &hyd_rpc_get_plan,
    &hyd_rpc_list_steps,     &hyd_rpc_watch_steps,  &hyd_rpc_get_cost_model,
    &hyd_rpc_set_cost_model, &hyd_rpc_list_workers, &hyd_rpc_drain_node,
    &hyd_rpc_readmit_node,   &hyd_rpc_attach,
};

const size_t hyd_n_rpc_specs = sizeof hyd_rpc_specs / sizeof hyd_rpc_specs[0];
