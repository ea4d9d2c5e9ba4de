/* naive_queue.c - see naive.h: when work is done. */
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "tests/lib/naive.h"

enum job_kind { JOB_FORWARD, JOB_BACKWARD, JOB_DELTA, JOB_MOVE, JOB_ZERO };

struct naive_job {
    struct naive_job *next;
    enum job_kind kind;
    struct hyd_attn_forward forward;
    struct hyd_attn_backward backward;
    struct hyd_attn_delta delta;
    enum naive_move move;
    struct hyd_buf dst, src;
    const struct hyd_copy *copy;
    size_t n_copies;
    double *charge[2];
    void *own; /* copied units or copies */
};

static hyd_status do_job(struct hyd_compute *dev, const struct naive_job *job)
{
    switch (job->kind) {
    case JOB_FORWARD:
        return naive_run_forward(dev, &job->forward);
    case JOB_BACKWARD:
        return naive_run_backward(dev, &job->backward);
    case JOB_DELTA:
        naive_run_delta(&job->delta);
        break;
    case JOB_MOVE:
        for (size_t i = 0; i < job->n_copies; i++) {
            naive_run_move(dev, job->move, job->dst, job->src, &job->copy[i]);
        }
        break;
    case JOB_ZERO:
        memset(job->dst.at, 0, job->dst.bytes);
        break;
    }
    return HYD_OK;
}

static hyd_status run(struct hyd_compute *dev, const struct naive_job *job)
{
    const double before[2] = {dev->compute_s, dev->copy_s};
    const hyd_status st = do_job(dev, job);

    if (job->charge[0] != NULL) {
        *job->charge[0] += dev->compute_s - before[0];
    }
    if (job->charge[1] != NULL) {
        *job->charge[1] += dev->copy_s - before[1];
    }
    return st;
}

static void *duplicate(const void *from, size_t n_bytes)
{
    void *own = malloc(n_bytes + 1);

    hyd_assert(own != NULL);
    memcpy(own, from, n_bytes);
    return own;
}

/* Do it now, or remember it. */
static hyd_status submit(struct hyd_compute *dev, struct naive_job *job)
{
    struct naive_job *later;

    memcpy(job->charge, dev->charge, sizeof job->charge);
    if (dev->knobs.lag == 0) {
        return run(dev, job);
    }
    later = duplicate(job, sizeof *job);
    if (job->kind == JOB_FORWARD) {
        later->own = duplicate(job->forward.unit,
                               job->forward.n_units * sizeof *job->forward.unit);
        later->forward.unit = later->own;
        later->forward.between.call = NULL; /* devices that enqueue never call it */
    } else if (job->kind == JOB_BACKWARD) {
        later->own = duplicate(job->backward.unit,
                               job->backward.n_units * sizeof *job->backward.unit);
        later->backward.unit = later->own;
        later->backward.between.call = NULL;
    } else if (job->kind == JOB_MOVE) {
        later->own = duplicate(job->copy, job->n_copies * sizeof *job->copy);
        later->copy = later->own;
    }
    if (dev->last != NULL) {
        dev->last->next = later;
    } else {
        dev->first = later;
    }
    dev->last = later;
    dev->lag_left = dev->knobs.lag;
    return HYD_OK;
}

static hyd_status submit_kernel(struct hyd_compute *dev, struct naive_job *job)
{
    dev->knobs.n_kernels++;
    if (dev->knobs.fail_in > 0 && --dev->knobs.fail_in == 0) {
        return HYD_ERR_INTERNAL;
    }
    return submit(dev, job);
}

static void drop_first(struct hyd_compute *dev)
{
    struct naive_job *job = dev->first;

    dev->first = job->next;
    if (dev->first == NULL) {
        dev->last = NULL;
    }
    free(job->own);
    free(job);
}

void naive_drop_queue(struct hyd_compute *dev)
{
    while (dev != NULL && dev->first != NULL) {
        drop_first(dev);
    }
}

hyd_status naive_sync(struct hyd_compute *dev, struct hyd_error *err)
{
    hyd_status st = HYD_OK;

    (void)err;
    while (dev->first != NULL && st == HYD_OK) {
        st = run(dev, dev->first);
        drop_first(dev);
    }
    return st;
}

hyd_status naive_test(struct hyd_compute *dev, bool *ret_done, struct hyd_error *err)
{
    *ret_done = dev->lag_left == 0;
    if (dev->lag_left > 0) {
        dev->lag_left--;
        return HYD_OK;
    }
    return naive_sync(dev, err);
}

hyd_status naive_forward(struct hyd_compute *dev, const struct hyd_attn_forward *args)
{
    return submit_kernel(dev,
                         &(struct naive_job){.kind = JOB_FORWARD, .forward = *args});
}

hyd_status naive_backward(struct hyd_compute *dev, const struct hyd_attn_backward *args)
{
    return submit_kernel(dev,
                         &(struct naive_job){.kind = JOB_BACKWARD, .backward = *args});
}

hyd_status naive_delta(struct hyd_compute *dev, const struct hyd_attn_delta *args)
{
    return submit_kernel(dev, &(struct naive_job){.kind = JOB_DELTA, .delta = *args});
}

static hyd_status submit_move(struct hyd_compute *dev, enum naive_move move,
                              const struct hyd_buf dst_src[2],
                              const struct hyd_copy *copy, size_t n_copies)
{
    return submit(dev, &(struct naive_job){.kind = JOB_MOVE,
                                           .move = move,
                                           .dst = dst_src[0],
                                           .src = dst_src[1],
                                           .copy = copy,
                                           .n_copies = n_copies});
}

hyd_status naive_copy(struct hyd_compute *dev, struct hyd_buf dst, struct hyd_buf src,
                      const struct hyd_copy *copy, size_t n_copies)
{
    const struct hyd_buf dst_src[2] = {dst, src};

    return submit_move(dev, NAIVE_COPY, dst_src, copy, n_copies);
}

hyd_status naive_convert(struct hyd_compute *dev, struct hyd_buf dst, enum hyd_dtype to,
                         struct hyd_buf src, const struct hyd_copy *copy,
                         size_t n_copies)
{
    const struct hyd_buf dst_src[2] = {dst, src};

    return submit_move(dev, to == HYD_DTYPE_F32 ? NAIVE_COPY : NAIVE_ROUND, dst_src,
                       copy, n_copies);
}

hyd_status naive_add(struct hyd_compute *dev, struct hyd_buf dst, struct hyd_buf src,
                     const struct hyd_copy *copy, size_t n_copies)
{
    const struct hyd_buf dst_src[2] = {dst, src};

    return submit_move(dev, NAIVE_ADD, dst_src, copy, n_copies);
}

hyd_status naive_zero(struct hyd_compute *dev, struct hyd_buf dst)
{
    return submit(dev, &(struct naive_job){.kind = JOB_ZERO, .dst = dst});
}
