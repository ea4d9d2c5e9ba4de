/*
 * layout.h - who holds which tokens and which heads; pure index arithmetic.
 *
 * What     A sequence of l tokens over d = u * r ranks is cut into 2d chunks at
 *          floor(c * l / 2d); member m holds chunks m and 2d-1-m ("flat zigzag"). No
 *          padding, no rule of divisibility, and who owns a token depends on d only, not
 *          on (u, r). Inside a group member m has Ulysses index m % u and ring index
 *          m / u. After the head exchange all members of ring index rho see the same two
 *          intervals, Lo and Hi, each the union of u neighbouring chunks.
 *          These maps are public, so that a trainer can cut labels, masks and
 *          log-probabilities and bring per-token outputs back into order.
 * Shapes   A shard's rows: for each sequence of the group in listing order its chunk m,
 *          then its chunk 2d-1-m. A cell's rows: its groups in order, each with its
 *          shard's rows. After the exchange: for each sequence Lo, then Hi.
 * Errors   HYD_ERR_INVALID      hyd_group_check: what is wrong with which group
 *          HYD_ERR_OUT_OF_RANGE hyd_layout_row, hyd_layout_token: no such place
 * Owns     nothing; a group's arrays are the caller's.
 * Threads  reentrant.
 * Cost     O(1) for a sequence, O(sequences) for a group.
 * Source   worker/README.md "Partition" (equations 1-4) and "Heads" (equations 5-6).
 */
#ifndef HYD_WORKER_ATTN_LAYOUT_H
#define HYD_WORKER_ATTN_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "worker/compute/compute.h"

/* 2 * (u - 1) messages of an exchange fit one posted group (HYD_GROUP_MAX_OPS). */
enum { HYD_MAX_ULYSSES = 16 };

/* The attention of one layer, as each tensor-parallel rank sees it. */
struct hyd_attn_model {
    enum hyd_dtype dtype; /* of q, k, v, o and the gradients */
    uint32_t d; /* head size */
    uint32_t n_heads;
    uint32_t n_kv_heads; /* divides n_heads */
    float scale; /* 0: 1/sqrt(d) */
    enum hyd_visibility see;
    uint32_t window_tokens; /* HYD_SEE_WINDOW; > 0 */
    /* Exchanges are not cut into parts below this many rows (schedule.h); 0:
     * HYD_PART_MIN_ROWS, UINT32_MAX: never cut. The same on all ranks. */
    uint32_t part_min_rows;
};

/* The ranks that share each of some sequences, in one microbatch. */
struct hyd_group {
    uint32_t microbatch;
    uint32_t u;
    uint32_t r;
    uint32_t n_seqs; /* >= 1 */
    const uint32_t *rank; /* [u * r], member order; any distinct ranks of the world */
    const uint32_t *id; /* [n_seqs], ascending or not; names of the sequences */
    const uint32_t *length_tokens; /* [n_seqs]; 0 is fine */
};

/* n tokens of a sequence from position pos on. */
struct hyd_span {
    uint32_t pos;
    uint32_t n;
};

/* Heads of one Ulysses index: q heads [q_first, q_first + n_q), and the kv heads that
 * these need. */
struct hyd_heads {
    uint32_t q_first;
    uint32_t n_q;
    uint32_t kv_first;
    uint32_t n_kv;
};

/* Some heads of every Ulysses index: the kv heads of each are cut into n runs, and these
 * are the index-th with the q heads that read them. n <= 1: all heads. */
struct hyd_head_cut {
    uint32_t index;
    uint32_t n;
};

/* First token of chunk `chunk` of 2 * n_ranks (equation 1); chunk may be 2 * n_ranks. */
uint32_t hyd_layout_bound(uint32_t length_tokens, uint32_t n_ranks, uint32_t chunk);

/* The two chunks of a member (equation 2). */
void hyd_layout_member(uint32_t length_tokens, uint32_t n_ranks, uint32_t member,
                       struct hyd_span ret_half[2]);

/* Lo and Hi of a ring index (equation 3). */
void hyd_layout_ring(uint32_t length_tokens, uint32_t u, uint32_t r, uint32_t ring,
                     struct hyd_span ret_half[2]);

/* Member that owns a token, the half (0 or 1) and the row inside the member's two chunks
 * of this sequence (equation 4); token < length_tokens. */
void hyd_layout_owner(uint32_t length_tokens, uint32_t n_ranks, uint32_t token,
                      uint32_t *ret_member, uint32_t *ret_half, uint32_t *ret_row);

