/* What only the CPU device promises: the number of threads changes nothing, a call
 * allocates nothing, the callback between tiles is heard and its time is not counted. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "tests/lib/fault_alloc.h"
#include "tests/lib/test.h"
#include "worker/compute/compute.h"
#include "worker/compute/cpu/pool.h"

enum { D = 64, ROWS = 900, HEADS = 3, KV_HEADS = 2 };

/* A packed batch of three sequences, the first long; Lo and Hi units as a ring step has
 * them, so that two units of a call add to the same kv rows. */
static const struct hyd_attn_unit units[] = {
    {{0, 300, 0}, {{0, 300, 0}}, 1},
    {{300, 300, 300}, {{0, 300, 0}, {300, 300, 300}}, 2},
    {{600, 40, 0}, {{600, 40, 0}}, 1},
    {{640, 260, 0}, {{640, 260, 0}}, 1},
};

struct tensors {
    float q[ROWS * HEADS * D], dout[ROWS * HEADS * D];
    float k[ROWS * KV_HEADS * D], v[ROWS * KV_HEADS * D];
    float o[ROWS * HEADS * D], lse[HEADS * ROWS], delta[HEADS * ROWS];
    float dq[ROWS * HEADS * D], dk[ROWS * KV_HEADS * D], dv[ROWS * KV_HEADS * D];
};

static struct tensors *make_tensors(void)
{
    struct tensors *t = calloc(1, sizeof *t);

    assert_non_null(t);
    for (size_t i = 0; i < sizeof t->q / sizeof *t->q; i++) {
        t->q[i] = hyd_rng_signed_at(1, i);
        t->dout[i] = hyd_rng_signed_at(2, i);
    }
    for (size_t i = 0; i < sizeof t->k / sizeof *t->k; i++) {
        t->k[i] = hyd_rng_signed_at(3, i);
        t->v[i] = hyd_rng_signed_at(4, i);
    }
    return t;
}

static struct hyd_buf buf(void *at, size_t bytes)
{
    return (struct hyd_buf){at, bytes, HYD_MEM_HOST};
}
#define BUF(array) buf(array, sizeof(array))

static struct hyd_attn_shape shape(void)
{
    /* heads 1..3 in pairs: kv head 0 serves one of them, kv head 1 two */
    return (struct hyd_attn_shape){.d = D,
                                   .n_heads = HEADS,
                                   .n_kv_heads = KV_HEADS,
                                   .head_first = 1,
                                   .heads_per_kv = 2,
                                   .scale = 0.125f};
}

static struct hyd_attn_forward forward_args(struct tensors *t)
{
    return (struct hyd_attn_forward){.shape = shape(),
                                     .unit = units,
                                     .n_units = sizeof units / sizeof *units,
                                     .q = BUF(t->q),
                                     .k = BUF(t->k),
                                     .v = BUF(t->v),
                                     .o_acc = BUF(t->o),
                                     .lse = BUF(t->lse),
                                     .lse_stride = ROWS,
                                     .first = true};
}

static struct hyd_attn_backward backward_args(struct tensors *t)
{
    return (struct hyd_attn_backward){.shape = shape(),
                                      .unit = units,
                                      .n_units = sizeof units / sizeof *units,
                                      .q = BUF(t->q),
                                      .k = BUF(t->k),
                                      .v = BUF(t->v),
                                      .dout = BUF(t->dout),
                                      .lse = BUF(t->lse),
                                      .delta = BUF(t->delta),
                                      .lse_stride = ROWS,
                                      .dq_acc = BUF(t->dq),
                                      .dk_acc = BUF(t->dk),
                                      .dv_acc = BUF(t->dv)};
}

static const struct hyd_compute_ops *cpu(void)
{
    const struct hyd_compute_ops *ops = NULL;

    assert_int_equal(hyd_compute_find("cpu", &ops, NULL), HYD_OK);
    return ops;
}

/* A device with its scratch. */
struct lent {
    struct hyd_compute *dev;
    struct hyd_buf scratch;
};

static struct lent open_device(uint32_t n_threads, const struct hyd_alloc *alloc)
{
    const struct hyd_compute_config config = {.n_threads = n_threads, .alloc = alloc};
    const struct hyd_attn_shape s = shape();
    struct lent lent = {0};

