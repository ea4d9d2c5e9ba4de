/*
 * handlers.h - one function per RPC: decode, call, encode; and the table of them.
 *
 * What     Rows for hyd_server_create; config.ctx must be the struct hyd_service.
 * Threads  loop thread.
 */
#ifndef HYD_SCHEDULER_DAEMON_HANDLERS_H
#define HYD_SCHEDULER_DAEMON_HANDLERS_H

#include "common/rpc/server.h"

extern const struct hyd_rpc_method hyd_daemon_methods[];
extern const size_t hyd_daemon_n_methods;

/* Reply, or fail when it does not fit or could not be made (NULL). */
void hyd_handler_reply(struct hyd_call *call, const ProtobufCMessage *response);

struct hyd_job;
/* The job that a request names. NULL: the call has failed with HYD_ERR_NOT_FOUND. */
struct hyd_job *hyd_handler_find_job(struct hyd_call *call, const char *name);

/* ---- handlers_job.c ---- */
void hyd_handle_open_job(struct hyd_call *call, const ProtobufCMessage *request);
void hyd_handle_close_job(struct hyd_call *call, const ProtobufCMessage *request);
void hyd_handle_list_jobs(struct hyd_call *call, const ProtobufCMessage *request);
void hyd_handle_get_job(struct hyd_call *call, const ProtobufCMessage *request);
void hyd_handle_get_cost_model(struct hyd_call *call, const ProtobufCMessage *request);
void hyd_handle_set_cost_model(struct hyd_call *call, const ProtobufCMessage *request);

/* ---- handlers_node.c ---- */
void hyd_handle_list_workers(struct hyd_call *call, const ProtobufCMessage *request);
void hyd_handle_drain_node(struct hyd_call *call, const ProtobufCMessage *request);
void hyd_handle_readmit_node(struct hyd_call *call, const ProtobufCMessage *request);

/* ---- handlers_step.c ---- */
void hyd_handle_plan(struct hyd_call *call, const ProtobufCMessage *request);
void hyd_handle_plan_close(struct hyd_call *call, bool cancelled);
void hyd_handle_report_step(struct hyd_call *call, const ProtobufCMessage *request);
void hyd_handle_list_steps(struct hyd_call *call, const ProtobufCMessage *request);

#endif
