/* Tables and small texts for people. */
#include "scheduler/cli/table.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/fault_alloc.h"
#include "tests/lib/test.h"

static const char *const names[] = {"<name", "n", NULL};

static void table_aligns_words_left_and_numbers_right(void **state)
{
    struct hyd_table table;
    struct hyd_cli cli = {.alloc = hyd_alloc_system()};
    char *text = NULL;
    size_t n = 0;

    (void)state;
    cli.out = open_memstream(&text, &n);
    assert_non_null(cli.out);
    hyd_table_init(&table, cli.alloc, names);
    hyd_table_add(&table, "%s", "hydra");
    hyd_table_add(&table, "%d", 7);
    hyd_table_add(&table, "%s", "µ");
    hyd_table_end_row(&table);
    assert_int_equal(hyd_table_print(&table, &cli, NULL), HYD_OK);
    hyd_table_release(&table);
    (void)fclose(cli.out);
    assert_string_equal(text, "name   n\n"
                              "hydra  7\n"
                              "µ\n");
    free(text);
}

/* What a table of a word, a number and a sentence looks like on `width` columns. */
static char *draw(int width, bool terminal, bool wrap)
{
    static const char *const three[] = {"<name", "n", "<what it does", NULL};
    static const unsigned char narrow[] = {1};
    struct hyd_cli cli = {
        .alloc = hyd_alloc_system(), .width = width, .terminal = terminal};
    struct hyd_table table;
    char *text = NULL;
    size_t n = 0;

    cli.out = open_memstream(&text, &n);
    assert_non_null(cli.out);
    hyd_table_init(&table, cli.alloc, three);
    hyd_table_add(&table, "a");
    hyd_table_add(&table, "%d", 12);
    hyd_table_add(&table, "one two three four five six seven eight");
    table.wrap = wrap;
    hyd_table_fit(&table, &cli, narrow, wrap ? 0 : 1);
    assert_int_equal(hyd_table_print(&table, &cli, NULL), HYD_OK);
    hyd_table_release(&table);
    (void)fclose(cli.out);
    return text;
}

static void table_fits_a_terminal_and_leaves_a_pipe_alone(void **state)
{
    static const char whole[] = "name   n  what it does\n"
                                "a     12  one two three four five six seven eight\n";
    char *text = draw(40, false, true);

    (void)state;
    assert_string_equal(text, whole);
    free(text);
    text = draw(40, true, true);
    assert_string_equal(text, "name   n  what it does\n"
                              "a     12  one two three four five six\n"
                              "          seven eight\n");
    free(text);
    text = draw(49, true, false);
    assert_string_equal(text, whole);
    free(text);
    text = draw(48, true, false); /* a column too narrow: the number goes */
    assert_string_equal(text, "name  what it does\n"
                              "a     one two three four five six seven eight\n");
    free(text);
    text = draw(24, true, true); /* no room to wrap in: the terminal does it */
    assert_string_equal(text, whole);
    free(text);
}

static void table_gives_no_memory_and_leaks_nothing(void **state)
{
    (void)state;
    for (size_t fail_at = 1; fail_at < 6; fail_at++) {
        struct hyd_fault_alloc fault;
        struct hyd_table table;
        struct hyd_cli cli = {.out = stdout};

        hyd_fault_alloc_init(&fault);
        fault.fail_at = fail_at;
        hyd_table_init(&table, &fault.alloc, names);
        for (int i = 0; i < 4; i++) {
            hyd_table_add(&table, "x");
        }
        assert_int_equal(hyd_table_print(&table, &cli, NULL), HYD_ERR_NO_MEMORY);
        hyd_table_release(&table);
        assert_int_equal(fault.live, 0);
    }
}

static void texts_are_short_and_carry_units(void **state)
{
    char text[HYD_TEXT_BYTES];
    char bar[HYD_BAR_BYTES];
    const struct hyd_cli cli = {.colour = false};

    (void)state;
    assert_string_equal(hyd_text_seconds(0.00123456, text), "1.235 ms");
    assert_string_equal(hyd_text_seconds(12.5, text), "12.50 s");
    assert_string_equal(hyd_text_seconds(0, text), "0 s");
    assert_string_equal(hyd_text_seconds(2.5e-7, text), "0.2500 us");
    assert_string_equal(hyd_text_count(0, text), "0");
    assert_string_equal(hyd_text_count(999, text), "999");
    assert_string_equal(hyd_text_count(24857510, text), "24,857,510");
    assert_string_equal(hyd_text_things(1, "group", text), "1 group");
    assert_string_equal(hyd_text_things(2000, "group", text), "2,000 groups");
    assert_string_equal(hyd_text_things(0, "group", text), "0 groups");
    assert_string_equal(hyd_text_bar(&cli, 1, 2, 10, bar), "#####");
    assert_string_equal(hyd_text_bar(&cli, 0, 2, 10, bar), "");
    assert_string_equal(hyd_text_bar(&cli, 1, 1000, 10, bar), "#");
    assert_string_equal(hyd_text_bar(&cli, 5, 2, 3, bar), "###");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_aligns_words_left_and_numbers_right),
        cmocka_unit_test(table_fits_a_terminal_and_leaves_a_pipe_alone),
        cmocka_unit_test(table_gives_no_memory_and_leaks_nothing),
        cmocka_unit_test(texts_are_short_and_carry_units),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
