foreach(name compute compute_ops)
  hydra_add_test(conform "" ${name} LIBS hydra_compute)
  target_sources(conform_${name} PRIVATE
    conform/attn_case.c conform/attn_drive.c conform/devices.c conform/guarded.c)
endforeach()
# The double reference is most of the tests' time.
set_source_files_properties(conform/attn_case.c PROPERTIES COMPILE_OPTIONS -O2)
hydra_add_test(unit worker cpu_device TSAN LIBS hydra_compute)
hydra_add_test(unit worker calibrate LIBS hydra_compute)
