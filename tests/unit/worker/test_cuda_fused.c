/* A library's forward is used where it agrees with our kernel and nowhere else: libraries
 * that are wrong in the ways that were reported of real ones are refused, and what is
 * computed is right either way. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/conform/attn_drive.h"
#include "tests/emu/compute_emu.h"
#include "tests/lib/test.h"
#include "worker/compute/bf16.h"

enum fault {
    RIGHT,
    ZEROES, /* all of o, no error */
    LSE_OF_FIRST_HEADS, /* of each kv group only */
    BINARY_LSE,
    READS_BEHIND, /* as many rows as it planned with */
    REPEATS_KV_HEADS, /* h mod n_kv_heads */
    WRONG_WHEN_ODD, /* rows that are no multiple of 64 */
    FAILS,
    LACKS, /* no engine */
    LACKS_LONG, /* none for more than 512 kv rows, which the test does not have */
};

struct fake {
    enum fault fault;
    uint64_t n_calls, n_said;
    char said[300];
};

static struct devices on;
static struct fake fake;

static float at(const void *tensor, size_t i)
{
    return hyd_bf16_decode(((const uint16_t *)tensor)[i]);
}

/* One row of one head, as (7) of worker/README.md says. */
static void compute_row(const struct hyd_fused_rect *r, uint32_t n_kv, uint32_t i,
                        uint32_t h)
{
    const struct hyd_attn_shape *s = &r->shape;
    const uint32_t kv_head = fake.fault == REPEATS_KV_HEADS
                                 ? h % s->n_kv_heads
                                 : h / (s->n_heads / s->n_kv_heads);
    const size_t q = ((size_t)i * s->n_heads + h) * s->d;
    double *score = calloc(n_kv + 1, sizeof *score), top = -HUGE_VAL, sum = 0.0;

    assert_non_null(score);
    for (uint32_t j = 0; j < n_kv; j++) {
        const size_t k = ((size_t)j * s->n_kv_heads + kv_head) * s->d;

        for (uint32_t c = 0; c < s->d; c++) {
            score[j] += (double)at(r->q, q + c) * (double)at(r->k, k + c);
        }
        score[j] *= (double)s->scale;
        top = fmax(top, score[j]);
    }
    for (uint32_t j = 0; j < n_kv; j++) {
        score[j] = exp(score[j] - top);
        sum += score[j];
    }
    for (uint32_t c = 0; c < s->d; c++) {
        double o = 0.0;

        for (uint32_t j = 0; j < n_kv; j++) {
            const size_t v = ((size_t)j * s->n_kv_heads + kv_head) * s->d;

            o += score[j] / sum * (double)at(r->v, v + c);
        }
        ((uint16_t *)r->o)[q + c] =
            hyd_bf16_encode(fake.fault == ZEROES ? 0.0f : (float)o);
    }
    if (fake.fault != LSE_OF_FIRST_HEADS || h % (s->n_heads / s->n_kv_heads) == 0) {
        const double lse = top + log(sum);

        r->lse[(size_t)i * s->n_heads + h] =
            (float)(fake.fault == BINARY_LSE ? lse * 1.4426950408889634 : lse);
    }
    free(score);
}

static hyd_status fake_forward(void *ctx, const struct hyd_fused_rect *r)
{
    uint32_t n_kv = r->n_kv;

    (void)ctx;
    fake.n_calls++;
    assert_true(r->n_q <= r->q_room && r->n_kv <= r->kv_room);
    assert_true(r->n_q >= HYD_FUSED_LEAST_ROWS && r->n_kv >= HYD_FUSED_LEAST_ROWS);
    if (fake.fault == FAILS) {
        return HYD_ERR_INTERNAL;
    }
    if (fake.fault == LACKS || (fake.fault == LACKS_LONG && r->n_kv > 512)) {
        return HYD_ERR_UNSUPPORTED;
    }
    if (fake.fault == READS_BEHIND) {
        n_kv = hyd_fused_rows(n_kv);
    }
    if (fake.fault == WRONG_WHEN_ODD && n_kv % 64 != 0) {
        n_kv -= n_kv % 64;
    }
    for (uint32_t i = 0; i < r->n_q; i++) {
        for (uint32_t h = 0; h < r->shape.n_heads; h++) {
            compute_row(r, n_kv, i, h);
        }
    }
    return HYD_OK;
}

static void hear(void *ctx, const char *line)
{
    (void)ctx;
    fake.n_said++;
    (void)snprintf(fake.said, sizeof fake.said, "%s", line);
}

static const struct hyd_fused_library library = {"fake", fake_forward, NULL};

static const struct hyd_fused *use(enum fault fault)
{
    fake = (struct fake){.fault = fault};
    return compute_emu_use(&library, (struct hyd_fused_say){hear, NULL});
}

/* A ring step of a later index: both intervals are seen by every row. */
static struct attn_case ring_step(uint32_t l)
{
    struct attn_case c = {.name = "ring", .shape = attn_shape(64, 4, 2)};

