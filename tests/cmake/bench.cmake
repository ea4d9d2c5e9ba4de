# hydra-bench: one program; a bench is a file and a row in bench_table.c.
add_executable(hydra-bench
  bench/bench.c
  bench/bench_bounds.c
  bench/bench_plan.c
  bench/bench_table.c
  bench/plan_cases.c
  bench/plan_gain.c
  bench/plan_jitter.c
  bench/plan_time.c)
target_link_libraries(hydra-bench PRIVATE hydra_sched hydra_sys hydra_test
  PkgConfig::JANSSON m)
foreach(bench plan bounds)
  add_test(NAME bench.${bench} COMMAND hydra-bench ${bench} --check)
  set_tests_properties(bench.${bench} PROPERTIES LABELS bench TIMEOUT 120
    ENVIRONMENT "HYDRA_SOURCE_DIR=${CMAKE_SOURCE_DIR}")
endforeach()
