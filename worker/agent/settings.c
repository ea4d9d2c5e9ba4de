/* settings.c - see settings.h. */
#include "worker/agent/settings.h"

#include <stddef.h>

#define AT(member) offsetof(struct hyd_worker_settings, member)

static const char *const compute_word[] = {"auto", "cpu", "cuda"};
static const char *const transport_word[] = {"auto", "ucx", "nccl", "self"};
static const char *const fused_word[] = {"off", "cudnn"};
static const char *const isa_word[] = {"auto", "sse2", "avx2", "avx512"};
static const char *const mask_word[] = {"auto", "causal", "full", "window"};

const struct hyd_setting hyd_worker_setting[] = {
    {"connect", AT(connect), "unix:/run/hydra/schedd.sock", 0, 0, NULL,
     "unix:PATH|HOST:PORT", "Where the scheduler listens.", HYD_SETTING_TEXT, false, 0},
    {"job", AT(job), "", 0, 0, NULL, "NAME", "The job to work for.", HYD_SETTING_TEXT,
     false, 0},
    {"node", AT(node), "", 0, 0, NULL, "NAME",
     "Name of this agent, unique in the job; ranks are numbered in the order of names.",
     HYD_SETTING_TEXT, false, 0},
    {"ranks", AT(ranks), "1", 1, 64, NULL, "N",
     "Local ranks: one thread each, one GPU each where there are GPUs.",
     HYD_SETTING_COUNT, false, 0},
    {"first_rank", AT(first_rank), "0", 0, 65535, NULL, "K",
     "Fixes the number of the first local rank; without it the scheduler numbers them.",
     HYD_SETTING_COUNT, false, 0},
    {"compute", AT(compute), "auto", 0, 0, "auto|cpu|cuda", NULL,
     "Device that computes; auto takes the first that this machine has.",
     HYD_SETTING_CHOICE, false, 0},
    {"transport", AT(transport), "auto", 0, 0, "auto|ucx|nccl|self", NULL,
     "Network between ranks, the same for all agents of a job; self: one agent alone.",
     HYD_SETTING_CHOICE, false, 0},
    {"links", AT(links), "", 0, 0, NULL, "LIST",
     "Transports that UCX may use; empty: posix,tcp,self.", HYD_SETTING_TEXT, false, 0},
    {"isa", AT(isa), "auto", 0, 0, "auto|sse2|avx2|avx512", NULL,
     "Instructions of the CPU kernels; auto takes the best that this machine has.",
     HYD_SETTING_CHOICE, false, 0},
    {"fused", AT(fused), "off", 0, 0, "off|cudnn", NULL,
     "Library for unmasked forwards on a GPU, where its results prove right.",
     HYD_SETTING_CHOICE, false, 0},
    {"threads_per_rank", AT(threads_per_rank), "0", 0, 1024, NULL, "N",
     "Threads that compute for a rank; 0: cores / ranks, at least 1.",
     HYD_SETTING_COUNT, false, 0},
    {"verify", AT(verify), "job", 0, 0, "job|off|sample|full", NULL,
     "Which results this agent's ranks check; no effect where the job says off.",
     HYD_SETTING_CHOICE, false, 0},
    {"tls_ca", AT(tls_ca), "", 0, 0, NULL, "FILE",
     "Certificate of the authority that signed the scheduler's; empty: no TLS.",
     HYD_SETTING_TEXT, false, 0},
    {"tls_cert", AT(tls_cert), "", 0, 0, NULL, "FILE",
     "Own certificate, with tls_key, where the scheduler asks for one.",
     HYD_SETTING_TEXT, false, 0},
    {"tls_key", AT(tls_key), "", 0, 0, NULL, "FILE", "Key of tls_cert.",
     HYD_SETTING_TEXT, false, 0},
    {"token_file", AT(token_file), "", 0, 0, NULL, "FILE",
     "File whose first line is the token that the scheduler knows.", HYD_SETTING_TEXT,
     false, 0},
    {"log_level", AT(log_level), "info", 0, 0, "error|warn|info|debug|trace", NULL,
     "Lines finer than this are not written.", HYD_SETTING_CHOICE, false, 0},
    {"print_program", AT(print_program), "", 0, 0, NULL, "PLAN.json",
     "Print what rank --rank does for this plan, operation by operation, and end.",
     HYD_SETTING_TEXT, false, 0},
    {"rank", AT(rank), "0", 0, 65535, NULL, "R", "With --print-program: whose program.",
     HYD_SETTING_COUNT, false, 0},
    {"heads", AT(heads), "32", 1, 65536, NULL, "N",
     "With --print-program and --calibrate: query heads of a rank.", HYD_SETTING_COUNT,
     false, 0},
    {"kv_heads", AT(kv_heads), "8", 1, 65536, NULL, "N",
     "With --print-program and --calibrate: key and value heads of a rank.",
     HYD_SETTING_COUNT, false, 0},
    {"head_dim", AT(head_dim), "128", 1, 4096, NULL, "N",
     "With --print-program and --calibrate: size of a head.", HYD_SETTING_COUNT, false,
     0},
    {"mask", AT(mask), "auto", 0, 0, "auto|causal|full|window", NULL,
     "With --print-program: which keys a query sees; auto: window where --window is "
     "above 0, else causal.",
     HYD_SETTING_CHOICE, false, 0},
    {"window", AT(window), "0", 0, UINT32_MAX, NULL, "TOKENS",
     "With --print-program: keys that a query sees through a window mask, its own "
     "included.",
     HYD_SETTING_COUNT, false, 0},
    {"calibrate", AT(calibrate), "no", 0, 0, NULL, NULL,
     "Measure this machine and write its device profile to --output, then end.",
     HYD_SETTING_BOOL, false, 0},
    {"output", AT(output), "", 0, 0, NULL, "FILE", "With --calibrate: where to.",
     HYD_SETTING_TEXT, false, 'o'},
};

