/*
 * options.h - one table of everything scalar that a plan depends on: key, field, values.
 *
 * What     A row ties a key to a field of struct hyd_plan_input. The same rows drive
 *          `--set KEY=VALUE`, hydractl's flags, the plan file's "input" object, options
 *          over gRPC, the checks of ranges and the fingerprint. A new option is a field
 *          in types.h and a row here.
 * Errors   HYD_ERR_NOT_FOUND  no option of this name; the text lists what there is
 *          HYD_ERR_INVALID    the value does not parse or is out of range; err names
 *                             field, value and limit
 * Owns     the rows are constants.
 * Threads  reentrant.
 */
#ifndef HYD_SCHEDULER_CORE_OPTIONS_H
#define HYD_SCHEDULER_CORE_OPTIONS_H

#include "common/base/error.h"
#include "scheduler/core/policy.h"
#include "scheduler/core/types.h"

enum hyd_option_kind {
    HYD_OPTION_NUMBER, /* uint32_t */
    HYD_OPTION_WIDE, /* uint64_t */
    HYD_OPTION_FLAG, /* bool */
    HYD_OPTION_CHOICE, /* enum: one of the words in `choice` */
};

enum hyd_option_scope {
    HYD_OPTION_INPUT, /* pool, limits, pass: the plan file's "input" */
    HYD_OPTION_EVALUATION, /* in "options"; means the same to every policy */
    HYD_OPTION_POLICY, /* in "options"; read by the policies that name it */
};

enum { HYD_OPTION_TEXT_BYTES = 32 };

struct hyd_option {
    const char *key; /* in plan files, --set and over gRPC */
    const char *flag; /* hydractl's flag without the dashes; NULL: only by --set */
    const char *help; /* one line, plain words */
    enum hyd_option_kind kind;
    enum hyd_option_scope scope;
    size_t offset; /* of the field in struct hyd_plan_input */
    uint64_t min;
    uint64_t max;
    const char *zero; /* word that stands for 0, for example "auto"; or NULL */
    const char *choice; /* HYD_OPTION_CHOICE: words by value, parted by '|' */
};

/* The last row has key NULL. */
extern const struct hyd_option hyd_option_table[];

/* NULL when there is none. A flag's spelling (dashes) is found too. */
const struct hyd_option *hyd_option_find(const char *key);

/* Does a plan under this policy depend on the option? */
bool hyd_option_applies(const struct hyd_option *option,
                        const struct hyd_policy_ops *policy);

/* Parse the value's text into its field; `in` is unchanged on failure. Flags take true,
 * false, on, off, yes, no, 1, 0. */
HYD_MUST_CHECK hyd_status hyd_option_set(struct hyd_plan_input *in, const char *key,
                                         const char *value, struct hyd_error *err);

/* The field as a number: a choice's index, a flag's 0 or 1. */
uint64_t hyd_option_get(const struct hyd_option *option,
                        const struct hyd_plan_input *in);

/* The field as text that hyd_option_set reads back. */
void hyd_option_print(const struct hyd_option *option, const struct hyd_plan_input *in,
                      char text[HYD_OPTION_TEXT_BYTES]);

/* The default's text, for help and configuration examples. */
void hyd_option_print_default(const struct hyd_option *option,
                              char text[HYD_OPTION_TEXT_BYTES]);

/* Is the field within its range? Fields of an input that was filled by hand. */
HYD_MUST_CHECK hyd_status hyd_option_check(const struct hyd_option *option,
                                           const struct hyd_plan_input *in,
                                           struct hyd_error *err);

#endif
