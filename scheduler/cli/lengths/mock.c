/* mock.c - see mock.h. */
#include "scheduler/cli/lengths/mock.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "scheduler/cli/file.h"
#include "scheduler/cli/json_rows.h"
#include "scheduler/cli/lengths/import.h"
#include "scheduler/core/types.h"

enum { SHIFT = 397, N_WORDS = 4 };

#define CONFIG_MAX_BYTES ((size_t)1 << 20)

void hyd_mock_rng_seed(struct hyd_mock_rng *rng, uint32_t seed)
{
    rng->word[0] = seed;
    for (uint32_t i = 1; i < HYD_MOCK_WORDS; i++) {
        const uint32_t last = rng->word[i - 1];

        rng->word[i] = 1812433253U * (last ^ (last >> 30)) + i;
    }
    rng->next = HYD_MOCK_WORDS;
    rng->has_spare = false;
    rng->spare = 0;
}

/* The linear recurrence over all words, in place. */
static void refill(struct hyd_mock_rng *rng)
{
    for (unsigned i = 0; i < HYD_MOCK_WORDS; i++) {
        const uint32_t high = rng->word[i] & 0x80000000U;
        const uint32_t low = rng->word[(i + 1) % HYD_MOCK_WORDS] & 0x7fffffffU;
        const uint32_t y = high | low;

        rng->word[i] = rng->word[(i + SHIFT) % HYD_MOCK_WORDS] ^ (y >> 1) ^
                       ((y & 1U) != 0 ? 0x9908b0dfU : 0U);
    }
    rng->next = 0;
}

