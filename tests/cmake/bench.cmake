# hydra-bench: one program; a bench is a file and a row in bench_table.c.
add_executable(hydra-bench
  bench/attn_run.c
  bench/balance_plan.c
  bench/balance_run.c
  bench/bench.c
  bench/bench_attn.c
  bench/bench_attn_gpu.c
  bench/bench_balance.c
  bench/bench_bounds.c
  bench/bench_daemon.c
  bench/bench_main.c
  bench/bench_plan.c
  bench/bench_ring.c
  bench/bench_rpc.c
  bench/bench_table.c
  bench/blas.c
  bench/daemon_fleet.c
  bench/daemon_process.c
  bench/daemon_watch.c
  bench/plan_cases.c
  bench/plan_gain.c
  bench/plan_gaps.c
  bench/plan_jitter.c
  bench/plan_orders.c
  bench/plan_seeds.c
  bench/plan_sweep.c
  bench/plan_time.c
  bench/ring_links.c
  bench/ring_overlap.c
  bench/rpc_load.c
  bench/rpc_peer.c)
target_link_libraries(hydra-bench PRIVATE hydra_test_engine hydra_transport_ucx
  hydra_transport_self hydra_compute hydra_sched hydra_sys hydra_rpc
  hydra_test PkgConfig::JANSSON PkgConfig::UV m
  ${CMAKE_DL_LIBS})
# The yardstick of `attn`, loaded at run time; without it the rates have no ratio.
find_library(HYDRA_OPENBLAS NAMES libopenblas.so.0 openblas
  PATH_SUFFIXES openblas-pthread openblas-serial)
if(HYDRA_OPENBLAS)
  set_source_files_properties(bench/blas.c PROPERTIES
    COMPILE_DEFINITIONS "HYDRA_BENCH_OPENBLAS=\"${HYDRA_OPENBLAS}\"")
else()
  message(STATUS "no OpenBLAS: hydra-bench attn prints no ratio")
endif()
add_dependencies(hydra-bench hydra-schedd)
# The yardstick of `ring`: a program of its own, so that nothing else needs MPI.
find_package(MPI QUIET COMPONENTS C)
if(MPI_C_FOUND)
  add_executable(hydra-bench-mpi bench/mpi_alltoall.c)
  target_link_libraries(hydra-bench-mpi PRIVATE MPI::MPI_C)
else()
  message(STATUS "no MPI: hydra-bench ring has nothing beside the exchange")
endif()
foreach(bench attn balance plan bounds ring rpc daemon)
  add_test(NAME bench.${bench} COMMAND hydra-bench ${bench} --check)
  set_tests_properties(bench.${bench} PROPERTIES LABELS bench TIMEOUT 120
    ENVIRONMENT "HYDRA_SOURCE_DIR=${CMAKE_SOURCE_DIR}")
endforeach()
# The card's bench over a card that is not there: what it launches and prints.
hydra_add_variant(bench attn_gpu_fake bench/attn_gpu_fake.c
  SOURCES bench/attn_run.c bench/bench.c bench/bench_attn_gpu.c
  LIBS hydra_fake_gpu PkgConfig::JANSSON)
# A word that nobody knows is refused, and does not run nothing.
add_test(NAME bench.words COMMAND hydra-bench plan swep)
set_tests_properties(bench.words PROPERTIES LABELS bench PASS_REGULAR_EXPRESSION
  "hydra-bench plan: no word 'swep'; there are time gain")
