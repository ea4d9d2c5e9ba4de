/* `hydra-bench attn cuda` over the fake card: its check passes, its document has a row for
 * every mask, and a card that breaks ends it with status 1. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "tests/bench/bench_attn_gpu.h"
#include "tests/fake_gpu/fake_gpu.h"
#include "tests/lib/test.h"

extern const struct hyd_compute_ops hyd_compute_cuda;

static struct hyd_compute *open_card(void)
{
    const struct hyd_compute_config config = {.device = 0};
    struct hyd_compute *dev = NULL;

    assert_int_equal(hyd_compute_cuda.open(&config, &dev, NULL), HYD_OK);
    return dev;
}

static void the_document_has_both_masks_of_every_length(void **state)
{
    static const char *const word[] = {"cuda", "d64", "96", "160"};
    const struct hyd_bench_args args = {
        .json = true, .check = true, .word = word, .n_words = 4};
    struct hyd_compute *dev = open_card();
    FILE *to = tmpfile();
    const int out = dup(STDOUT_FILENO);
    json_t *doc = NULL;
    int rc = 1;

    (void)state;
    assert_non_null(to);
    (void)fflush(stdout);
    (void)dup2(fileno(to), STDOUT_FILENO);
    rc = hyd_bench_attn_gpu(&args, &hyd_compute_cuda, dev);
    (void)fflush(stdout);
    (void)dup2(out, STDOUT_FILENO);
    (void)close(out);
    assert_int_equal(rc, 0);
    rewind(to);
    doc = json_loadf(to, 0, NULL);
    (void)fclose(to);
    assert_non_null(doc);
    assert_int_equal(json_array_size(json_object_get(doc, "rows")), 4);
    for (size_t i = 0; i < 4; i++) {
        const json_t *row = json_array_get(json_object_get(doc, "rows"), i);

        assert_int_equal(json_integer_value(json_object_get(row, "head_dim")), 64);
        assert_int_equal(json_integer_value(json_object_get(row, "tokens")),
                         i < 2 ? 96 : 160);
        assert_string_equal(json_string_value(json_object_get(row, "see")),
                            i % 2 == 0 ? "causal" : "full");
        assert_true(json_real_value(json_object_get(json_object_get(row, "backward"),
                                                    "tflop_per_s")) > 0.0);
    }
    json_decref(doc);
    hyd_compute_cuda.close(dev);
    assert_int_equal(fake_gpu_left(), 0);
}

static void a_broken_card_ends_it(void **state)
{
    const struct hyd_bench_args args = {.check = true};
    struct fake_gpu_card card = fake_gpu_card();
    struct hyd_compute *dev = open_card();

    (void)state;
    card.broken = cudaErrorIllegalAddress;
    fake_gpu_set_card(&card);
    assert_int_equal(hyd_bench_attn_gpu(&args, &hyd_compute_cuda, dev), 1);
    hyd_compute_cuda.close(dev);
    fake_gpu_reset();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_document_has_both_masks_of_every_length),
        cmocka_unit_test(a_broken_card_ends_it),
    };

    fake_gpu_reset();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
