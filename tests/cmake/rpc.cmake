foreach(name clock config lock log size)
  hydra_add_test(unit common ${name} LIBS hydra_sys)
endforeach()

add_library(hydra_test_rpc STATIC lib/rpc_fixture.c)
target_link_libraries(hydra_test_rpc PUBLIC hydra_test hydra_rpc PkgConfig::UV)
hydra_add_test(unit common rpc LIBS hydra_test_rpc)
