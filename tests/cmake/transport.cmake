# worker/transport: every row of the table keeps the contract.
hydra_add_test(conform "" transport TSAN LIBS hydra_transport)
hydra_add_test(unit worker transport_self LIBS hydra_transport_self)
# NCCL on this machine's cards, and over a card that is not there.
hydra_add_test(conform "" nccl LIBS hydra_compute hydra_transport)
target_sources(conform_nccl PRIVATE conform/nccl_place_table.c)
hydra_add_variant(conform nccl_fake conform/conform_nccl.c TSAN
  SOURCES conform/nccl_place_fake.c LIBS hydra_fake_gpu)
hydra_add_test(unit worker nccl TSAN LIBS hydra_fake_gpu)
if(HYD_CUDA AND HYD_NCCL)
  # For deploy/gpu-check.sh; says SKIPPED where there is no card.
  add_executable(gpu_order gpu/gpu_order.c conform/nccl_place_table.c)
  set_target_properties(gpu_order PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(gpu_order PRIVATE hydra_test hydra_compute hydra_transport hydra_nccl)
  add_test(NAME conform.gpu_order COMMAND gpu_order)
  set_tests_properties(conform.gpu_order PROPERTIES LABELS conform TIMEOUT 60
    SKIP_RETURN_CODE 77)
endif()
