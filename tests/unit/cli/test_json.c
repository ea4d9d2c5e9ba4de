/* JSON out: fixed layout, shortest numbers that read back, texts escaped. */
#include "scheduler/cli/json.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/prop.h"
#include "tests/lib/test.h"

static char *print(json_t *root)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);

    assert_non_null(out);
    assert_int_equal(hyd_json_print(out, root, NULL), HYD_OK);
    (void)fclose(out);
    return text;
}

static void json_breaks_lines_at_the_top_and_between_records(void **state)
{
    char *text = print(json_pack("{s:i, s:[i,i], s:[{s:f},{s:[i]}], s:{s:n, s:b, s:s}}",
                                 "a", 1, "b", 2, 3, "c", "d", 0.1, "e", 4, "f", "g",
                                 "h", 1, "i", "x\"\\\n"));

    (void)state;
    assert_string_equal(text, "{\"a\": 1,\n"
                              " \"b\": [2, 3],\n"
                              " \"c\": [{\"d\": 0.1},\n"
                              "  {\"e\": [4]}],\n"
                              " \"f\": {\"g\": null, \"h\": true, "
                              "\"i\": \"x\\\"\\\\\\u000a\"}}\n");
    free(text);
}

static void json_refuses_a_document_that_could_not_be_built(void **state)
{
    (void)state;
    assert_int_equal(hyd_json_print(stdout, NULL, NULL), HYD_ERR_NO_MEMORY);
}

static void json_says_when_the_stream_is_full(void **state)
{
    FILE *full = fopen("/dev/full", "we");

    (void)state;
    if (full == NULL) {
        skip();
    }
    assert_int_equal(hyd_json_print(full, json_pack("[i]", 1), NULL), HYD_ERR_IO);
    (void)fclose(full);
}

static void json_text_takes_any_path(void **state)
{
    char *text =
        print(json_pack("[o, o]", hyd_json_text("a/\xff"), hyd_json_text("µ")));

    (void)state;
    assert_string_equal(text, "[\"a/?\",\n \"µ\"]\n");
    free(text);
}

static const char *reads_back(struct hyd_rng *rng, void *ctx)
{
    const uint64_t bits = hyd_rng_next(rng);
    char text[HYD_JSON_REAL_BYTES];
    double value = 0;

    (void)ctx;
    memcpy(&value, &bits, sizeof value);
    if (value - value != 0) {
        return NULL; /* not finite */
    }
    if (strtod(hyd_json_real(value, text), NULL) != value) {
        return hyd_prop_reason("%a became %s", value, text);
    }
    return NULL;
}

static void json_reals_read_back_exactly(void **state)
{
    char text[HYD_JSON_REAL_BYTES];

    (void)state;
    hyd_prop_run("reads back", 2000, reads_back, NULL);
    assert_string_equal(hyd_json_real(0.1, text), "0.1");
    assert_string_equal(hyd_json_real(1e-12, text), "1e-12");
    assert_string_equal(hyd_json_real(3, text), "3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_breaks_lines_at_the_top_and_between_records),
        cmocka_unit_test(json_refuses_a_document_that_could_not_be_built),
        cmocka_unit_test(json_says_when_the_stream_is_full),
        cmocka_unit_test(json_text_takes_any_path),
        cmocka_unit_test(json_reals_read_back_exactly),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
