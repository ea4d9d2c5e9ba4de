hydra_add_test(unit scheduler metrics LIBS hydra_http)
hydra_add_test(integ "" http LIBS hydra_http Threads::Threads)
hydra_add_test(unit common json LIBS hydra_rpc)
hydra_add_test(integ "" inspect LIBS hydra_http hydra_test_rpc Threads::Threads)
