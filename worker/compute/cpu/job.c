/* job.c - see device.h. */
#include "worker/compute/attn_check.h"
#include "worker/compute/cpu/device.h"

enum {
    FAR = 1 << 20, /* a distance no tile reaches */
    LOAD_ROWS = 256, /* kv rows that a thread loads at a time */
};

/* Between two calls of `between`: about 0.3 ms at 100 GFLOP/s. */
static const uint64_t between_flop = (uint64_t)1 << 25;

static int32_t near(int64_t distance)
{
    if (distance > FAR) {
        return FAR;
    }
    return distance < -FAR ? -FAR : (int32_t)distance;
}

struct hyd_cpu_sight hyd_cpu_see(const struct hyd_attn_shape *shape, struct hyd_rows q,
                                 struct hyd_rows kv)
{
    const int64_t ahead = (int64_t)q.pos - (int64_t)kv.pos;
    struct hyd_cpu_sight sight = {.lo = -FAR, .hi = FAR};

    switch (shape->see) {
    case HYD_SEE_FULL:
        break;
    case HYD_SEE_CAUSAL:
        sight.hi = near(ahead);
        break;
    case HYD_SEE_WINDOW:
        sight.hi = near(ahead);
        sight.lo = near(ahead - (int64_t)shape->window_tokens);
        break;
    }
    sight.whole =
        (int64_t)kv.n - 1 <= (int64_t)sight.hi && (int64_t)q.n - 1 + sight.lo < 0;
    return sight;
}

bool hyd_cpu_sees_any(const struct hyd_cpu_sight *sight, uint32_t n_q, uint32_t n_kv)
{
    return n_q != 0 && n_kv != 0 && (int64_t)n_q - 1 + sight->hi >= 0 &&
           (int64_t)n_kv - 1 > (int64_t)sight->lo;
}

/* The part of a kv interval that any of the query rows sees. */
static struct hyd_rows visible_part(const struct hyd_attn_shape *shape,
                                    struct hyd_rows q, struct hyd_rows kv)
{
    uint64_t begin = kv.pos;
    uint64_t end = (uint64_t)kv.pos + kv.n;

    if (shape->see != HYD_SEE_FULL && end > (uint64_t)q.pos + q.n) {
        end = (uint64_t)q.pos + q.n;
    }
    if (shape->see == HYD_SEE_WINDOW &&
        (uint64_t)q.pos + 1 > begin + shape->window_tokens) {
        begin = (uint64_t)q.pos + 1 - shape->window_tokens;
    }
    if (q.n == 0 || end <= begin) {
        return (struct hyd_rows){.row = kv.row, .pos = kv.pos};
    }
    return (struct hyd_rows){.row = kv.row + (uint32_t)(begin - kv.pos),
                             .n = (uint32_t)(end - begin),
                             .pos = (uint32_t)begin};
}

static size_t rounded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

hyd_status hyd_cpu_job_begin(struct hyd_cpu_job *job, uint32_t block_rows,
                             size_t thread_bytes)
{
    const uint32_t n_threads = hyd_cpu_pool_threads(job->dev->pool);
    const uintptr_t base = (uintptr_t)job->dev->scratch.at;
    const size_t skip = rounded(base) - base;
    size_t kv_bytes;

    job->kv_first = UINT32_MAX;
    for (size_t i = 0; i < job->n_units; i++) {
        for (uint32_t j = 0; j < job->unit[i].n_kv; j++) {
            const struct hyd_rows kv = job->unit[i].kv[j];

            if (kv.n != 0) {
                job->kv_first = kv.row < job->kv_first ? kv.row : job->kv_first;
                job->kv_end = kv.row + kv.n > job->kv_end ? kv.row + kv.n : job->kv_end;
            }
        }
    }
    job->kv_first = job->kv_end == 0 ? 0 : job->kv_first;
    job->block_rows = block_rows;
    job->thread_bytes = rounded(thread_bytes);
    kv_bytes = rounded((size_t)(job->kv_end - job->kv_first) *
                       hyd_cpu_ld(job->shape->d) * sizeof(float));
    if (job->dev->scratch.at == NULL ||
        job->dev->scratch.bytes < skip + 2 * kv_bytes + n_threads * job->thread_bytes) {
        return HYD_ERR_NO_MEMORY;
    }
    job->k_rows = (float *)(void *)((unsigned char *)job->dev->scratch.at + skip);
    job->v_rows = job->k_rows + kv_bytes / sizeof(float);
    job->thread_area = (unsigned char *)job->v_rows + kv_bytes;
    return HYD_OK;
}

