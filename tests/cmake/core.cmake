# scheduler/core: one test program a module.
foreach(name cost degree model plan_build seqs target)
  hydra_add_test(unit scheduler ${name} LIBS hydra_sched)
endforeach()
