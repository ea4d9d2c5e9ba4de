/*
 * device.h - the CPU device, and what forward.c and backward.c share.
 *
 * What     One call of an attention kernel is a job. It goes kv head by kv head: first
 *          all threads copy that head's k and v into rows of fp32, then they take tasks
 *          (unit, block of query rows, query head) from a cursor until none is left.
 *          Tasks are cut by the arguments alone, and what two tasks add to the same place
 *          they add in the order of their numbers, so results do not depend on the
 *          number of threads.
 * Shapes   scratch: k rows, v rows [max_kv_rows][ld], then one work area a thread.
 * Threads  a job belongs to one call; `lock` guards its cursor and turns.
 */
#ifndef HYD_WORKER_COMPUTE_CPU_DEVICE_H
#define HYD_WORKER_COMPUTE_CPU_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include "worker/compute/compute.h"
#include "worker/compute/cpu/kernels.h"
#include "worker/compute/cpu/pool.h"

enum { HYD_CPU_DESCRIBE_BYTES = 96, HYD_CPU_MAX_THREADS = 256 };

/* What a thread is at in the backward pass, so that others know when its additions to
 * dk and dv are over. */
struct hyd_cpu_turn {
    bool active;
    uint64_t task;
    struct hyd_rows kv[2]; /* kv rows not yet added */
};

struct hyd_compute {
    const struct hyd_alloc *alloc;
    const struct hyd_cpu_kernels *kernels;
    struct hyd_cpu_pool *pool;
    struct hyd_cpu_turn *turn; /* [threads] */
    pthread_mutex_t lock;
    pthread_cond_t turned;
    struct hyd_buf scratch; /* lent */
    double compute_s, copy_s;
    double *charge_compute_s, *charge_copy_s; /* lent, or NULL */
    char describe[HYD_CPU_DESCRIBE_BYTES];
};

struct hyd_cpu_task {
    const struct hyd_attn_unit *unit;
    struct hyd_rows q; /* this block of the unit's rows */
    struct hyd_rows kv[2]; /* what the block can see of the unit's intervals */
    uint32_t head; /* local query head */
    uint64_t number;
};

struct hyd_cpu_job {
    struct hyd_compute *dev;
    const struct hyd_attn_shape *shape;
    const struct hyd_attn_unit *unit;
    size_t n_units;
    const void *k, *v; /* tensors */
    struct hyd_between between;
    double between_s; /* thread-CPU seconds inside it */
    uint64_t flop_since_between; /* of the caller's thread */
    _Atomic int status; /* not HYD_OK: stop early */
    /* scratch */
    float *k_rows, *v_rows; /* of the current kv head, from kv_first on */
    unsigned char *thread_area; /* [threads][thread_bytes] */
    size_t thread_bytes;
    uint32_t kv_first, kv_end; /* rows that units name lie in between */
    uint32_t kv_head;
    uint32_t block_rows; /* query rows of a task */
    /* cursor */
    size_t next_unit;
    uint32_t next_block; /* counts down */
    uint32_t next_head, first_head, end_head;
    uint64_t next_number;
    uint32_t next_row; /* of loading */
};

/* Fill in what shape and units determine and lay out the scratch.
 * HYD_ERR_NO_MEMORY: less is lent than needed. */
HYD_MUST_CHECK hyd_status hyd_cpu_job_begin(struct hyd_cpu_job *job,
                                            uint32_t block_rows, size_t thread_bytes);

/* Run `work` over the tasks of each kv head; the job's status at the end. */
hyd_status hyd_cpu_job_run(struct hyd_cpu_job *job, hyd_cpu_work *work);

/* The next task of the current kv head, which the thread must end with job_done; false
 * when there is none or the job stops. */
bool hyd_cpu_job_next(struct hyd_cpu_job *job, uint32_t thread,
                      struct hyd_cpu_task *ret_task);
void hyd_cpu_job_done(struct hyd_cpu_job *job, uint32_t thread);

/* Sleep until no task of a lower number will add to these kv rows any more. Deadlock is
 * impossible: the lowest task never waits. */
void hyd_cpu_job_await(struct hyd_cpu_job *job, uint32_t thread, struct hyd_rows rows);
/* Everything of the task's kv[interval] up to the end of these rows has been added. */
void hyd_cpu_job_added(struct hyd_cpu_job *job, uint32_t thread, uint32_t interval,
                       struct hyd_rows rows);

/* Account for work done; on the caller's thread this calls `between` now and then. */
void hyd_cpu_job_did(struct hyd_cpu_job *job, uint32_t thread, uint64_t flop);

/* What query rows from qpos on see of kv rows from kpos on. */
struct hyd_cpu_sight hyd_cpu_see(const struct hyd_attn_shape *shape, struct hyd_rows q,
                                 struct hyd_rows kv);
/* Does any query row see any kv row? */
bool hyd_cpu_sees_any(const struct hyd_cpu_sight *sight, uint32_t n_q, uint32_t n_kv);

static inline const float *hyd_cpu_row(const struct hyd_cpu_job *job, const float *rows,
                                       uint32_t kv_row)
{
    return rows + (size_t)(kv_row - job->kv_first) * hyd_cpu_ld(job->shape->d);
}

/* Bytes of one thread's work area. */
size_t hyd_cpu_forward_bytes(uint32_t d);
size_t hyd_cpu_backward_bytes(uint32_t d);

hyd_status hyd_cpu_attn_forward(struct hyd_compute *dev,
                                const struct hyd_attn_forward *args,
                                double *ret_between_s);
hyd_status hyd_cpu_attn_backward(struct hyd_compute *dev,
                                 const struct hyd_attn_backward *args,
                                 double *ret_between_s);

#endif
