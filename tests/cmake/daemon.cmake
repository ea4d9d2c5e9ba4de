hydra_add_test(unit scheduler step LIBS hydra_test_step)
hydra_add_test(unit scheduler step_members LIBS hydra_test_step)
