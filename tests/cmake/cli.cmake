# hydractl: commands run in the test's own process.
add_library(hydra_test_cli STATIC lib/cli_run.c)
target_link_libraries(hydra_test_cli PUBLIC hydra_test hydra_cli)
foreach(name parse json table lengths import cmd_lengths mock shape
        plan_doc cmd_plan compare explain)
  hydra_add_test(unit cli ${name} LIBS hydra_test_cli)
endforeach()
hydra_add_fuzz(lengths LIBS hydra_cli)
hydra_add_fuzz(plan LIBS hydra_cli)
hydra_add_script(integ cli integ/integ_cli.sh)
hydra_add_script(integ draw integ/py/integ_draw.py)
hydra_add_script(integ peers integ/py/integ_peers.py)
hydra_add_script(integ man_hydractl integ/integ_man_hydractl.sh)
hydra_add_fuzz(shape LIBS hydra_cli)
