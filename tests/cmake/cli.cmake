# hydractl: commands run in the test's own process.
foreach(name parse json table lengths)
  hydra_add_test(unit cli ${name} LIBS hydra_cli)
endforeach()
