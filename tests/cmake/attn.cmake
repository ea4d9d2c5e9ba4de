# worker/attn: the maps, the program, the engine over any plan.
foreach(name layout merge ref)
  hydra_add_test(unit worker ${name} LIBS hydra_attn)
endforeach()
hydra_add_test(prop "" engine LIBS hydra_test_engine)
