# scheduler/core: one test program a module.
foreach(name
    cost
    degree
    model
    options
    plan_build
    plan_check
    planner
    seqs
    target)
  hydra_add_test(unit scheduler ${name} LIBS hydra_test_gen hydra_sched)
endforeach()
