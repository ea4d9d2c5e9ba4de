/*
 * hydra_v1.h - the methods of hydra.v1, one constant each.
 *
 * What     What server rows and client calls refer to. A test compares every constant
 *          with the embedded descriptor set: path, messages, kind of stream; and that
 *          none is missing.
 */
#ifndef HYD_COMMON_RPC_HYDRA_V1_H
#define HYD_COMMON_RPC_HYDRA_V1_H

#include <stddef.h>

#include "common/rpc/spec.h"

extern const struct hyd_rpc_spec hyd_rpc_open_job;
extern const struct hyd_rpc_spec hyd_rpc_close_job;
extern const struct hyd_rpc_spec hyd_rpc_list_jobs;
extern const struct hyd_rpc_spec hyd_rpc_get_job;
extern const struct hyd_rpc_spec hyd_rpc_submit_step;
extern const struct hyd_rpc_spec hyd_rpc_train;
extern const struct hyd_rpc_spec hyd_rpc_plan;
extern const struct hyd_rpc_spec hyd_rpc_report_step;
extern const struct hyd_rpc_spec hyd_rpc_get_plan;
extern const struct hyd_rpc_spec hyd_rpc_list_steps;
extern const struct hyd_rpc_spec hyd_rpc_watch_steps;
extern const struct hyd_rpc_spec hyd_rpc_get_cost_model;
extern const struct hyd_rpc_spec hyd_rpc_set_cost_model;
extern const struct hyd_rpc_spec hyd_rpc_list_workers;
extern const struct hyd_rpc_spec hyd_rpc_drain_node;
extern const struct hyd_rpc_spec hyd_rpc_readmit_node;
extern const struct hyd_rpc_spec hyd_rpc_attach;

/* grpc.health.v1; the server has it built in, tools ask it. */
extern const struct hyd_rpc_spec hyd_rpc_health_check;
extern const struct hyd_rpc_spec hyd_rpc_health_watch;

/* All of hydra.v1. */
extern const struct hyd_rpc_spec *const hyd_rpc_specs[];
extern const size_t hyd_n_rpc_specs;

#endif
