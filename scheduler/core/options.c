/*
 * options.c - see options.h.
 *
 * Numbers are read and written by hand: the core is free of libc's locale and of I/O.
 */
#include "scheduler/core/options.h"

#include <stddef.h>
#include <string.h>

#include "common/base/check.h"
#include "scheduler/core/planner.h"

#include "common/base/banned.h"

#define AT(member) offsetof(struct hyd_plan_input, member)

/* clang-format off */
const struct hyd_option hyd_option_table[] = {
    {"ranks", "ranks", "ranks of the pool (DP x CP of one pipeline stage)",
     HYD_OPTION_NUMBER, HYD_OPTION_INPUT, AT(pool.n_ranks), 1, HYD_MAX_RANKS, NULL, NULL},
    {"ranks_per_node", "ranks-per-node", "ranks with fast links to each other",
     HYD_OPTION_NUMBER, HYD_OPTION_INPUT, AT(pool.ranks_per_node), 1, HYD_MAX_RANKS, NULL, NULL},
    {"cap_tokens", "cap", "tokens a rank may hold in a microbatch",
     HYD_OPTION_NUMBER, HYD_OPTION_INPUT, AT(limits.cap_tokens), 1, HYD_MAX_LENGTH_TOKENS, NULL, NULL},
    {"min_degree", "min-degree", "smallest context-parallel degree",
     HYD_OPTION_NUMBER, HYD_OPTION_INPUT, AT(limits.min_degree), 1, HYD_MAX_RANKS, NULL, NULL},
    {"max_degree", "max-degree", "largest context-parallel degree",
     HYD_OPTION_NUMBER, HYD_OPTION_INPUT, AT(limits.max_degree), 0, HYD_MAX_RANKS, "ranks", NULL},
    {"align_tokens", "align", "count lengths rounded up to a multiple of this",
     HYD_OPTION_NUMBER, HYD_OPTION_INPUT, AT(limits.align_tokens), 0, 1 << 16, "none", NULL},
    {"tp", "tp", "tensor-parallel size",
     HYD_OPTION_NUMBER, HYD_OPTION_INPUT, AT(pool.tp), 1, 1024, NULL, NULL},
    {"pp", "pp", "pipeline stages",
     HYD_OPTION_NUMBER, HYD_OPTION_INPUT, AT(pool.pp), 1, HYD_MAX_STAGES, NULL, NULL},
    {"vpp", "vpp", "virtual pipeline chunks of a stage",
     HYD_OPTION_NUMBER, HYD_OPTION_INPUT, AT(pool.vpp), 1, HYD_MAX_CHUNKS, NULL, NULL},
    {"vpp_group", "vpp-group", "microbatches come in multiples of this",
     HYD_OPTION_NUMBER, HYD_OPTION_INPUT, AT(pool.vpp_group), 1, 4096, NULL, NULL},
    {"pass", "pass", "train: forward and backward; forward: forward only",
     HYD_OPTION_CHOICE, HYD_OPTION_INPUT, AT(pass), 0, 1, NULL, "train|forward"},
    {"seed", "seed", "seed of what a policy leaves to chance; nothing today",
     HYD_OPTION_WIDE, HYD_OPTION_INPUT, AT(options.seed), 0, UINT64_MAX, NULL, NULL},

    {"order", "order", "order of the microbatches",
     HYD_OPTION_CHOICE, HYD_OPTION_EVALUATION, AT(options.order), 0, 3, NULL,
     "default|native|hot-middle|ramp"},
    {"uneven_heads", "uneven-heads", "Ulysses degrees need not divide the heads",
     HYD_OPTION_FLAG, HYD_OPTION_EVALUATION, AT(options.uneven_heads), 0, 1, NULL, NULL},
    {"dp_barrier", "dp-barrier", "all ranks wait for each other after each microbatch",
     HYD_OPTION_FLAG, HYD_OPTION_EVALUATION, AT(options.dp_barrier), 0, 1, NULL, NULL},
    {"zero_bubble", "zero-bubble", "backward in two parts: input and weight gradients",
     HYD_OPTION_FLAG, HYD_OPTION_EVALUATION, AT(options.zero_bubble), 0, 1, NULL, NULL},

    {"degrees", "degrees", "degrees to choose from",
     HYD_OPTION_CHOICE, HYD_OPTION_POLICY, AT(options.degrees), 0, 2, NULL, "tile|pow2|any"},
    {"cells", "cells", "may a rank hold shards of several groups in a microbatch",
     HYD_OPTION_CHOICE, HYD_OPTION_POLICY, AT(options.cells), 0, 2, NULL,
     "auto|mixed|exclusive"},
    {"fallback", "fallback", "policy that is used where it is faster",
     HYD_OPTION_CHOICE, HYD_OPTION_POLICY, AT(options.fallback), 0, 1, NULL, "off|megatron"},
    {"effort", "effort", "how many candidates are tried",
     HYD_OPTION_NUMBER, HYD_OPTION_POLICY, AT(options.effort), 1, 6, NULL, NULL},
    {"microbatches", "microbatches", "number of microbatches",
     HYD_OPTION_NUMBER, HYD_OPTION_POLICY, AT(options.microbatches), 0, HYD_MAX_MICROBATCHES,
     "auto", NULL},
    {"cp", "cp", "static context-parallel size; relax: the largest one",
     HYD_OPTION_NUMBER, HYD_OPTION_POLICY, AT(options.cp), 0, HYD_MAX_RANKS, "auto", NULL},
    {"max_context_tokens", "max-context", "longest sequence there can be",
     HYD_OPTION_NUMBER, HYD_OPTION_POLICY, AT(options.max_context_tokens), 0,
     HYD_MAX_LENGTH_TOKENS, "auto", NULL},
    {"split", NULL, "how a microbatch is cut into sub-groups",
     HYD_OPTION_CHOICE, HYD_OPTION_POLICY, AT(options.split), 0, 1, NULL, "tokens|count"},
    {"dynamic", NULL, "resize the groups of each microbatch",
     HYD_OPTION_FLAG, HYD_OPTION_POLICY, AT(options.dynamic), 0, 1, NULL, NULL},
    {"pad", NULL, "none: packed; max: every sequence padded to the longest",
     HYD_OPTION_CHOICE, HYD_OPTION_POLICY, AT(options.pad), 0, 1, NULL, "none|max"},
    {NULL, NULL, NULL, HYD_OPTION_NUMBER, HYD_OPTION_INPUT, 0, 0, 0, NULL, NULL},
};
/* clang-format on */

