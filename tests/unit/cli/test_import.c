/* Importers: every format is recognised and read, and what is wrong is said with its file,
 * line and what would be right. */
#include "scheduler/cli/lengths/import.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/cli_run.h"
#include "tests/lib/test.h"

/* Lengths of a text, as "1 2 3", or the error text. */
static const char *import(const char *path, const char *text, const char *field)
{
    static char shown[512];
    struct hyd_lengths list;
    struct hyd_error err = {.text = ""};
    const struct hyd_import in = {.path = path,
                                  .bytes = text,
                                  .n_bytes = strlen(text),
                                  .field = field,
                                  .bytes_per_token = 4};
    size_t used = 0;

    hyd_lengths_init(&list, hyd_alloc_system());
    if (hyd_import_bytes(&in, "auto", &list, &err) != HYD_OK) {
        (void)snprintf(shown, sizeof shown, "%s", err.text);
        hyd_lengths_release(&list);
        return shown;
    }
    used = (size_t)snprintf(shown, sizeof shown, "%s", list.format);
    for (size_t i = 0; i < list.n && used < sizeof shown; i++) {
        used += (size_t)snprintf(shown + used, sizeof shown - used, " %u",
                                 list.length_tokens[i]);
        if (list.extra_work_s != NULL && used < sizeof shown) {
            used += (size_t)snprintf(shown + used, sizeof shown - used, "/%g",
                                     list.extra_work_s[i]);
        }
    }
    hyd_lengths_release(&list);
    return shown;
}

struct sample {
    const char *path;
    const char *text;
    const char *field;
    const char *want;
};

static void check_all(const struct sample *samples, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(import(samples[i].path, samples[i].text, samples[i].field),
                            samples[i].want);
    }
}

#define CHECK_ALL(samples) check_all(samples, sizeof(samples) / sizeof((samples)[0]))

static void lines_takes_comments_work_and_any_line_end(void **state)
{
    static const struct sample samples[] = {
        {"f", "1\n2\n3\n", NULL, "lines 1 2 3"},
        {"f", "# name: x\r\n\r\n 10 \r\n20\t0.5\r\n30", NULL, "lines 10/0 20/0.5 30/0"},
        {"f",
         "\xef\xbb\xbf"
         "7\n",
         NULL, "lines 7"},
        {"f", "268435456", NULL, "lines 268435456"},
    };

    (void)state;
    CHECK_ALL(samples);
}

static void lines_names_the_line_and_what_would_be_right(void **state)
{
    static const struct sample samples[] = {
        {"f.txt", "5\n0\n", NULL,
         "f.txt:2: length is 0, must be 1 to 268435456 tokens"},
        {"f.txt", "5\n268435457\n", NULL,
         "f.txt:2: length is 268435457, must be 1 to 268435456 tokens"},
        {"f.txt", "# c\n-5\n", NULL,
         "f.txt:2: length is '-5', must be a whole number of tokens, 1 to 268435456"},
        {"f.txt", "5\nabc\n", NULL,
         "f.txt:2: length is 'abc', must be a whole number of tokens, 1 to 268435456"},
        {"f.txt", "5\n99999999999999999999999\n", NULL,
         "f.txt:2: length is '99999999999999999999999', must be a whole number of "
         "tokens, "
         "1 to 268435456"},
        {"f.txt", "5 x\n", NULL, "f.txt:1: work is 'x', must be a number of seconds"},
        {"f.txt", "5 -1\n", NULL, "f.txt:1: work is -1, must be 0 or more seconds"},
        {"f.txt", "5 1 2\n", NULL,
         "f.txt:1: third word '2'; a line is LENGTH or LENGTH WORK"},
    };

    (void)state;
    CHECK_ALL(samples);
}

static void csv_finds_the_columns_of_published_traces(void **state)
{
    static const struct sample samples[] = {
        {"f", "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023,4808,10\r\n2024,1,2",
         NULL, "csv 4818 3"},
        {"f",
         "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
         "5,ChatGPT,472,18,490,\"Conversation, log\"\n",
         NULL, "csv 490"},
        {"f", "a.csv,length,work\nx,10,0.25\n\n# note\ny,12.0,\n", NULL,
         "csv 10/0.25 12/0"},
        {"f.csv", "a,b\n1,2\n3,4\n", "b", "csv 2 4"},
        {"f.csv", "a,b\n1,2\n3,4\n", "a+b", "csv 3 7"},
        {"f.csv", "1,2,3\n4,5,6\n", "2", "csv 2 5"},
        {"f", "100,0.5\n200,0\n", NULL, "csv 100/0.5 200/0"},
        {"f", "\"the\nname\",length\n\"a \"\"b\"\"\",5\n", NULL, "csv 5"},
    };

    (void)state;
    CHECK_ALL(samples);
}