static uint32_t n_blocks(const struct hyd_cpu_job *job, size_t unit)
{
    return (job->unit[unit].q.n + job->block_rows - 1) / job->block_rows;
}

static void lock(struct hyd_cpu_job *job)
{
    if (hyd_cpu_pool_threads(job->dev->pool) > 1) {
        (void)pthread_mutex_lock(&job->dev->lock);
    }
}

static void unlock(struct hyd_cpu_job *job)
{
    if (hyd_cpu_pool_threads(job->dev->pool) > 1) {
        (void)pthread_mutex_unlock(&job->dev->lock);
    }
}

/* Load k and v of the current kv head, a slice at a time. */
static void load_kv(void *ctx, uint32_t thread)
{
    struct hyd_cpu_job *job = ctx;
    const struct hyd_attn_shape *s = job->shape;
    const size_t stride = (size_t)s->n_kv_heads * s->d;
    const size_t e = hyd_dtype_bytes(s->dtype);

    (void)thread;
    while (true) {
        uint32_t row;
        size_t at;

        lock(job);
        row = job->next_row;
        job->next_row += row < job->kv_end ? LOAD_ROWS : 0;
        unlock(job);
        if (row >= job->kv_end) {
            return;
        }
        at = (row * stride + (size_t)job->kv_head * s->d) * e;
        for (int i = 0; i < 2; i++) {
            const void *tensor = i == 0 ? job->k : job->v;
            float *to = i == 0 ? job->k_rows : job->v_rows;
            const struct hyd_cpu_rows from = {
                .at = (const unsigned char *)tensor + at,
                .dtype = s->dtype,
                .stride = stride,
                .n = job->kv_end - row < LOAD_ROWS ? job->kv_end - row : LOAD_ROWS,
                .d = s->d};

            job->dev->kernels->load_rows(
                to + (size_t)(row - job->kv_first) * hyd_cpu_ld(s->d), &from);
        }
    }
}

/* Point the cursor at the first task of a kv head; false when no local query head uses
 * it. */
static bool start_kv_head(struct hyd_cpu_job *job, uint32_t kv_head)
{
    const struct hyd_attn_shape *s = job->shape;
    const uint64_t global = (uint64_t)s->kv_head_first + kv_head;
    const uint64_t first = global * s->heads_per_kv;
    const uint64_t end = first + s->heads_per_kv;

    job->kv_head = kv_head;
    job->first_head = first > s->head_first ? (uint32_t)(first - s->head_first) : 0;
    if (first >= (uint64_t)s->head_first + s->n_heads || end <= s->head_first) {
        return false;
    }
    job->end_head =
        end - s->head_first < s->n_heads ? (uint32_t)(end - s->head_first) : s->n_heads;
    job->next_row = job->kv_first;
    job->next_unit = 0;
    job->next_block = n_blocks(job, 0);
    job->next_head = job->first_head;
    return true;
}

static void call_between(void *ctx)
{
    struct hyd_cpu_job *job = ctx;
    double begin_s;
    hyd_status st;

    if (atomic_load(&job->status) != HYD_OK) {
        return;
    }
    begin_s = hyd_cpu_thread_s();
    st = job->between.call(job->between.ctx);
    job->between_s += hyd_cpu_thread_s() - begin_s;
    if (st != HYD_OK) {
        atomic_store(&job->status, st);
    }
}

hyd_status hyd_cpu_job_run(struct hyd_cpu_job *job, hyd_cpu_work *work)
{
    void (*const idle)(void *) = job->between.call != NULL ? call_between : NULL;

    for (uint32_t kv_head = 0; kv_head < job->shape->n_kv_heads; kv_head++) {
        if (job->n_units != 0 && start_kv_head(job, kv_head)) {
            hyd_cpu_pool_run(job->dev->pool, load_kv, job, idle);
            hyd_cpu_pool_run(job->dev->pool, work, job, idle);
        }
        if (atomic_load(&job->status) != HYD_OK) {
            break;
        }
    }
    return (hyd_status)atomic_load(&job->status);
}

/* Take what the cursor points at and move it on; the last block of a unit comes first,
 * since with a causal mask it is the longest. */
