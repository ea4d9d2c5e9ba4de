# scheduler/core: one test program a module.
foreach(name cost model plan_build)
  hydra_add_test(unit scheduler ${name} LIBS hydra_sched)
endforeach()
