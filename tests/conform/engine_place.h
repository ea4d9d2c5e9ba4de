/*
 * engine_place.h - which backends conform_engine.c runs the engine on.
 *
 * What     It gives every rank a thread of one process. That fits the CPU, and the fake card;
 *          NCCL on real cards wants a process a rank: deploy/gpu-check.sh.
 */
#ifndef HYD_TESTS_CONFORM_ENGINE_PLACE_H
#define HYD_TESTS_CONFORM_ENGINE_PLACE_H

#include "worker/compute/compute.h"

extern const enum hyd_mem engine_place_mem;
extern const char *const engine_place_why; /* others are left out */

#endif