static void csv_says_which_columns_there_are(void **state)
{
    static const struct sample samples[] = {
        {"f.csv", "range,number\n1,2\n", NULL,
         "f.csv:1: no length column known among range,number: name one with 'hydractl "
         "lengths --field NAME'"},
        {"f.csv", "a,b\n1,2\n", "c", "f.csv:1: no column 'c', there are a,b"},
        {"f.csv", "1,2,3\n", NULL,
         "f.csv:1: no header and 3 columns: choose one, counted from 1, with 'hydractl "
         "lengths --field N'"},
        {"f", "1,000\n12,500\n", NULL,
         "f:1: '1,000' is read as LENGTH,WORK: write a number without commas, or the "
         "seconds of work with a point"},
        {"f.csv", "1,2,3\n", "4",
         "f.csv:1: no header, so field '4' must be a column number from 1 to 3"},
        {"f.csv", "a,length\n1,2\n1\n", NULL,
         "f.csv:3: 1 cells, but 'length' is cell 2"},
        {"f.csv", "a,length\n1,2.5\n", NULL,
         "f.csv:2: length is '2.5', must be a whole number of tokens, at most "
         "268435456"},
        {"f.csv", "a,length\n1,2\n1,0\n", NULL,
         "f.csv:3: length is 0, must be 1 to 268435456 tokens"},
    };

    (void)state;
    CHECK_ALL(samples);
}

static void megatron_keeps_the_first_length_with_and_without_header(void **state)
{
    static const struct sample samples[] = {
        {"f.csv", "seq_len\n10\n20\n", NULL, "megatron 10 20"},
        {"f.csv", "10\n20\n", NULL, "megatron 10 20"},
        {"f", "seq_len\n10\n20\n", NULL, "megatron 10 20"},
        {"f.csv", "whatever\n", NULL, "megatron"},
        {"f", "1O24\n20\n", NULL,
         "f:1: length is '1O24', must be a whole number of tokens, 1 to 268435456"},
        {"f", "nan\n20\n", NULL,
         "f:1: length is 'nan', must be a whole number of tokens, 1 to 268435456"},
        {"f.csv", "1e3\n20\n", NULL,
         "f.csv:1: column 1 is '1e3', must be a whole number of tokens, at most "
         "268435456"},
    };

    (void)state;
    CHECK_ALL(samples);
}

static void jsonl_reads_traces_chats_texts_and_ids(void **state)
{
    static const struct sample samples[] = {
        {"f",
         "{\"timestamp\": 0, \"input_length\": 6758, \"output_length\": 500}\n"
         "{\"timestamp\": 1, \"input_length\": 5, \"output_length\": 0}\n",
         NULL, "jsonl 7258 5"},
        {"f.jsonl",
         "{\"messages\": [{\"role\": \"user\", \"content\": \"12345678\"}, {\"role\": "
         "\"x\", \"content\": [{\"type\": \"text\", \"text\": \"9\"}]}]}\n",
         NULL, "jsonl 3"},
        {"f.jsonl", "{\"conversations\": [{\"from\": \"h\", \"value\": \"1234\"}]}",
         NULL, "jsonl 1"},
        {"f.jsonl", "{\"text\": \"12345\"}\n\n{\"text\": \"\"}\n{\"text\": \"1\"}",
         NULL, "jsonl 2 1"},
        {"f.jsonl", "{\"input_ids\": [5, 6, 7], \"work\": 0.5}", NULL, "jsonl 3/0.5"},
        {"f.jsonl", "{\"a\": 3, \"b\": 4.0, \"length\": 9}", "a+b", "jsonl 7"},
    };

    (void)state;
    CHECK_ALL(samples);
}

static void jsonl_names_the_line(void **state)
{
    static const struct sample samples[] = {
        {"f.jsonl", "{\"length\": 1}\n{\"length\": 0}", NULL,
         "f.jsonl:2: length is 0, must be 1 to 268435456 tokens"},
        {"f.jsonl", "{\"length\": 1}\n{\"length\": -3}", NULL,
         "f.jsonl:2: length is -3, must be a whole number of tokens, 1 to 268435456"},
        {"f.jsonl", "{\"length\": 1.5}", NULL,
         "f.jsonl:1: length is 1.5, must be a whole number of tokens, 1 to 268435456"},
        {"f.jsonl", "{\"length\": {}}", NULL,
         "f.jsonl:1: length is an object or a truth value, must be a number, a text or "
         "a "
         "list"},
        {"f.jsonl", "{\"len\": 1}", NULL,
         "f.jsonl:1: record has no field known to hold a length or text: name it with "
         "'hydractl lengths --field NAME'"},
        {"f.jsonl", "{\"len\": 1}", "size", "f.jsonl:1: record has no field 'size'"},
        {"f.jsonl", "{\"length\": 1, \"work\": \"x\"}", NULL,
         "f.jsonl:1: work must be a number of seconds"},
    };

    (void)state;
    CHECK_ALL(samples);
    assert_non_null(strstr(import("f.jsonl", "{\"length\": 1}\n{oops}", NULL),
                           "f.jsonl:2: not JSON: "));
}