uint32_t hyd_mock_rng_word(struct hyd_mock_rng *rng)
{
    uint32_t y = 0;

    if (rng->next == HYD_MOCK_WORDS) {
        refill(rng);
    }
    y = rng->word[rng->next++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680U;
    y ^= (y << 15) & 0xefc60000U;
    return y ^ (y >> 18);
}

double hyd_mock_rng_unit(struct hyd_mock_rng *rng)
{
    const uint32_t high = hyd_mock_rng_word(rng) >> 5; /* 27 bits */
    const uint32_t low = hyd_mock_rng_word(rng) >> 6; /* 26 bits */

    return (high * 0x1p26 + low) * 0x1p-53;
}

double hyd_mock_rng_normal(struct hyd_mock_rng *rng)
{
    double x = 0;
    double y = 0;
    double square = 0;

    if (rng->has_spare) {
        rng->has_spare = false;
        return rng->spare;
    }
    do {
        x = 2 * hyd_mock_rng_unit(rng) - 1;
        y = 2 * hyd_mock_rng_unit(rng) - 1;
        square = x * x + y * y;
    } while (square >= 1 || square == 0);
    square = sqrt(-2 * log(square) / square);
    rng->spare = square * x;
    rng->has_spare = true;
    return square * y;
}

static hyd_status check_mock(const struct hyd_mock *mock, struct hyd_error *err)
{
    if (!(mock->min_tokens >= 1) || !(mock->max_tokens <= HYD_MAX_LENGTH_TOKENS) ||
        !(mock->min_tokens <= mock->max_tokens)) {
        return hyd_error_field(
            err, HYD_ERR_INVALID, "min,max",
            "shortest is %g and longest is %g, must be 1 <= shortest "
            "<= longest <= %d tokens",
            mock->min_tokens, mock->max_tokens, HYD_MAX_LENGTH_TOKENS);
    }
    if (!(mock->mean_tokens > 0) || !isfinite(mock->mean_tokens)) {
        return hyd_error_field(err, HYD_ERR_INVALID, "mean",
                               "mean is %g, must be above 0 tokens", mock->mean_tokens);
    }
    if (!(mock->sigma >= 0) || !(mock->sigma <= 16)) {
        return hyd_error_field(err, HYD_ERR_INVALID, "sigma",
                               "sigma is %g, must be 0 to 16", mock->sigma);
    }
    return HYD_OK;
}

hyd_status hyd_mock_lognormal(const struct hyd_mock *mock, size_t n, uint32_t seed,
                              struct hyd_lengths *list, struct hyd_error *err)
{
    struct hyd_mock_rng rng;
    const double mu = log(mock->mean_tokens) - mock->sigma * mock->sigma / 2;
    hyd_status st = check_mock(mock, err);

    hyd_mock_rng_seed(&rng, seed);
    for (size_t i = 0; st == HYD_OK && i < n; i++) {
        const double drawn = exp(mu + mock->sigma * hyd_mock_rng_normal(&rng));
        const double tokens = fmin(fmax(drawn, mock->min_tokens), mock->max_tokens);

        st = hyd_lengths_add(list, (uint32_t)tokens, 0, err);
    }
    return st;
}

#define IN_MOCK(member) offsetof(struct hyd_mock, member)

static const struct hyd_json_row mock_rows[] = {
    {"mode", NULL, HYD_JSON_IGNORED, true, 0, 0, 0}, /* four words before the numbers */
    {"type", NULL, HYD_JSON_IGNORED, false, 0, 0, 0},
    {"format", NULL, HYD_JSON_IGNORED, false, 0, 0, 0},
    {"data_path", NULL, HYD_JSON_IGNORED, false, 0, 0, 0},
    {"min_seq_len", NULL, HYD_JSON_REAL, false, IN_MOCK(min_tokens), 1, 1 << 28},
    {"max_seq_len", NULL, HYD_JSON_REAL, false, IN_MOCK(max_tokens), 1, 1 << 28},
    {"mean_seq_len", NULL, HYD_JSON_REAL, false, IN_MOCK(mean_tokens), 1e-6, 1 << 28},
    {"lognormal_sigma", NULL, HYD_JSON_REAL, false, IN_MOCK(sigma), 0, 16},
    {0},
};

/* Where "path" of a configuration lies. */
static void resolve_path(const char *config_path, const char *path,
                         struct hyd_mock_config *config)
{
    const char *slash = strrchr(config_path, '/');

    if (path[0] != '/' && slash != NULL) {
        const int n = snprintf(config->file, sizeof config->file, "%.*s/%s",
                               (int)(slash - config_path), config_path, path);

        if (n > 0 && (size_t)n < sizeof config->file &&
            access(config->file, R_OK) == 0) {
            return;
        }
    }
    (void)snprintf(config->file, sizeof config->file, "%s", path);
}

static hyd_status read_distribution(const json_t *root, bool must_be_given,
                                    struct hyd_mock *mock, struct hyd_error *err)
{
    const char *type = json_string_value(json_object_get(root, "type"));
    hyd_status st = HYD_OK;

    if (type != NULL && strcmp(type, "lognormal") != 0) {
        return hyd_error_field(err, HYD_ERR_INVALID, "type",
                               "type is '%.40s', must be lognormal", type);
    }
    st = hyd_json_rows_read(mock_rows, root, "configuration", mock, err);
    if (st != HYD_OK) {
        return st;
    }
    for (size_t i = N_WORDS; must_be_given && mock_rows[i].key != NULL; i++) {
        if (json_object_get(root, mock_rows[i].key) == NULL) {
            return hyd_error_field(err, HYD_ERR_INVALID, mock_rows[i].key,
                                   "configuration: field '%s' is missing",
                                   mock_rows[i].key);
        }
    }
    return check_mock(mock, err);
}

static hyd_status read_config(const char *config_path, const json_t *root,
                              struct hyd_mock_config *config, struct hyd_error *err)
{
    const char *mode = json_string_value(json_object_get(root, "mode"));
    const char *path = json_string_value(json_object_get(root, "path"));

    if (mode != NULL && strcmp(mode, "distribution") == 0) {
        config->mode = "distribution";
        return read_distribution(root, true, &config->mock, err);
    }
    if (mode != NULL && strcmp(mode, "verification") == 0) {
        /* Megatron's defaults for this mode. */
        config->mode = "verification";
        config->mock = (struct hyd_mock){
            .mean_tokens = 2048, .sigma = 1.1, .min_tokens = 100, .max_tokens = 4096};
        return read_distribution(root, false, &config->mock, err);
    }
    if (mode != NULL && strcmp(mode, "file") == 0) {
        config->mode = "file";
        if (path == NULL || path[0] == '\0') {
            return hyd_error_field(
                err, HYD_ERR_INVALID, "path",
                "configuration: field 'path' is missing, must name a "
                "file of lengths");
        }
        resolve_path(config_path, path, config);
        return HYD_OK;
    }
    return hyd_error_field(err, HYD_ERR_INVALID, "mode",
                           "configuration: mode is '%.40s', must be distribution, file "
                           "or verification",
                           mode != NULL ? mode : "");
}

hyd_status hyd_mock_config_read(const struct hyd_alloc *alloc, const char *path,
                                struct hyd_mock_config *ret_config,
                                struct hyd_error *err)
{
    struct hyd_file file = {0};
    struct hyd_mock_config config = {.file = ""};
    json_error_t where;
    json_t *root = NULL;
    hyd_status st = hyd_file_read(alloc, path, CONFIG_MAX_BYTES, &file, err);

    if (st != HYD_OK) {
        return st;
    }
    root = json_loadb(file.bytes, file.n_bytes, 0, &where);
    hyd_file_release(&file);
    if (root == NULL) {
        return hyd_error_field(err, HYD_ERR_MALFORMED, "config",
                               "%.60s:%d: not JSON: %.80s", path, where.line,
                               where.text);
    }
    st = read_config(path, root, &config, err);
    json_decref(root);
    if (st == HYD_OK) {
        *ret_config = config;
    }
    return st;
}

hyd_status hyd_mock_file(const char *path, size_t n, struct hyd_lengths *list,
                         struct hyd_error *err)
{
    const struct hyd_import_options options = hyd_import_options_default();
    struct hyd_lengths all;
    hyd_status st = HYD_OK;

    hyd_lengths_init(&all, list->alloc);
    st = hyd_import_path(&options, path, &all, err);
    if (st == HYD_OK && all.n == 0) {
        st = hyd_error_field(err, HYD_ERR_INVALID, "path",
                             "no lengths in '%.80s'; must hold at least one", path);
    }
    for (size_t i = 0; st == HYD_OK && all.n > 0 && i < n; i++) {
        st = hyd_lengths_add(list, all.length_tokens[i % all.n], 0, err);
    }
    hyd_lengths_release(&all);
    return st;
}
