# worker/transport/ucx and worker/agent.
foreach(name circle)
  hydra_add_test(unit worker ${name} LIBS hydra_transport_ucx)
endforeach()
hydra_add_test(unit worker agent_step LIBS hydra_agent_step)
hydra_add_test(prop "" agent_step LIBS hydra_agent_step)
hydra_add_test(unit worker agent_convert LIBS hydra_agent hydra_proto)
hydra_add_test(conform "" ucx TSAN LIBS hydra_transport_ucx)
hydra_add_test(conform "" ucx_peers LIBS hydra_transport_ucx)
