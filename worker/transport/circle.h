/*
 * circle.h - who talks to whom while links are warmed: the circle method.
 *
 * What     A round-robin tournament: in each of n_rounds rounds every rank meets at most
 *          one other, and after all rounds every pair has met exactly once. So no rank
 *          is ever flooded, and both ends of a link set it up at the same time.
 * Threads  reentrant.
 * Cost     O(1).
 * Source   worker/README.md "Transport", the circle method.
 */
#ifndef HYD_WORKER_TRANSPORT_CIRCLE_H
#define HYD_WORKER_TRANSPORT_CIRCLE_H

#include <stdint.h>

/* n - 1 for even n, n for odd n (each rank rests once); 0 for fewer than 2 ranks. */
uint32_t hyd_circle_rounds(uint32_t n_ranks);

/* The rank that `rank` meets in `round`; `rank` itself when it rests. */
uint32_t hyd_circle_partner(uint32_t n_ranks, uint32_t rank, uint32_t round);

#endif