    assert_int_equal(cpu()->open(&config, &lent.dev, NULL), HYD_OK);
    assert_int_equal(cpu()->mem_alloc(lent.dev,
                                      cpu()->scratch_bytes(lent.dev, &s, ROWS, ROWS),
                                      &lent.scratch),
                     HYD_OK);
    assert_int_equal(cpu()->set_scratch(lent.dev, lent.scratch), HYD_OK);
    return lent;
}

static void close_device(struct lent *lent)
{
    cpu()->mem_free(lent->dev, &lent->scratch);
    cpu()->close(lent->dev);
}

static void run_both(struct lent *lent, struct tensors *t)
{
    const struct hyd_attn_forward forward = forward_args(t);
    const struct hyd_attn_backward backward = backward_args(t);
    const struct hyd_attn_delta delta = {.shape = shape(),
                                         .o = BUF(t->o),
                                         .dout = BUF(t->dout),
                                         .delta = BUF(t->delta),
                                         .lse_stride = ROWS,
                                         .n_rows = ROWS};

    assert_int_equal(cpu()->attn_forward(lent->dev, &forward), HYD_OK);
    assert_int_equal(cpu()->attn_delta(lent->dev, &delta), HYD_OK);
    assert_int_equal(cpu()->attn_backward(lent->dev, &backward), HYD_OK);
}

static void cpu_gives_the_same_bytes_with_any_number_of_threads(void **state)
{
    struct tensors *alone = make_tensors();
    struct lent one = open_device(1, NULL);

    (void)state;
    run_both(&one, alone);
    close_device(&one);
    for (uint32_t n_threads = 2; n_threads <= 5; n_threads++) {
        struct lent many = open_device(n_threads, NULL);

        for (int repeat = 0; repeat < 3; repeat++) {
            struct tensors *t = make_tensors();

            run_both(&many, t);
            assert_memory_equal(t, alone, sizeof *t);
            free(t);
        }
        close_device(&many);
    }
    free(alone);
}

static void cpu_allocates_nothing_while_it_computes(void **state)
{
    struct hyd_fault_alloc fault;
    struct tensors *t = make_tensors();
    struct lent lent;
    size_t n_calls;

    (void)state;
    hyd_fault_alloc_init(&fault);
    lent = open_device(2, &fault.alloc);
    n_calls = fault.n_calls;
    run_both(&lent, t);
    assert_int_equal(fault.n_calls, n_calls);
    close_device(&lent);
    assert_int_equal(fault.live, 0);
    free(t);
}

struct listener {
    int n_calls;
    int stop_at; /* 0: never */
    double burn_s; /* CPU seconds a call */
    double burnt_s;
};

static hyd_status listen_between(void *ctx)
{
    struct listener *l = ctx;
    const double begin_s = hyd_cpu_thread_s();

    l->n_calls++;
    while (hyd_cpu_thread_s() - begin_s < l->burn_s) {
    }
    l->burnt_s += hyd_cpu_thread_s() - begin_s;
    return l->n_calls == l->stop_at ? HYD_ERR_CANCELLED : HYD_OK;
}

static void cpu_leaves_the_time_between_tiles_out_of_compute_seconds(void **state)
{
    struct tensors *t = make_tensors();
    struct lent lent = open_device(1, NULL);
    struct listener l = {.burn_s = 0.02};
    struct hyd_attn_backward backward = backward_args(t);
    double begin_s, spent_s;

    (void)state;
    run_both(&lent, t);
    backward.between = (struct hyd_between){listen_between, &l};
    begin_s = hyd_cpu_thread_s();
    spent_s = cpu()->compute_s(lent.dev);
    assert_int_equal(cpu()->attn_backward(lent.dev, &backward), HYD_OK);
    spent_s = cpu()->compute_s(lent.dev) - spent_s;
    assert_in_range(l.n_calls, 2, 1000);
    /* Compute and callback together cannot be more than the thread has used. */
    assert_true(spent_s > 0.0);
    assert_true(spent_s + l.burnt_s <= hyd_cpu_thread_s() - begin_s + 1e-6);
    close_device(&lent);
    free(t);
}

