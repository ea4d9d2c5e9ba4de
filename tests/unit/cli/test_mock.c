/* Made-up lengths are those of NumPy's legacy generator, and so of Megatron's mock data. */
#include "scheduler/cli/lengths/mock.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/cli_run.h"
#include "tests/lib/test.h"

static char folder[HYD_CLI_PATH_BYTES];

static int make_folder(void **state)
{
    (void)state;
    hyd_cli_folder_make(folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    hyd_cli_folder_cleanup(folder);
    return 0;
}

static void words_are_those_of_the_mersenne_twister(void **state)
{
    struct hyd_mock_rng rng;
    uint32_t word = 0;

    (void)state;
    hyd_mock_rng_seed(&rng, 5489);
    assert_int_equal(hyd_mock_rng_word(&rng), 3499211612U);
    /* The C++ standard states the 10,000th word of this generator. */
    for (int i = 1; i < 10000; i++) {
        word = hyd_mock_rng_word(&rng);
    }
    assert_int_equal(word, 4123659995U);
}

static void normals_are_those_of_numpy_with_seed_zero(void **state)
{
    static const double want[] = {1.764052345967664,  0.4001572083672233,
                                  0.9787379841057392, 2.240893199201458,
                                  1.8675579901499675, -0.977277879876411};
    struct hyd_mock_rng rng;

    (void)state;
    hyd_mock_rng_seed(&rng, 0);
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        assert_true(hyd_test_close(hyd_mock_rng_normal(&rng), want[i], 1e-14, 0));
    }
}

static struct hyd_cli_result mock_config(const char *json, const char *more)
{
    char path[HYD_CLI_FILE_BYTES];
    char words[2048];

    hyd_cli_file_make(folder, "config.json", json, strlen(json), path);
    (void)snprintf(words, sizeof words, "mock --config %s %s", path, more);
    return hyd_cli_run_text(words);
}

static void expect(const char *json, const char *more, int code, const char *want_out,
                   const char *want_err)
{
    struct hyd_cli_result r = mock_config(json, more);

    assert_string_equal(r.err, want_err);
    assert_string_equal(r.out, want_out);
    assert_int_equal(r.code, code);
    hyd_cli_result_release(&r);
}

static void configurations_of_all_three_modes_are_read(void **state)
{
    char path[HYD_CLI_FILE_BYTES];

    (void)state;
    /* exp(ln 4096 - 1.1^2 / 2 + 1.1 z) with the normals above, cut to the limits. */
    expect(
        "{\"mode\": \"distribution\", \"type\": \"lognormal\", \"min_seq_len\": 1024, "
        "\"max_seq_len\": 8192, \"mean_seq_len\": 4096, \"lognormal_sigma\": 1.1}",
        "-n 3", 0, "8192\n3473\n6564\n", "");
    expect("{\"mode\": \"verification\", \"data_path\": \"x\"}", "-n 2", 0,
           "4096\n1736\n", "");
    hyd_cli_file_make(folder, "lens.csv", "seq_len\n10\n20\n", 14, path);
    expect("{\"mode\": \"file\", \"path\": \"lens.csv\"}", "-n 3", 0, "10\n20\n10\n",
           "");
}

static void wrong_configurations_say_what_would_be_right(void **state)
{
    (void)state;
    expect(
        "{\"mode\": \"other\"}", "-n 1", 2, "",
        "hydractl mock: configuration: mode is 'other', must be distribution, file or "
        "verification\n");
    expect("{\"mode\": \"distribution\", \"min_seq_len\": 1, \"max_seq_len\": 2, "
           "\"mean_seq_len\": 4}",
           "-n 1", 2, "",
           "hydractl mock: configuration: field 'lognormal_sigma' is missing\n");
    expect("{\"mode\": \"distribution\", \"type\": \"uniform\"}", "-n 1", 2, "",
           "hydractl mock: type is 'uniform', must be lognormal\n");
    expect("{\"mode\": \"verification\", \"mean_seq_ln\": 4}", "-n 1", 2, "",
           "hydractl mock: configuration has no field 'mean_seq_ln'; did you mean "
           "'mean_seq_len'?\n");
    expect("{\"mode\": \"verification\", \"max_seq_len\": 0}", "-n 1", 2, "",
           "hydractl mock: configuration: max_seq_len must be a number from 1 to "
           "268435456\n");
    expect("{\"mode\": \"verification\", \"max_seq_len\": 50}", "-n 1", 2, "",
           "hydractl mock: shortest is 100 and longest is 50, must be 1 <= shortest <= "
           "longest <= 268435456 tokens\n");
    expect("{\"mode\": \"file\"}", "-n 1", 2, "",
           "hydractl mock: configuration: field 'path' is missing, must name a file of "
           "lengths\n");
    expect("{\"mode\": \"verification\"}", "", 2, "",
           "hydractl mock: option '-n N' is missing\n");
    expect("{\"mode\": \"verification\"}", "--lognormal 1,1,1,1 -n 1", 2, "",
           "hydractl mock: give one of --lognormal and --config\n");
}

static void same_seed_same_lengths_other_seed_others(void **state)
{
    struct hyd_cli_result a =
        hyd_cli_run_text("mock --lognormal 2000,1,1,9999 -n 50 --seed 3");
    struct hyd_cli_result b =
        hyd_cli_run_text("mock --lognormal 2000,1,1,9999 -n 50 --seed 3");
    struct hyd_cli_result c =
        hyd_cli_run_text("mock --lognormal 2000,1,1,9999 -n 50 --seed 4");

    (void)state;
    assert_int_equal(a.code, 0);
    assert_string_equal(a.out, b.out);
    assert_string_not_equal(a.out, c.out);
    hyd_cli_result_release(&a);
    hyd_cli_result_release(&b);
    hyd_cli_result_release(&c);
}

static void json_output_is_a_file_of_lengths(void **state)
{
    char words[1024];
    struct hyd_cli_result r;

    (void)state;
    (void)snprintf(words, sizeof words,
                   "mock --lognormal 100,0,1,1000 -n 2 --json -o %s/m.json", folder);
    r = hyd_cli_run_text(words);
    assert_int_equal(r.code, 0);
    assert_string_equal(r.out, "");
    hyd_cli_result_release(&r);
    (void)snprintf(words, sizeof words, "lengths %s/m.json -o -", folder);
    r = hyd_cli_run_text(words);
    assert_string_equal(r.out, "100\n100\n");
    hyd_cli_result_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_those_of_the_mersenne_twister),
        cmocka_unit_test(normals_are_those_of_numpy_with_seed_zero),
        cmocka_unit_test(configurations_of_all_three_modes_are_read),
        cmocka_unit_test(wrong_configurations_say_what_would_be_right),
        cmocka_unit_test(same_seed_same_lengths_other_seed_others),
        cmocka_unit_test(json_output_is_a_file_of_lengths),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
