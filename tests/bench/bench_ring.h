/*
 * bench_ring.h - how fast the transports move what an engine sends, and how much of it
 *                travels while kernels run.
 *
 * What     Three tables. Links: bytes per second that a rank receives, by transport, for
 *          messages in one direction, both ways, around a ring of four, and from all to
 *          all of four; what arrives is checked first. `self` is threads of this process,
 *          `ucx` processes, by shared memory or TCP. MPI: the same exchange as
 *          MPI_Alltoall of Open MPI, where hydra-bench-mpi was built and mpirun is there.
 *          Overlap: plans run by engines over UCX and checked against attention in
 *          double; beside the bytes what the lists of operations hide, and what the
 *          engines found missing.
 *          Words choose tables: links, mpi, overlap. --long: more sizes, more repeats.
 * Units    seconds of the clock on the wall, best of the repeats; GB = 1e9 bytes.
 * Errors   exit status 1 when a byte or a result is wrong. Without Open MPI it says so.
 * Threads  links: no threads before the processes are made.
 * Source   worker/README.md "Measured".
 */
#ifndef HYD_TESTS_BENCH_BENCH_RING_H
#define HYD_TESTS_BENCH_BENCH_RING_H

#include "tests/bench/bench.h"

int hyd_bench_ring(const struct hyd_bench_args *args);

#endif
