hydra_add_test(unit scheduler metrics LIBS hydra_http)
hydra_add_test(integ "" http LIBS hydra_http Threads::Threads)