/* A choice's field is read as uint32_t. */
_Static_assert(sizeof(enum hyd_order) == sizeof(uint32_t), "enums are 32 bits wide");

static bool same_key(const char *key, const char *given)
{
    for (; *key != '\0' || *given != '\0'; key++, given++) {
        if (*key != *given && !(*key == '_' && *given == '-')) {
            return false;
        }
    }
    return true;
}

const struct hyd_option *hyd_option_find(const char *key)
{
    for (const struct hyd_option *o = hyd_option_table; o->key != NULL; o++) {
        if (same_key(o->key, key) || (o->flag != NULL && strcmp(o->flag, key) == 0)) {
            return o;
        }
    }
    return NULL;
}

bool hyd_option_applies(const struct hyd_option *option,
                        const struct hyd_policy_ops *policy)
{
    const size_t n = strlen(option->key);
    const char *at = policy->options;

    if (option->scope != HYD_OPTION_POLICY) {
        return true;
    }
    while ((at = strstr(at, option->key)) != NULL) {
        if ((at == policy->options || at[-1] == ' ') &&
            (at[n] == '\0' || at[n] == ' ')) {
            return true;
        }
        at += n;
    }
    return false;
}

uint64_t hyd_option_get(const struct hyd_option *option,
                        const struct hyd_plan_input *in)
{
    const char *field = (const char *)in + option->offset;
    uint64_t wide = 0;
    uint32_t number = 0;
    bool flag = false;

    switch (option->kind) {
    case HYD_OPTION_WIDE:
        memcpy(&wide, field, sizeof wide);
        return wide;
    case HYD_OPTION_FLAG:
        memcpy(&flag, field, sizeof flag);
        return flag ? 1 : 0;
    case HYD_OPTION_NUMBER:
    case HYD_OPTION_CHOICE:
        memcpy(&number, field, sizeof number);
        return number;
    }
    return 0;
}

static void store(const struct hyd_option *option, struct hyd_plan_input *in,
                  uint64_t value)
{
    char *field = (char *)in + option->offset;
    const uint32_t number = (uint32_t)value;
    const bool flag = value != 0;

    switch (option->kind) {
    case HYD_OPTION_WIDE:
        memcpy(field, &value, sizeof value);
        break;
    case HYD_OPTION_FLAG:
        memcpy(field, &flag, sizeof flag);
        break;
    case HYD_OPTION_NUMBER:
    case HYD_OPTION_CHOICE:
        memcpy(field, &number, sizeof number);
        break;
    }
}