const size_t hyd_n_worker_settings =
    sizeof hyd_worker_setting / sizeof hyd_worker_setting[0];

const char *hyd_worker_compute_name(int choice)
{
    return compute_word[choice];
}

const char *hyd_worker_transport_name(int choice)
{
    return transport_word[choice];
}

const char *hyd_worker_fused_name(int choice)
{
    return fused_word[choice];
}

const char *hyd_worker_isa_name(int choice)
{
    return isa_word[choice];
}

enum hyd_visibility hyd_worker_see(const struct hyd_worker_settings *set)
{
    static const enum hyd_visibility see[] = {HYD_SEE_CAUSAL, HYD_SEE_CAUSAL,
                                              HYD_SEE_FULL, HYD_SEE_WINDOW};

    return set->mask == 0 && set->window > 0 ? HYD_SEE_WINDOW : see[set->mask];
}

/* As a job says it: a window mask has a window, others have none. */
static hyd_status check_mask(const struct hyd_worker_settings *set,
                             struct hyd_error *err)
{
    if (set->mask == 0 ||
        (hyd_worker_see(set) == HYD_SEE_WINDOW) == (set->window > 0)) {
        return HYD_OK;
    }
    return hyd_error_field(
        err, HYD_ERR_INVALID, "window",
        "--window is %llu with --mask %s; a window mask has a window "
        "above 0, others have none",
        (unsigned long long)set->window, mask_word[set->mask]);
}

hyd_status hyd_worker_settings_check(const void *values, struct hyd_error *err)
{
    const struct hyd_worker_settings *set = values;

    if (set->calibrate || set->print_program[0] != '\0') {
        return check_mask(set, err);
    }
    if (set->job[0] == '\0') {
        return hyd_error_field(err, HYD_ERR_INVALID, "job",
                               "--job must name the job to work for");
    }
    if (set->node[0] == '\0') {
        return hyd_error_field(err, HYD_ERR_INVALID, "node",
                               "--node must name this agent");
    }
    return HYD_OK;
}
