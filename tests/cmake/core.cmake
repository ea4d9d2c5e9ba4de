# scheduler/core: one test program a module.
foreach(name
    cost
    degree
    extra_work
    gain
    golden
    hydra
    line_bound
    model
    options
    partition
    peers
    pipeline
    plan_build
    plan_check
    planner
    ramp
    seqs
    simulate
    target
    trace)
  hydra_add_test(unit scheduler ${name} LIBS hydra_test_gen hydra_sched)
endforeach()
target_link_libraries(unit_scheduler_golden PRIVATE PkgConfig::JANSSON)
hydra_add_test(conform "" policy LIBS hydra_test_gen hydra_sched)
hydra_add_test(prop "" place LIBS hydra_test_gen hydra_sched)
hydra_add_test(prop "" hydra LIBS hydra_test_gen hydra_sched)
hydra_add_test(prop "" bound LIBS hydra_test_gen hydra_sched)
hydra_add_test(prop "" stages LIBS hydra_test_gen hydra_sched)
hydra_add_test(prop "" plan_check LIBS hydra_test_gen hydra_sched)
hydra_add_script(integ add_policy integ/add_policy.sh TIMEOUT 300)
