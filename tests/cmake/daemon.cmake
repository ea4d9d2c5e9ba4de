hydra_add_test(unit scheduler step LIBS hydra_test_step)
hydra_add_test(unit scheduler step_members LIBS hydra_test_step)

add_library(hydra_test_daemon STATIC lib/daemon_requests.c lib/daemon_rig.c lib/fake_agent.c)
target_link_libraries(hydra_test_daemon PUBLIC hydra_test hydra_rpc PkgConfig::UV)
foreach(name daemon agents train)
  hydra_add_test(integ "" ${name} LIBS hydra_test_daemon m)
  add_dependencies(integ_${name} hydra-schedd)
endforeach()
hydra_add_script(integ settings integ/integ_settings.sh)

add_library(hydra_test_sim STATIC lib/sim.c lib/sim_agent.c lib/sim_sched.c)
target_link_libraries(hydra_test_sim PUBLIC hydra_test hydra_sched hydra_agent_step)
hydra_add_test(sim "" step LIBS hydra_test_sim)
