/* bench_table.c - the list of benches. */
#include "tests/bench/bench.h"

#include "tests/bench/bench_attn.h"
#include "tests/bench/bench_balance.h"
#include "tests/bench/bench_bounds.h"
#include "tests/bench/bench_daemon.h"
#include "tests/bench/bench_plan.h"
#include "tests/bench/bench_ring.h"
#include "tests/bench/bench_rpc.h"

const struct hyd_bench hyd_bench_table[] = {
    {"plan", "the planner: gain over other schedulers, gap to bounds, time, memory",
     "time gain jitter seeds sweep gaps all", hyd_bench_plan},
    {"bounds", "the bound on a pipeline's step; --long prints its table as C", "",
     hyd_bench_bounds},
    {"attn", "attention kernels: CPU against the same core's sgemm; `attn cuda`", NULL,
     hyd_bench_attn},
    {"balance",
     "compute seconds of a plan on engines: hottest over mean, static beside", "",
     hyd_bench_balance},
    {"ring", "transports: bytes per second, MPI beside them; overlap of the engine",
     "links mpi overlap", hyd_bench_ring},
    {"rpc", "remote calls: latency, throughput, fan-out, agents; unix, tcp, mtls",
     "latency throughput fanout agents unix tcp mtls", hyd_bench_rpc},
    {"daemon",
     "hydra-schedd: a step to 64 agents, what-ifs, thousands attached, restart", "",
     hyd_bench_daemon},
    {NULL, NULL, NULL, NULL},
};
