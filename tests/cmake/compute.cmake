set(conform_files conform/attn_case.c conform/attn_drive.c conform/guarded.c)
foreach(name compute compute_ops)
  hydra_add_test(conform "" ${name} LIBS hydra_compute)
  target_sources(conform_${name} PRIVATE conform/devices.c ${conform_files})
endforeach()
# The double reference is most of the tests' time.
set_source_files_properties(conform/attn_case.c PROPERTIES COMPILE_OPTIONS -O2)
hydra_add_test(unit worker cpu_device TSAN LIBS hydra_compute)
hydra_add_test(unit worker calibrate LIBS hydra_compute)

# Fibers and sanitizers do not mix: the emulator and what runs on it go without, always
# optimised.
set_source_files_properties(emu/emu_fiber.c emu/emu_words.c PROPERTIES
  COMPILE_OPTIONS "-O2;-fno-sanitize=all")
hydra_add_test(unit worker emu LIBS hydra_compute)
target_sources(unit_worker_emu PRIVATE emu/emu_fiber.c emu/emu_words.c)
set_source_files_properties(unit/worker/test_emu.c PROPERTIES
  COMPILE_OPTIONS "-fno-sanitize=all")
