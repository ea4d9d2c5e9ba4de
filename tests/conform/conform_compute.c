/* Every compute backend computes attention as its definition says: forward and backward
 * against a naive double version, on every device that this machine runs. Tolerances:
 * attn_drive.h. The other ops of the table: conform_compute_ops.c. */
#include <stdlib.h>

#include "tests/conform/attn_drive.h"
#include "tests/lib/prop.h"
#include "tests/lib/test.h"

static struct devices on; /* all devices under test */

/* Every case, or every `stride`th on a slow device. */
static size_t skip_to_next(size_t stride)
{
    return on.slow ? stride : 1;
}

static struct hyd_attn_unit square(uint32_t n)
{
    return (struct hyd_attn_unit){{0, n, 0}, {{0, n, 0}}, 1};
}

static void compute_equals_reference_for_every_head_size(void **state)
{
    static const uint32_t d[] = {64, 80, 96, 128, 192, 256};

    (void)state;
    for (size_t i = 0; i < sizeof d / sizeof *d; i++) {
        struct attn_case c = {.name = "head size", .shape = attn_shape(d[i], 2, 1)};

        attn_case_add(&c, square(on.slow ? 70 : 150));
        attn_drive_case(&on, &c);
    }
}

static void compute_equals_reference_at_ragged_sizes(void **state)
{
    static const uint32_t n[] = {1, 2, 5, 13, 31, 33, 63, 65, 97, 127, 129, 193};

    (void)state;
    for (size_t i = 0; i < sizeof n / sizeof *n; i += skip_to_next(4)) {
        struct attn_case c = {.name = "ragged", .shape = attn_shape(64, 2, 2)};

        const uint32_t n_kv = n[(i * 5 + 3) % 12];

        /* q and kv of unlike length, both away from row 0 and from position 0; a second
         * interval that does not count */
        attn_case_add(&c, (struct hyd_attn_unit){
                              {3, n[i], 40}, {{7, n_kv, 11}, {7, n_kv, 12}}, 1});
        attn_drive_case(&on, &c);
    }
}

static void compute_gives_zero_and_no_lse_to_rows_that_see_nothing(void **state)
{
    struct attn_case before = {.name = "keys later", .shape = attn_shape(64, 2, 1)};
    struct attn_case part = {.name = "keys later for some",
                             .shape = attn_shape(80, 2, 1)};
    struct attn_case no_keys = {.name = "no keys", .shape = attn_shape(64, 1, 1)};
    struct attn_case then = {.name = "nothing first", .shape = attn_shape(64, 1, 1)};

    (void)state;
    attn_case_add(&before, (struct hyd_attn_unit){{0, 50, 0}, {{0, 70, 200}}, 1});
    attn_drive_case(&on, &before);
    attn_case_add(&part, (struct hyd_attn_unit){{0, 140, 0}, {{0, 150, 100}}, 1});
    attn_drive_case(&on, &part);
    attn_case_add(&no_keys, (struct hyd_attn_unit){{0, 9, 0}, {{0, 0, 0}}, 1});
    attn_case_add(&no_keys, (struct hyd_attn_unit){{9, 9, 0}, {{0}}, 0});
    attn_case_add(&no_keys, (struct hyd_attn_unit){{18, 0, 0}, {{0, 5, 0}}, 1});
    attn_drive_case(&on, &no_keys);
    /* The first call gives -inf, the second one something, the third nothing again. */
    attn_case_add(&then, (struct hyd_attn_unit){{0, 40, 60}, {{0, 50, 200}}, 1});
    attn_case_next_call(&then);
    attn_case_add(&then, (struct hyd_attn_unit){{0, 40, 60}, {{50, 80, 0}}, 1});
    attn_case_next_call(&then);
    attn_case_add(&then, (struct hyd_attn_unit){{0, 40, 60}, {{0, 50, 200}}, 1});
    attn_drive_case(&on, &then);
}

static void compute_maps_query_heads_to_part_of_the_kv_heads(void **state)
{
    struct attn_case torn = {.name = "torn kv groups", .shape = attn_shape(64, 7, 3)};
    struct attn_case spare = {.name = "spare kv heads", .shape = attn_shape(64, 2, 3)};

    (void)state;
    /* Global q heads 5..11 in groups of 4: kv heads 1 (3 of 4), 2 (all): 3 is spare. */
    torn.shape.head_first = 5;
    torn.shape.heads_per_kv = 4;
    torn.shape.kv_head_first = 1;
    attn_case_add(&torn, square(70));
    attn_drive_case(&on, &torn);
    spare.shape.head_first = 6;
    spare.shape.heads_per_kv = 3;
    spare.shape.kv_head_first = 1;
    attn_case_add(&spare, square(70));
    attn_drive_case(&on, &spare);
}