static void json_reads_arrays_documents_and_nested_sessions(void **state)
{
    static const struct sample samples[] = {
        {"f", "[1, 2,\n 3]", NULL, "json 1 2 3"},
        {"f", "[{\"length\": 4, \"work\": 1}]", NULL, "json 4/1"},
        {"f", "{\"version\": 1, \"lengths\": [5, 6]}", NULL, "json 5 6"},
        {"f", "{\"lengths\": [5, 6], \"extra_work_s\": [0, 0.5]}", NULL,
         "json 5/0 6/0.5"},
        {"f",
         "{\"requests\": [{\"in\": 1, \"out\": 2}, {\"requests\": [{\"in\": 3, "
         "\"out\": "
         "4}]}, {\"in\": 5, \"out\": 6}]}",
         NULL, "json 3 7 11"},
        {"f", "{\"length\": 8}", NULL, "json 8"},
        {"f", "{\"mine\": [7, 9]}", "mine", "json 7 9"},
    };

    (void)state;
    CHECK_ALL(samples);
}

static void json_says_what_is_wrong(void **state)
{
    static const struct sample samples[] = {
        {"f", "[1, 0]", NULL, "entry 1: f: length is 0, must be 1 to 268435456 tokens"},
        {"f", "[1, \"x\"]", NULL,
         "entry 1: f: expected a number of tokens or an object"},
        {"f", "{\"lengths\": [5], \"extra_work_s\": []}", NULL,
         "f: extra_work_s has 0 entries, must be one a length: 1"},
        {"f", "{\"mode\": \"file\"}", NULL,
         "f: a configuration of made-up lengths: use hydractl mock --config"},
        {"f", "{\"a\": 1}", NULL,
         "f: the object holds no array called lengths, requests, samples, records, "
         "sequences, documents or data: name it with 'hydractl lengths --field NAME'"},
    };

    (void)state;
    CHECK_ALL(samples);
    assert_non_null(strstr(import("f", "[1,\n2,\n", NULL), "f:3: not JSON: "));
}

static void text_is_estimated_from_its_bytes(void **state)
{
    static const struct sample samples[] = {
        {"f", "hello, world", NULL, "text 3"},
        {"f", "", NULL, "text"},
    };

    (void)state;
    CHECK_ALL(samples);
}

static void folder_gives_one_sequence_a_file_in_path_order(void **state)
{
    char folder[HYD_CLI_PATH_BYTES];
    char path[HYD_CLI_FILE_BYTES];
    struct hyd_import_options options = hyd_import_options_default();
    struct hyd_lengths list;

    (void)state;
    hyd_cli_folder_make(folder);
    hyd_cli_file_make(folder, "b", "12345678", 8, path);
    hyd_cli_file_make(folder, "a", "1234", 4, path);
    hyd_cli_file_make(folder, "binary", "a\0b", 3, path);
    hyd_cli_file_make(folder, "empty", "", 0, path);
    hyd_cli_file_make(folder, ".hidden", "x", 1, path);
    hyd_lengths_init(&list, hyd_alloc_system());
    assert_int_equal(hyd_import_path(&options, folder, &list, NULL), HYD_OK);
    assert_int_equal(list.n, 2);
    assert_int_equal(list.length_tokens[0], 1);
    assert_int_equal(list.length_tokens[1], 2);
    assert_int_equal(list.n_estimated, 2);
    assert_int_equal(list.n_skipped, 3);
    options.format = "csv";
    assert_int_equal(hyd_import_path(&options, folder, &list, NULL), HYD_ERR_INVALID);
    hyd_lengths_release(&list);
    hyd_cli_folder_cleanup(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_takes_comments_work_and_any_line_end),
        cmocka_unit_test(lines_names_the_line_and_what_would_be_right),
        cmocka_unit_test(csv_finds_the_columns_of_published_traces),
        cmocka_unit_test(csv_says_which_columns_there_are),
        cmocka_unit_test(megatron_keeps_the_first_length_with_and_without_header),
        cmocka_unit_test(jsonl_reads_traces_chats_texts_and_ids),
        cmocka_unit_test(jsonl_names_the_line),
        cmocka_unit_test(json_reads_arrays_documents_and_nested_sessions),
        cmocka_unit_test(json_says_what_is_wrong),
        cmocka_unit_test(text_is_estimated_from_its_bytes),
        cmocka_unit_test(folder_gives_one_sequence_a_file_in_path_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
