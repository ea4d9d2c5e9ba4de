/*
 * mock.h - made-up lengths, the same as Megatron's mock data sets make.
 *
 * What     Log-normal lengths from the generator that NumPy's legacy seeding uses
 *          (Mersenne Twister, polar normals), so that a run of Megatron with its mock
 *          configuration and a plan made here see the same sequences.
 *          length = floor(clip(exp(mu + sigma * z), min, max)), mu = ln(mean) - sigma^2/2.
 *          A configuration is {"mode": "distribution", "type": "lognormal",
 *          "min_seq_len", "max_seq_len", "mean_seq_len", "lognormal_sigma"}, or
 *          {"mode": "file", "path": CSV}, or {"mode": "verification", ...} whose data path
 *          is ignored and whose numbers default to 100, 4096, 2048 and 1.1.
 * Units    tokens.
 * Errors   HYD_ERR_INVALID    a number is out of range, the mode or type is unknown
 *          HYD_ERR_MALFORMED  the configuration is not JSON
 *          and those of import.h for mode file
 * Owns     nothing; entries are added to the caller's list.
 * Threads  reentrant.
 * Source   scheduler/README.md, equation 30; Matsumoto and Nishimura, "Mersenne Twister",
 *          ACM TOMACS 8(1), 1998; Marsaglia's polar method. exp and log are libm's, so a
 *          length may differ by one between C libraries.
 */
#ifndef HYD_SCHEDULER_CLI_LENGTHS_MOCK_H
#define HYD_SCHEDULER_CLI_LENGTHS_MOCK_H

#include "scheduler/cli/lengths/lengths.h"

enum { HYD_MOCK_WORDS = 624 };

struct hyd_mock_rng {
    uint32_t word[HYD_MOCK_WORDS];
    unsigned next;
    bool has_spare;
    double spare;
};

void hyd_mock_rng_seed(struct hyd_mock_rng *rng, uint32_t seed);
uint32_t hyd_mock_rng_word(struct hyd_mock_rng *rng);
/* Uniform in [0, 1) with 53 bits; standard normal. */
double hyd_mock_rng_unit(struct hyd_mock_rng *rng);
double hyd_mock_rng_normal(struct hyd_mock_rng *rng);

struct hyd_mock {
    double mean_tokens; /* of the distribution before it is clipped */
    double sigma;
    double min_tokens;
    double max_tokens;
};

/* Add n log-normal lengths. */
HYD_MUST_CHECK hyd_status hyd_mock_lognormal(const struct hyd_mock *mock, size_t n,
                                             uint32_t seed, struct hyd_lengths *list,
                                             struct hyd_error *err);

/* What a configuration file says. */
struct hyd_mock_config {
    struct hyd_mock mock; /* modes distribution and verification */
    char file[4096]; /* mode file: path to the lengths; else "" */
    const char *mode; /* static text */
};

/* A relative path in the configuration counts from the configuration's folder where the
 * file exists there, else from the working directory. */
HYD_MUST_CHECK hyd_status hyd_mock_config_read(const struct hyd_alloc *alloc,
                                               const char *path,
                                               struct hyd_mock_config *ret_config,
                                               struct hyd_error *err);

/* Add n lengths of a file, starting again at its end. */
HYD_MUST_CHECK hyd_status hyd_mock_file(const char *path, size_t n,
                                        struct hyd_lengths *list,
                                        struct hyd_error *err);

#endif
