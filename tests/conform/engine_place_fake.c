/* engine_place_fake.c - engine_place.h on the fake card. */
#include "tests/conform/engine_place.h"

const enum hyd_mem engine_place_mem = HYD_MEM_CUDA;
const char *const engine_place_why = "this is the fake card's test";
