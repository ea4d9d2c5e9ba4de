/*
 * submit_impl.h - inside of submit.c and train.c.
 *
 * Owns     see submit.h.
 * Threads  loop thread.
 */
#ifndef HYD_SCHEDULER_DAEMON_SUBMIT_IMPL_H
#define HYD_SCHEDULER_DAEMON_SUBMIT_IMPL_H

#include "scheduler/daemon/service.h"
#include "scheduler/daemon/submit.h"

/* One submission whose answer is still owed. */
struct hyd_waiter {
    struct hyd_service *service;
    struct hyd_waiter *next_of_step;
    struct hyd_waiter *next_of_train;
    struct hyd_waiter *next_timed;
    struct hyd_waiter **prev_timed; /* NULL: not timed */
    struct hyd_job *job; /* NULL: gone, or never found */
    uint64_t number; /* of the step */
    struct hyd_job_step *step; /* it waits on; NULL: settled */
    struct hyd_call *call; /* unary */
    struct hyd_train *train; /* or stream */
    bool want_done;
    bool omit_plan;
    bool ready; /* the answer is known */
    uint64_t until_ms;
    hyd_status st; /* of the answer */
    struct hyd_error err;
};

struct hyd_train {
    struct hyd_service *service;
    struct hyd_train *next;
    struct hyd_train **prev;
    struct hyd_call *call;
    struct hyd_waiter *first; /* answers owed, in order */
    struct hyd_waiter *last;
    uint32_t n_owed;
    bool half_closed;
    bool blocked; /* the reader is slow */
    bool ended;
    struct hyd_job *held_job; /* in whose list of held streams it is */
    struct hyd_train *next_held;
    struct hyd_arena held_arena;
    const Hydra__V1__SubmitStepRequest *held; /* no room ahead yet */
};

struct hyd_waiter *hyd_waiter_new(struct hyd_service *service);
/* Off every list, and freed. */
void hyd_waiter_free(struct hyd_waiter *waiter);

/*
 * Decode, check, feed. On HYD_OK the waiter hangs on its step or is ready.
 *
 * take_arena   holds request; taken when the step is new (*ret_taken)
 */
hyd_status hyd_submit_enter(struct hyd_waiter *waiter,
                            const Hydra__V1__SubmitStepRequest *request,
                            struct hyd_arena *take_arena, bool *ret_taken,
                            struct hyd_error *err);

/* The answer of a ready waiter whose status is HYD_OK; NULL on no memory. */
Hydra__V1__SubmitStepResponse *hyd_submit_response(const struct hyd_waiter *waiter,
                                                   struct hyd_arena *arena);

/* train.c: a waiter of a stream became ready. */
void hyd_train_flush(struct hyd_train *train);

#endif
