/* isa.c - which kernels this machine runs; see hyd_cpu_kernels_find in kernels.h. */
#include <string.h>

#include "worker/compute/cpu/kernels.h"

struct isa {
    const struct hyd_cpu_kernels *kernels;
    bool (*runs_here)(void);
};

#if defined(__x86_64__)
extern const struct hyd_cpu_kernels hyd_cpu_kernels_avx512, hyd_cpu_kernels_avx2,
    hyd_cpu_kernels_sse2;

/* The features that -march=x86-64-v4 and -v3 let the compiler use, as far as both
 * compilers have words for them; the others came with these on every machine. */
static bool runs_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}

static bool runs_avx512(void)
{
    return runs_avx2() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static bool runs_always(void)
{
    return true;
}

static const struct isa isas[] = {
    {&hyd_cpu_kernels_avx512, runs_avx512},
    {&hyd_cpu_kernels_avx2, runs_avx2},
    {&hyd_cpu_kernels_sse2, runs_always},
};
#else
extern const struct hyd_cpu_kernels hyd_cpu_kernels_native;

static bool runs_always(void)
{
    return true;
}

static const struct isa isas[] = {{&hyd_cpu_kernels_native, runs_always}};
#endif

hyd_status hyd_cpu_kernels_find(const char *name,
                                const struct hyd_cpu_kernels **ret_found,
                                struct hyd_error *err)
{
    const bool any = name == NULL || strcmp(name, "auto") == 0;

    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        const bool runs = isas[i].runs_here();

        if (!any && strcmp(name, isas[i].kernels->name) != 0) {
            continue;
        }
        if (runs) {
            *ret_found = isas[i].kernels;
            return HYD_OK;
        }
        if (!any) {
            return hyd_error_field(err, HYD_ERR_UNSUPPORTED, "isa",
                                   "this machine does not run %s", name);
        }
    }
    return hyd_error_field(err, HYD_ERR_UNSUPPORTED, "isa",
                           "no kernels for '%s' in this build", any ? "auto" : name);
}
