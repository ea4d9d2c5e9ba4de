foreach(name alloc arena error heap rng sort)
  hydra_add_test(unit common ${name})
endforeach()