static void compute_honours_window_and_full_masks(void **state)
{
    static const uint32_t window[] = {1, 2, 17, 64, 130, 1000};

    (void)state;
    for (size_t i = 0; i < sizeof window / sizeof *window; i += skip_to_next(2)) {
        struct attn_case c = {.name = "window", .shape = attn_shape(64, 2, 1)};

        c.shape.see = HYD_SEE_WINDOW;
        c.shape.window_tokens = window[i];
        attn_case_add(
            &c, (struct hyd_attn_unit){{0, 160, 30}, {{4, 90, 0}, {97, 110, 90}}, 2});
        attn_drive_case(&on, &c);
    }
    struct attn_case full = {.name = "full", .shape = attn_shape(64, 2, 1)};

    full.shape.see = HYD_SEE_FULL;
    attn_case_add(&full,
                  (struct hyd_attn_unit){{0, 111, 0}, {{2, 90, 300}, {97, 33, 10}}, 2});
    attn_drive_case(&on, &full);
}

static void compute_merges_calls_as_ring_steps_do(void **state)
{
    (void)state;
    for (uint32_t n_ring = on.slow ? 3 : 1; n_ring <= (on.slow ? 3u : 4u); n_ring++) {
        for (uint32_t rho = 0; rho < n_ring; rho++) {
            struct attn_case c = {.name = "ring", .shape = attn_shape(64, 2, 1)};

            attn_case_add_ring(&c, 190, rho, n_ring, 3, 5);
            attn_case_add_ring(&c, 3, rho, n_ring, 200, 220);
            attn_case_add_ring(&c, 61, rho, n_ring, 210, 230);
            attn_drive_case(&on, &c);
        }
    }
}

static void compute_walks_over_many_tiles(void **state)
{
    struct attn_case c = {.name = "many tiles", .shape = attn_shape(64, 1, 1)};

    (void)state;
    attn_case_add(
        &c,
        on.slow
            ? (struct hyd_attn_unit){{5, 150, 160}, {{2, 165, 0}, {180, 140, 165}}, 2}
            : (struct hyd_attn_unit){{5, 290, 300}, {{2, 301, 0}, {310, 270, 301}}, 2});
    attn_drive_case(&on, &c);
}

/* Blocks of wide heads share rows between warps, or are cut smaller where shared memory is
 * short: several blocks and steps, ends in the middle of both, two intervals, a torn group. */
static void compute_equals_reference_for_wide_heads_in_many_steps(void **state)
{
    static const uint32_t d[] = {128, 96, 192, 256};

    (void)state;
    for (size_t i = 0; i < (on.slow ? 2 : sizeof d / sizeof *d); i++) {
        struct attn_case c = {.name = "wide heads", .shape = attn_shape(d[i], 3, 2)};
        struct attn_case window = {.name = "wide window",
                                   .shape = attn_shape(d[i], 1, 1)};

        c.shape.head_first = 1; /* query heads 1 | 2, 3 on kv heads of two */
        c.shape.heads_per_kv = 2;
        attn_case_add(
            &c, (struct hyd_attn_unit){{3, 135, 100}, {{2, 97, 0}, {105, 130, 97}}, 2});
        attn_drive_case(&on, &c);
        window.shape.see = HYD_SEE_WINDOW;
        window.shape.window_tokens = 70;
        attn_case_add(&window, (struct hyd_attn_unit){{0, 150, 40}, {{5, 170, 0}}, 1});
        attn_drive_case(&on, &window);
    }
}

/* Tiles of queries and steps of keys are powers of two long: where the edge of what is
 * seen just touches one, or just does not. Few keys, so that one too many shows. */
static void compute_masks_tiles_that_the_edge_just_touches(void **state)
{
    (void)state;
    for (uint32_t off = 61; off <= 66; off++) {
        struct attn_case causal = {.name = "edge", .shape = attn_shape(64, 1, 1)};
        struct attn_case far = {.name = "far edge", .shape = attn_shape(64, 1, 1)};
        struct attn_case window = {.name = "window", .shape = attn_shape(64, 1, 1)};

        attn_case_add(&causal,
                      (struct hyd_attn_unit){{0, 66, 190 + off}, {{0, 90, 190}}, 1});
        attn_drive_case(&on, &causal);
        attn_case_add(&far,
                      (struct hyd_attn_unit){{0, 66, 192 + off}, {{0, 260, 0}}, 1});
        attn_drive_case(&on, &far);
        window.shape.see = HYD_SEE_WINDOW;
        /* then wide enough for whole tiles of kv rows to lie inside */
        window.shape.window_tokens = off == 65 ? 180 : off == 64 ? 193 : 75 + off;
        attn_case_add(&window, (struct hyd_attn_unit){{0, off, 290}, {{0, 300, 0}}, 1});
        attn_drive_case(&on, &window);
    }
    /* The last row of a warp sees one key of a step, and the first row of one: a quarter and
     * a fifth of what they see. */
    struct attn_case last = {.name = "last row", .shape = attn_shape(64, 1, 1)};
    struct attn_case first = {.name = "first row", .shape = attn_shape(64, 1, 1)};

    attn_case_add(&last,
                  (struct hyd_attn_unit){{0, 66, 100}, {{0, 3, 0}, {5, 60, 131}}, 2});
    attn_drive_case(&on, &last);
    first.shape.see = HYD_SEE_WINDOW;
    first.shape.window_tokens = 5;
    attn_case_add(&first, (struct hyd_attn_unit){{0, 66, 200}, {{0, 70, 197}}, 1});
    attn_drive_case(&on, &first);
}

