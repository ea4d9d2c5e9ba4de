# worker/attn: the maps, the program, the engine over any plan.
foreach(name layout merge order program ref)
  hydra_add_test(unit worker ${name} LIBS hydra_attn)
endforeach()
hydra_add_test(prop "" engine LIBS hydra_test_engine)
hydra_add_test(prop "" layout LIBS hydra_attn)
hydra_add_test(prop "" merge LIBS hydra_attn)
hydra_add_test(prop "" program LIBS hydra_test_engine)
hydra_add_test(conform "" engine TSAN
  LIBS hydra_test_engine hydra_compute hydra_transport)
hydra_add_test(unit worker attn LIBS hydra_test_engine)
hydra_add_test(prop "" traps LIBS hydra_test_engine)
hydra_add_test(prop "" gather LIBS hydra_test_engine)