static void cpu_ends_early_when_the_callback_says_so(void **state)
{
    (void)state;
    for (uint32_t n_threads = 1; n_threads <= 3; n_threads += 2) {
        struct tensors *t = make_tensors();
        struct lent lent = open_device(n_threads, NULL);
        struct listener l = {.stop_at = 1};
        struct hyd_attn_forward forward = forward_args(t);
        struct hyd_attn_backward backward = backward_args(t);
        hyd_status st;

        run_both(&lent, t);
        forward.between = (struct hyd_between){listen_between, &l};
        backward.between = (struct hyd_between){listen_between, &l};
        /* With helpers the caller may find nothing left to do, and so never call. */
        st = cpu()->attn_backward(lent.dev, &backward);
        assert_int_equal(st, l.n_calls == 1 ? HYD_ERR_CANCELLED : HYD_OK);
        assert_in_range(l.n_calls, n_threads == 1 ? 1 : 0, 1);
        l.n_calls = 0;
        st = cpu()->attn_forward(lent.dev, &forward);
        assert_int_equal(st, l.n_calls == 1 ? HYD_ERR_CANCELLED : HYD_OK);
        assert_in_range(l.n_calls, n_threads == 1 ? 1 : 0, 1);
        /* The device is fit for the next call. */
        run_both(&lent, t);
        close_device(&lent);
        free(t);
    }
}

static void cpu_needs_the_scratch_it_asked_for(void **state)
{
    struct tensors *t = make_tensors();
    struct lent lent = open_device(2, NULL);
    const struct hyd_attn_backward backward = backward_args(t);
    struct hyd_buf small = lent.scratch;

    (void)state;
    small.bytes /= 2;
    assert_int_equal(cpu()->set_scratch(lent.dev, small), HYD_OK);
    assert_int_equal(cpu()->attn_backward(lent.dev, &backward), HYD_ERR_NO_MEMORY);
    /* Any alignment will do: scratch_bytes has room for it. */
    small = hyd_buf_part(lent.scratch, 0, lent.scratch.bytes);
    assert_int_equal(cpu()->set_scratch(lent.dev, small), HYD_OK);
    assert_int_equal(cpu()->attn_backward(lent.dev, &backward), HYD_OK);
    close_device(&lent);
    free(t);
}

static void cpu_open_names_what_it_cannot_do(void **state)
{
    struct hyd_compute_config config = {.n_threads = 1, .isa = "mmx"};
    struct hyd_compute *dev = NULL;
    struct hyd_error err = {0};

    (void)state;
    assert_int_equal(cpu()->open(&config, &dev, &err), HYD_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "mmx"));
    config = (struct hyd_compute_config){.n_threads = 0};
    assert_int_equal(cpu()->open(&config, &dev, &err), HYD_ERR_INVALID);
    assert_string_equal(err.field, "threads_per_rank");
    assert_null(dev);
}

static void count_thread(void *ctx, uint32_t thread)
{
    ((int *)ctx)[thread]++;
}

static void pool_calls_every_thread_once_a_run(void **state)
{
    struct hyd_cpu_pool *pool = NULL;
    int n[4] = {0};

    (void)state;
    assert_int_equal(hyd_cpu_pool_open(hyd_alloc_system(), 4, &pool, NULL), HYD_OK);
    assert_int_equal(hyd_cpu_pool_threads(pool), 4);
    for (int run = 1; run <= 50; run++) {
        hyd_cpu_pool_run(pool, count_thread, n, NULL);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(n[i], run);
        }
    }
    hyd_cpu_pool_close(pool);
    hyd_cpu_pool_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cpu_gives_the_same_bytes_with_any_number_of_threads),
        cmocka_unit_test(cpu_allocates_nothing_while_it_computes),
        cmocka_unit_test(cpu_leaves_the_time_between_tiles_out_of_compute_seconds),
        cmocka_unit_test(cpu_ends_early_when_the_callback_says_so),
        cmocka_unit_test(cpu_needs_the_scratch_it_asked_for),
        cmocka_unit_test(cpu_open_names_what_it_cannot_do),
        cmocka_unit_test(pool_calls_every_thread_once_a_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