static void compute_takes_more_units_than_one_launch_holds(void **state)
{
    struct attn_case c = {.name = "many units", .shape = attn_shape(64, 2, 1)};

    (void)state;
    for (uint32_t i = 0; i < 70; i++) {
        const uint32_t n = i % 4; /* some are empty */

        attn_case_add(&c, (struct hyd_attn_unit){{4 * i, n, 0}, {{5 * i, n, 0}}, 1});
    }
    attn_drive_case(&on, &c);
}

static void compute_survives_scores_of_hundreds(void **state)
{
    struct attn_case c = {.name = "huge scores", .shape = attn_shape(64, 2, 1)};

    (void)state;
    c.amplitude = 300.0;
    c.slack = 100.0; /* a score or lse of 300 has 8 bits less behind the point */
    attn_case_add_ring(&c, 200, 0, 3, 0, 0);
    attn_drive_case(&on, &c);
}

/* A random packed batch as one ring position sees it. */
static const char *random_case(struct hyd_rng *rng, void *ctx)
{
    static const uint32_t d[] = {64, 80, 96, 128, 192, 256};
    const uint32_t heads_per_kv = 1 + hyd_rng_below(rng, 3);
    const uint32_t head_first = hyd_rng_below(rng, 7);
    const uint32_t n_heads = 1 + hyd_rng_below(rng, 4);
    const uint32_t n_ring = 1 + hyd_rng_below(rng, 3);
    const uint32_t rho = hyd_rng_below(rng, n_ring);
    struct attn_case c = {.name = "random", .shape = attn_shape(64, 1, 1)};
    uint32_t q_row = hyd_rng_below(rng, 9), kv_row = hyd_rng_below(rng, 9);

    (void)ctx;
    c.shape = attn_shape(d[hyd_rng_below(rng, 6)], n_heads, 1);
    c.shape.head_first = head_first;
    c.shape.heads_per_kv = heads_per_kv;
    c.shape.kv_head_first = head_first / heads_per_kv;
    c.shape.n_kv_heads =
        (head_first + n_heads - 1) / heads_per_kv - c.shape.kv_head_first + 1;
    c.shape.see = (enum hyd_visibility)hyd_rng_below(rng, 3);
    c.shape.window_tokens = 1 + hyd_rng_below(rng, 100);
    c.lse_stride = 400;
    for (uint32_t i = 0; i <= hyd_rng_below(rng, 3); i++) {
        const uint32_t l =
            hyd_rng_below(rng, 2) ? hyd_rng_below(rng, 12) : hyd_rng_below(rng, 130);

        attn_case_add_ring(&c, l, rho, n_ring, q_row, kv_row);
        q_row = c.q_rows + hyd_rng_below(rng, 5);
        kv_row = c.kv_rows + hyd_rng_below(rng, 5);
    }
    attn_drive_case(&on, &c);
    return NULL;
}

static void compute_equals_reference_on_random_batches(void **state)
{
    (void)state;
    hyd_prop_run("compute random batches", on.slow ? 6 : 25, random_case, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compute_equals_reference_for_every_head_size),
        cmocka_unit_test(compute_equals_reference_at_ragged_sizes),
        cmocka_unit_test(compute_gives_zero_and_no_lse_to_rows_that_see_nothing),
        cmocka_unit_test(compute_maps_query_heads_to_part_of_the_kv_heads),
        cmocka_unit_test(compute_honours_window_and_full_masks),
        cmocka_unit_test(compute_merges_calls_as_ring_steps_do),
        cmocka_unit_test(compute_walks_over_many_tiles),
        cmocka_unit_test(compute_equals_reference_for_wide_heads_in_many_steps),
        cmocka_unit_test(compute_masks_tiles_that_the_edge_just_touches),
        cmocka_unit_test(compute_takes_more_units_than_one_launch_holds),
        cmocka_unit_test(compute_survives_scores_of_hundreds),
        cmocka_unit_test(compute_equals_reference_on_random_batches),
    };
    int failed;

    hyd_test_choose();
    devices_open(&on);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    devices_close(&on);
    return failed;
}