static char *put_number(char *at, uint64_t value)
{
    char digit[24];
    size_t n = 0;

    do {
        digit[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    while (n > 0) {
        *at++ = digit[--n];
    }
    *at = '\0';
    return at;
}

static bool get_number(const char *text, uint64_t *ret_value)
{
    uint64_t value = 0;

    if (*text == '\0') {
        return false;
    }
    for (; *text != '\0'; text++) {
        const uint64_t digit = (uint64_t)(*text - '0');

        if (*text < '0' || *text > '9' || value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *ret_value = value;
    return true;
}

/* Word number `index` of words parted by '|', and its length; NULL when there is none. */
static const char *word_at(const char *words, uint64_t index, size_t *ret_bytes)
{
    for (; index > 0; index--) {
        words = strchr(words, '|');
        if (words == NULL) {
            return NULL;
        }
        words++;
    }
    *ret_bytes = strcspn(words, "|");
    return words;
}

static bool get_word(const char *words, const char *text, uint64_t *ret_value)
{
    const char *word = NULL;
    size_t bytes = 0;

    for (uint64_t i = 0; (word = word_at(words, i, &bytes)) != NULL; i++) {
        if (strlen(text) == bytes && memcmp(word, text, bytes) == 0) {
            *ret_value = i;
            return true;
        }
    }
    return false;
}

static char *put_text(char *at, const char *text)
{
    while (*text != '\0') {
        *at++ = *text++;
    }
    *at = '\0';
    return at;
}

/* What would be right, in words. */
static void limit_text(const struct hyd_option *option,
                       char text[HYD_ERROR_LIMIT_BYTES])
{
    char *at = text;

    if (option->kind == HYD_OPTION_CHOICE) {
        hyd_assert(strlen(option->choice) < HYD_ERROR_LIMIT_BYTES);
        (void)put_text(at, option->choice);
        return;
    }
    if (option->kind == HYD_OPTION_FLAG) {
        (void)put_text(at, "on|off");
        return;
    }
    at = put_number(at, option->min);
    at = put_text(at, " to ");
    at = put_number(at, option->max);
    if (option->zero != NULL) {
        at = put_text(at, " or ");
        (void)put_text(at, option->zero);
    }
}

static bool parse(const struct hyd_option *option, const char *text,
                  uint64_t *ret_value)
{
    switch (option->kind) {
    case HYD_OPTION_FLAG:
        if (!get_word("false|true", text, ret_value) &&
            !get_word("off|on", text, ret_value) &&
            !get_word("no|yes", text, ret_value)) {
            return get_word("0|1", text, ret_value);
        }
        return true;
    case HYD_OPTION_CHOICE:
        return get_word(option->choice, text, ret_value);
    case HYD_OPTION_NUMBER:
    case HYD_OPTION_WIDE:
        if (option->zero != NULL && strcmp(option->zero, text) == 0) {
            *ret_value = 0;
            return true;
        }
        return get_number(text, ret_value) && *ret_value >= option->min &&
               *ret_value <= option->max;
    }
    return false;
}

hyd_status hyd_option_set(struct hyd_plan_input *in, const char *key, const char *value,
                          struct hyd_error *err)
{
    const struct hyd_option *option = hyd_option_find(key);
    char limit[HYD_ERROR_LIMIT_BYTES];
    uint64_t number = 0;

    if (option == NULL) {
        return hyd_error_value(err, HYD_ERR_NOT_FOUND, "option",
                               "a key that `hydractl policies` lists", "'%s'", key);
    }
    if (!parse(option, value, &number)) {
        limit_text(option, limit);
        return hyd_error_value(err, HYD_ERR_INVALID, option->key, limit, "'%s'", value);
    }
    store(option, in, number);
    return HYD_OK;
}

void hyd_option_print(const struct hyd_option *option, const struct hyd_plan_input *in,
                      char text[HYD_OPTION_TEXT_BYTES])
{
    const uint64_t value = hyd_option_get(option, in);
    const char *words = option->kind == HYD_OPTION_FLAG ? "off|on" : option->choice;
    const char *word = NULL;
    size_t bytes = 0;

    if (words != NULL) {
        word = word_at(words, value, &bytes);
    } else if (value == 0 && option->zero != NULL) {
        word = option->zero;
        bytes = strlen(word);
    }
    if (word == NULL) {
        (void)put_number(text, value);
        return;
    }
    hyd_assert(bytes < HYD_OPTION_TEXT_BYTES);
    memcpy(text, word, bytes);
    text[bytes] = '\0';
}

void hyd_option_print_default(const struct hyd_option *option,
                              char text[HYD_OPTION_TEXT_BYTES])
{
    const struct hyd_plan_input in = hyd_plan_input_default();

    hyd_option_print(option, &in, text);
}

hyd_status hyd_option_check(const struct hyd_option *option,
                            const struct hyd_plan_input *in, struct hyd_error *err)
{
    const uint64_t value = hyd_option_get(option, in);
    char limit[HYD_ERROR_LIMIT_BYTES];

    if (value >= option->min && value <= option->max) {
        return HYD_OK;
    }
    limit_text(option, limit);
    return hyd_error_value(err, HYD_ERR_INVALID, option->key, limit, "%llu",
                           (unsigned long long)value);
}
