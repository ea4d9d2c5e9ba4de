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
hydra_add_test(conform "" ucx_links LIBS hydra_transport_ucx ${CMAKE_DL_LIBS})
set_target_properties(conform_ucx_links PROPERTIES ENABLE_EXPORTS ON)
# Without the engine: its kernels take the fuzzing compiler minutes.
hydra_add_fuzz(agent LIBS hydra_attn hydra_rpc)
target_sources(fuzz_agent PRIVATE ${CMAKE_SOURCE_DIR}/worker/agent/convert.c)
# Programs that a test starts are built before it.
foreach(name agent agent_loss)
  hydra_add_test(integ "" ${name} LIBS hydra_test_scheduler hydra_sys)
  add_dependencies(integ_${name} hydra-worker hydra-example-trainer)
endforeach()
hydra_add_script(integ install integ/integ_install.sh)
hydra_add_test(integ "" agent_library TSAN LIBS hydra_test_scheduler)
hydra_add_test(integ "" system LIBS hydra_test_daemon hydra_test_scheduler hydra_sys)
add_dependencies(integ_system hydra-schedd hydra-worker)
# Kills and stops at random: a short run here, ten minutes with --long.
add_executable(soak_agents integ/soak_agents.c)
set_target_properties(soak_agents PROPERTIES
  RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
target_link_libraries(soak_agents PRIVATE hydra_test hydra_test_daemon
  hydra_test_scheduler hydra_sys)
add_dependencies(soak_agents hydra-schedd hydra-worker)
add_test(NAME integ.soak_agents COMMAND soak_agents)
set(soak_lsan ${CMAKE_CURRENT_SOURCE_DIR}/integ/soak_lsan.supp)
set_tests_properties(integ.soak_agents PROPERTIES LABELS integ TIMEOUT 240 ENVIRONMENT
  "${HYDRA_TEST_ENVIRONMENT};LSAN_OPTIONS=suppressions=${soak_lsan}:print_suppressions=0")
hydra_add_script(integ worker_cli integ/integ_worker_cli.sh)

# The whole agent over a card that is not there: one process, a thread a rank.
add_executable(hydra-worker-fake-gpu ${CMAKE_SOURCE_DIR}/worker/agent/main.c)
target_compile_definitions(hydra-worker-fake-gpu PRIVATE HYD_VERSION="${PROJECT_VERSION}")
set_target_properties(hydra-worker-fake-gpu PROPERTIES
  RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
target_link_libraries(hydra-worker-fake-gpu PRIVATE hydra_fake_gpu hydra_standin
  Threads::Threads)
hydra_add_script(integ gpu_check integ/integ_gpu_check.sh TIMEOUT 400)
hydra_add_script(integ gpu_link integ/integ_gpu_link.sh
  ARGS ${HYD_CUDA} ${HYD_NCCL} ${CUDAToolkit_LIBRARY_DIR}/stubs/libcuda.so)