    attn_case_add_ring(&c, l, 1, 2, 3, 5);
    return c;
}

static void library_computes_what_is_all_seen(void **state)
{
    struct attn_case ring = ring_step(300);
    struct attn_case full = {.name = "full", .shape = attn_shape(64, 4, 2)};
    const struct hyd_fused *f = use(RIGHT);
    uint64_t tested;

    (void)state;
    attn_drive_case(&on, &ring);
    assert_int_equal(f->n_verdicts, 1);
    assert_true(f->verdict[0].good);
    assert_int_equal(fake.n_said, 1);
    assert_non_null(strstr(fake.said, "fake computes"));
    tested = fake.n_calls;
    assert_true(tested > 5); /* the sizes of the test, then the ring's */
    full.shape.see = HYD_SEE_FULL;
    /* Two intervals that follow each other are one rectangle. */
    attn_case_add(&full,
                  (struct hyd_attn_unit){{2, 70, 9}, {{4, 70, 300}, {74, 80, 0}}, 2});
    attn_drive_case(&on, &full);
    assert_int_equal(fake.n_calls, tested + 1);
    assert_int_equal(fake.n_said, 1);
}

static void library_gets_nothing_that_is_masked_small_or_torn(void **state)
{
    struct attn_case masked = {.name = "masked", .shape = attn_shape(64, 2, 1)};
    struct attn_case window = {.name = "window", .shape = attn_shape(64, 2, 1)};
    struct attn_case torn = {.name = "torn", .shape = attn_shape(64, 3, 2)};
    const struct hyd_fused *f = use(RIGHT);
    uint64_t tested;

    (void)state;
    /* The last key lies one behind the first query; then one query too few. */
    attn_case_add(&masked, (struct hyd_attn_unit){{0, 70, 69}, {{0, 71, 0}}, 1});
    attn_case_add(&masked, (struct hyd_attn_unit){{70, 63, 90}, {{0, 71, 0}}, 1});
    attn_drive_case(&on, &masked);
    tested = fake.n_calls;
    assert_int_equal(f->n_rects, tested);
    window.shape.see = HYD_SEE_WINDOW;
    window.shape.window_tokens = 149; /* the last query is 149 from the first key */
    attn_case_add(&window, (struct hyd_attn_unit){{0, 70, 80}, {{0, 70, 0}}, 1});
    attn_drive_case(&on, &window);
    assert_int_equal(fake.n_calls, tested);
    torn.shape.head_first = 1;
    torn.shape.heads_per_kv = 2;
    torn.shape.see = HYD_SEE_FULL;
    attn_case_add(&torn, (struct hyd_attn_unit){{0, 70, 0}, {{0, 70, 0}}, 1});
    attn_drive_case(&on, &torn);
    assert_int_equal(fake.n_calls, tested);
    assert_int_equal(f->n_verdicts, 1);
}

static void library_that_errs_is_refused(void **state)
{
    static const enum fault faults[] = {
        ZEROES,           LSE_OF_FIRST_HEADS, BINARY_LSE, READS_BEHIND,
        REPEATS_KV_HEADS, WRONG_WHEN_ODD,     FAILS,      LACKS};

    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct attn_case ring = ring_step(260);
        const struct hyd_fused *f = use(faults[i]);
        uint64_t tested;

        attn_drive_case(&on, &ring);
        assert_int_equal(f->n_verdicts, 1);
        assert_false(f->verdict[0].good);
        assert_int_equal(fake.n_said, 1);
        assert_non_null(strstr(fake.said, "refused"));
        printf("%s\n", fake.said);
        /* The ring's two calls came after the test and asked for nothing. */
        tested = faults[i] == WRONG_WHEN_ODD ? 2 : 1;
        assert_int_equal(fake.n_calls, tested);
        assert_int_equal(f->n_rects, tested);
        assert_int_equal(fake.n_said, 1);
    }
}

static void what_a_library_lacks_later_is_ours(void **state)
{
    struct attn_case window = {.name = "long", .shape = attn_shape(64, 2, 1)};
    const struct hyd_fused *f = use(LACKS_LONG);

    (void)state;
    window.shape.see = HYD_SEE_WINDOW;
    window.shape.window_tokens = 1000;
    attn_case_add(&window, (struct hyd_attn_unit){
                               {0, 64, 600}, {{0, 300, 0}, {300, 300, 300}}, 2});
    attn_drive_case(&on, &window);
    assert_true(f->verdict[0].good);
    assert_int_equal(fake.n_calls, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(library_computes_what_is_all_seen),
        cmocka_unit_test(library_gets_nothing_that_is_masked_small_or_torn),
        cmocka_unit_test(library_that_errs_is_refused),
        cmocka_unit_test(what_a_library_lacks_later_is_ours),
    };
    int failed;

    hyd_test_choose();
    devices_open(&on);
    on.no_fp32 = true;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    devices_close(&on);
    return failed;
}
