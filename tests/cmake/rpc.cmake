foreach(name clock config lock log size)
  hydra_add_test(unit common ${name} LIBS hydra_sys)
endforeach()
