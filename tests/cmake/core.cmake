# scheduler/core: one test program a module.
foreach(name plan_build)
  hydra_add_test(unit scheduler ${name} LIBS hydra_sched)
endforeach()
