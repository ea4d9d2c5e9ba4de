/*
 * memory.h - where the bytes of a group's pass lie; private to the engine.
 *
 * What     The arena holds slots and work. A slot keeps what backward needs of one
 *          (microbatch, layer): tensors, then lse, both in group order without gaps. The
 *          work part holds one place for each part of a group that uses the network
 *          (schedule.h), since several are under way at a time, and one for the group of
 *          one rank that runs while they wait. Inside a place staging of exchanges and
 *          ring buffers lie one over the other, since they are never alive together.
 * Units    bytes.
 * Threads  reentrant.
 * Source   worker/README.md "Memory", equations 13-15.
 */
#ifndef HYD_WORKER_ATTN_MEMORY_H
#define HYD_WORKER_ATTN_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/attn/attn.h"

/* What decides a group's layout in memory, apart from the group itself. */
struct hyd_memory_in {
    const struct hyd_attn_model *model;
    const struct hyd_group *group;
    struct hyd_head_cut cut; /* of its heads */
    uint32_t member;
    bool in_place; /* u = 1 and dense tensors: q, k, v, o stay the caller's */
    bool dout_in_place;
    bool keep; /* there will be a backward */
};

/* Offsets of regions: Q, K, V, O in the slot's tensors; LSE in the slot's lse; the others
 * in the lane. A region of 0 bytes is not used. */
struct hyd_memory_map {
    uint64_t offset[HYD_N_REGIONS];
    uint64_t bytes[HYD_N_REGIONS];
    uint64_t tensor_bytes; /* of the slot */
    uint64_t lse_bytes; /* of the slot */
    uint64_t work_bytes; /* of the lane */
};

void hyd_memory_plan(const struct hyd_memory_in *in, enum hyd_direction pass,
                     struct hyd_memory_map *ret_map);

/* Work bytes of the larger pass; with `keep` there is a backward. */
uint64_t hyd_memory_work(const struct hyd_memory_in *in);

/* Parts of an arena. */
struct hyd_memory_parts {
    uint64_t tensor_bytes; /* of a slot, rounded up */
    uint64_t lse_bytes; /* of a slot, rounded up */
    uint64_t work_bytes; /* both lanes */
    uint32_t n_slots;
    uint32_t max_parts; /* of groups with d > 1, in a cell */
};

/* Upper bounds over every cell that keeps the limits. */
void hyd_memory_parts(const struct hyd_attn_model *model,
                      const struct hyd_attn_limits *limits,
                      struct hyd_memory_parts *ret_parts);

uint64_t hyd_memory_total(const struct hyd_memory_parts *parts);

/* What the cell of one microbatch needs. */
struct hyd_memory_cell {
    uint64_t tensor_bytes;
    uint64_t lse_bytes;
    uint64_t net_bytes; /* work of groups with d > 1: sum over their parts */
    uint64_t local_bytes; /* of groups with d = 1: most of any */
    uint64_t net_tensor_bytes; /* of tensor_bytes and lse_bytes: groups with d > 1, */
    uint64_t net_lse_bytes; /* which lie first */
    uint32_t n_rows;
    uint32_t net_rows;
    uint32_t n_parts; /* of groups with d > 1 */
};

/* in_place: q, k, v, o; and dout. */
void hyd_memory_cell(const struct hyd_attn_model *model,
                     const struct hyd_attn_step *step, uint32_t rank,
                     uint32_t microbatch, const bool in_place[2],
                     struct hyd_memory_cell *ret_cell);

/* Largest q rows and kv rows that one unit can have within the limits: what kernels size
 * their scratch for. */
uint32_t hyd_memory_unit_rows(const struct hyd_attn_limits *limits);

uint64_t hyd_memory_align(uint64_t bytes);

#endif
