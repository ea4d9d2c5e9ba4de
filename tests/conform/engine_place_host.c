/* engine_place_host.c - engine_place.h on the CPU. */
#include "tests/conform/engine_place.h"

const enum hyd_mem engine_place_mem = HYD_MEM_HOST;
const char *const engine_place_why =
    "ranks on cards are processes: sh deploy/gpu-check.sh; on a fake card: "
    "conform.engine_fake";