/* Heads of Ulysses index `index` (equation 5). */
struct hyd_heads hyd_layout_heads(const struct hyd_attn_model *model, uint32_t u,
                                  uint32_t index);

/* Of these, the ones of a cut. A kv head's q heads stay together, so parts share no sum
 * and give the bytes that the whole gives. cut.n <= hyd_layout_most_cuts. */
struct hyd_heads hyd_layout_heads_of(const struct hyd_attn_model *model, uint32_t u,
                                     uint32_t index, struct hyd_head_cut cut);

/* Most cuts that leave each Ulysses index a kv head in each: 1 where kv heads are held
 * twice, since their gradients are summed across indexes. */
uint32_t hyd_layout_most_cuts(const struct hyd_attn_model *model, uint32_t u);

/* Sum over the Ulysses indexes of their kv heads: n_kv_heads when nothing is replicated
 * (equation 6). */
uint32_t hyd_layout_kv_copies(const struct hyd_attn_model *model, uint32_t u);

HYD_MUST_CHECK hyd_status hyd_attn_model_check(const struct hyd_attn_model *model,
                                               struct hyd_error *err);

/* u, r, distinct ranks below n_ranks, rows that fit 32 bits. */
HYD_MUST_CHECK hyd_status hyd_group_check(const struct hyd_group *group,
                                          const struct hyd_attn_model *model,
                                          uint32_t n_ranks, struct hyd_error *err);

/*
 * The order in which groups run, the same for every member: microbatch, then degree
 * descending, then smallest sequence id. < 0: a runs before b. Total over the groups of
 * a plan, since ids are unique.
 */
int hyd_group_compare(const struct hyd_group *a, const struct hyd_group *b);

/* Position of a rank in the group; false when it is no member. */
bool hyd_group_member(const struct hyd_group *group, uint32_t rank,
                      uint32_t *ret_member);

uint32_t hyd_group_degree(const struct hyd_group *group);

/* Rows of a member's shard. */
uint32_t hyd_group_rows(const struct hyd_group *group, uint32_t member);

/* Rows of a ring index after the exchange. */
uint32_t hyd_group_ring_rows(const struct hyd_group *group, uint32_t ring);

/* (sequence, token) -> (member, row of its shard). `seq` is an index into id. */
HYD_MUST_CHECK hyd_status hyd_layout_row(const struct hyd_group *group, uint32_t seq,
                                         uint32_t token, uint32_t *ret_member,
                                         uint32_t *ret_row);

/* (member, row of its shard) -> (sequence, token). */
HYD_MUST_CHECK hyd_status hyd_layout_token(const struct hyd_group *group,
                                           uint32_t member, uint32_t row,
                                           uint32_t *ret_seq, uint32_t *ret_token);

/* Cursor over a rank's rows of one microbatch: what to load, and where to put it. Fields
 * are private. */
struct hyd_layout_rows {
    const struct hyd_group *group;
    size_t n_groups;
    uint32_t microbatch;
    uint32_t rank;
    size_t at; /* the current group, */
    uint32_t chunk; /* its chunks in order, two a sequence, */
    uint32_t done; /* and rows of that one */
    uint32_t row;
};

struct hyd_layout_place {
    uint32_t row; /* of the cell: 0, 1, 2 ... */
    uint32_t id;
    uint32_t token;
    uint32_t length_tokens; /* of the sequence */
};

/* Groups without the rank, and of other microbatches, are skipped; lent while the cursor
 * is used. */
void hyd_layout_rows_start(struct hyd_layout_rows *rows, const struct hyd_group *group,
                           size_t n_groups, uint32_t microbatch, uint32_t rank);
/* The next row; false at the end. O(1), apart from empty chunks and other groups. */
bool hyd_layout_rows_next(struct hyd_layout_rows *rows,
                          struct hyd_layout_place *ret_place);

/*
 * Move whole rows between a shard and its sequence, both in host memory.
 *
 * shard     the member's rows of this one sequence, row_bytes apart
 * sequence  all rows of the sequence, row_bytes apart; only the member's are touched
 */
void hyd_layout_gather(uint32_t length_tokens, uint32_t n_ranks, uint32_t member,
                       const void *shard, void *ret_sequence, size_t row_bytes);
void hyd_layout_cut(uint32_t length_tokens, uint32_t n_ranks, uint32_t member,
                    const void *sequence, void *ret_shard, size_t row_bytes);

#endif
