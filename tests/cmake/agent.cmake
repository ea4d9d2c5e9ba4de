# worker/transport/ucx and worker/agent.
foreach(name circle)
  hydra_add_test(unit worker ${name} LIBS hydra_transport_ucx)
endforeach()
hydra_add_test(unit worker agent_step LIBS hydra_agent_step)
hydra_add_test(prop "" agent_step LIBS hydra_agent_step)
foreach(name made agent_convert)
  hydra_add_test(unit worker ${name} LIBS hydra_standin hydra_proto)
endforeach()
hydra_add_test(conform "" ucx TSAN LIBS hydra_transport_ucx)
hydra_add_test(conform "" ucx_peers LIBS hydra_transport_ucx)
# Programs that a test starts are built before it.
hydra_add_test(integ "" agent LIBS hydra_test_scheduler)
add_dependencies(integ_agent hydra-worker)