static bool take(struct hyd_cpu_job *job, struct hyd_cpu_task *task, uint32_t *block)
{
    while (job->next_unit < job->n_units && job->next_block == 0) {
        job->next_unit++;
        job->next_block =
            job->next_unit < job->n_units ? n_blocks(job, job->next_unit) : 0;
    }
    if (job->next_unit == job->n_units) {
        return false;
    }
    task->unit = &job->unit[job->next_unit];
    task->head = job->next_head++;
    task->number = job->next_number++;
    *block = job->next_block - 1;
    if (job->next_head == job->end_head) {
        job->next_head = job->first_head;
        job->next_block--;
    }
    return true;
}

static void place(const struct hyd_cpu_job *job, uint32_t block,
                  struct hyd_cpu_task *task)
{
    const uint32_t first = block * job->block_rows;
    const uint32_t left = task->unit->q.n - first;
    const struct hyd_rows none = {0};

    task->q = task->unit->q;
    task->q.row += first;
    task->q.pos += first;
    task->q.n = left < job->block_rows ? left : job->block_rows;
    for (uint32_t i = 0; i < 2; i++) {
        task->kv[i] = i < task->unit->n_kv
                          ? visible_part(job->shape, task->q, task->unit->kv[i])
                          : none;
    }
}

bool hyd_cpu_job_next(struct hyd_cpu_job *job, uint32_t thread,
                      struct hyd_cpu_task *ret_task)
{
    struct hyd_cpu_turn *turn = &job->dev->turn[thread];
    uint32_t block = 0;
    bool found;

    if (atomic_load(&job->status) != HYD_OK) {
        return false;
    }
    lock(job);
    found = take(job, ret_task, &block);
    if (found) {
        place(job, block, ret_task);
        turn->active = true;
        turn->task = ret_task->number;
        turn->kv[0] = ret_task->kv[0];
        turn->kv[1] = ret_task->kv[1];
    }
    unlock(job);
    return found;
}

static bool overlap(struct hyd_rows a, struct hyd_rows b)
{
    return a.n != 0 && b.n != 0 && a.row < b.row + b.n && b.row < a.row + a.n;
}

/* Will an earlier task still add to these rows? */
static bool must_wait(const struct hyd_cpu_job *job, const struct hyd_cpu_turn *self,
                      struct hyd_rows rows)
{
    const uint32_t n_threads = hyd_cpu_pool_threads(job->dev->pool);

    for (uint32_t i = 0; i < n_threads; i++) {
        const struct hyd_cpu_turn *other = &job->dev->turn[i];

        if (other->active && other->task < self->task &&
            (overlap(other->kv[0], rows) || overlap(other->kv[1], rows))) {
            return true;
        }
    }
    return false;
}

void hyd_cpu_job_await(struct hyd_cpu_job *job, uint32_t thread, struct hyd_rows rows)
{
    const struct hyd_cpu_turn *self = &job->dev->turn[thread];

    lock(job);
    while (must_wait(job, self, rows)) {
        (void)pthread_cond_wait(&job->dev->turned, &job->dev->lock);
    }
    unlock(job);
}

void hyd_cpu_job_added(struct hyd_cpu_job *job, uint32_t thread, uint32_t interval,
                       struct hyd_rows rows)
{
    struct hyd_rows *left = &job->dev->turn[thread].kv[interval];

    lock(job);
    left->n -= rows.row + rows.n - left->row;
    left->row = rows.row + rows.n;
    if (hyd_cpu_pool_threads(job->dev->pool) > 1) {
        (void)pthread_cond_broadcast(&job->dev->turned);
    }
    unlock(job);
}

void hyd_cpu_job_done(struct hyd_cpu_job *job, uint32_t thread)
{
    lock(job);
    job->dev->turn[thread].active = false;
    if (hyd_cpu_pool_threads(job->dev->pool) > 1) {
        (void)pthread_cond_broadcast(&job->dev->turned);
    }
    unlock(job);
}

void hyd_cpu_job_did(struct hyd_cpu_job *job, uint32_t thread, uint64_t flop)
{
    if (thread != 0 || job->between.call == NULL) {
        return;
    }
    job->flop_since_between += flop;
    if (job->flop_since_between >= between_flop) {
        job->flop_since_between = 0;
        call_between(job);
    }
}
