/* fields.c - see fields.h. */
#include "scheduler/cli/lengths/fields.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

const struct hyd_fields hyd_fields_known[] = {
    {{"length"}, 1},
    {{"length_tokens"}, 1},
    {{"seq_len"}, 1},
    {{"seqlen"}, 1},
    {{"num_tokens"}, 1},
    {{"n_tokens"}, 1},
    {{"token_count"}, 1},
    {{"input_length", "output_length"}, 2}, /* Mooncake */
    {{"ContextTokens", "GeneratedTokens"}, 2}, /* Azure */
    {{"num_prefill_tokens", "num_decode_tokens"}, 2}, /* Vidur */
    {{"Request tokens", "Response tokens"}, 2}, /* BurstGPT */
    {{"Total tokens"}, 1},
    {{"input_tokens", "output_tokens"}, 2},
    {{"prompt_tokens", "completion_tokens"}, 2},
    {{"in", "out"}, 2}, /* coding-agent traces */
    {{"tokens"}, 1},
    {{"input_ids"}, 1},
    {{"messages"}, 1}, /* chat */
    {{"conversations"}, 1}, /* ShareGPT */
    {{"text"}, 1},
    {{"content"}, 1},
    {{"prompt", "completion"}, 2},
    {{"prompt", "response"}, 2},
    {{"question", "answer"}, 2},
    {{"instruction", "input", "output"}, 3},
    {{{0}}, 0},
};

bool hyd_fields_is_work(const char *name, size_t n_name)
{
    static const char *const names[] = {"work", "work_s", "extra_work_s"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strlen(names[i]) == n_name && strncasecmp(names[i], name, n_name) == 0) {
            return true;
        }
    }
    return false;
}

hyd_status hyd_fields_parse(const char *text, struct hyd_fields *ret_set,
                            struct hyd_error *err)
{
    struct hyd_fields set = {.n = 0};
    const char *at = text;

    for (;;) {
        const size_t n = strcspn(at, "+");

        if (n == 0 || n >= HYD_FIELD_NAME_BYTES || set.n == HYD_FIELDS_MAX) {
            return hyd_error_field(
                err, HYD_ERR_INVALID, "field",
                "field is '%.60s', must be NAME or NAME+NAME with at "
                "most %d names",
                text, HYD_FIELDS_MAX);
        }
        memcpy(set.name[set.n], at, n);
        set.n++;
        if (at[n] == '\0') {
            break;
        }
        at += n + 1;
    }
    *ret_set = set;
    return HYD_OK;
}

const char *hyd_fields_text(const struct hyd_fields *set, char *text, size_t text_bytes)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < set->n && used + 1 < text_bytes; i++) {
        const int n = snprintf(text + used, text_bytes - used, "%s%s", i > 0 ? "+" : "",
                               set->name[i]);

        used += n > 0 ? (size_t)n : 0;
    }
    return text;
}
