foreach(name alloc arena error heap rng)
  hydra_add_test(unit common ${name})
endforeach()
