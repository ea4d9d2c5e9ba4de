# The tree built in other ways, and the static analysis. They take both cores, so each
# runs alone; on only in the build that carries the full test run.
if(HYDRA_BUILD_CHECKS)
  hydra_add_script(builds clang builds/clang.sh TIMEOUT 900)
  hydra_add_script(builds tsan builds/tsan.sh TIMEOUT 900)
  hydra_add_script(builds fuzz builds/fuzz.sh TIMEOUT 1800)
  hydra_add_script(builds tidy lint/tidy.sh TIMEOUT 900)
  set_tests_properties(builds.clang builds.tsan builds.fuzz builds.tidy PROPERTIES RUN_SERIAL ON)
endif()
if(HYDRA_BUILD_CHECKS)
  # The README's run, with the optimised programs of the clang build.
  hydra_add_script(integ demo integ/integ_demo.sh TIMEOUT 400)
  set_tests_properties(builds.clang PROPERTIES FIXTURES_SETUP optimised_build)
  set_tests_properties(integ.demo PROPERTIES FIXTURES_REQUIRED optimised_build RUN_SERIAL ON)
endif()
hydra_add_script(integ kubernetes integ/integ_kubernetes.sh)
