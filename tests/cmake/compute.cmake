set(conform_files conform/attn_case.c conform/attn_drive.c conform/guarded.c)
foreach(name compute compute_ops)
  hydra_add_test(conform "" ${name} LIBS hydra_compute)
  target_sources(conform_${name} PRIVATE conform/devices.c ${conform_files})
endforeach()
# The double reference is most of the tests' time.
set_source_files_properties(conform/attn_case.c PROPERTIES COMPILE_OPTIONS -O2)
hydra_add_test(unit worker cpu_device TSAN LIBS hydra_compute)
hydra_add_test(unit worker calibrate LIBS hydra_compute)

# The same tests over the CUDA kernels in the emulator. Fibers and sanitizers do not mix:
# the emulator and what runs on it go without, always optimised.
set(emu_files emu/compute_emu.c emu/devices_emu.c emu/emu_fiber.c emu/emu_words.c
  emu/kernels_emu.c)
set_source_files_properties(${emu_files} PROPERTIES
  COMPILE_OPTIONS "-O2;-fno-sanitize=all")
foreach(name compute compute_ops)
  add_executable(conform_cuda_${name} conform/conform_${name}.c ${conform_files}
    ${emu_files})
  set_target_properties(conform_cuda_${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(conform_cuda_${name} PRIVATE hydra_test hydra_compute)
  add_test(NAME conform.cuda_emulated.${name} COMMAND conform_cuda_${name})
  set_tests_properties(conform.cuda_emulated.${name} PROPERTIES LABELS conform
    TIMEOUT 600)
endforeach()
hydra_add_test(unit worker emu LIBS hydra_compute)
target_sources(unit_worker_emu PRIVATE emu/emu_fiber.c emu/emu_words.c)
set_source_files_properties(unit/worker/test_emu.c PROPERTIES
  COMPILE_OPTIONS "-fno-sanitize=all")

# The CUDA backend's host side, over a card that is not there.
foreach(name compute compute_ops)
  hydra_add_variant(conform ${name}_fake conform/conform_${name}.c
    SOURCES conform/devices_fake.c ${conform_files} LIBS hydra_fake_gpu)
endforeach()
hydra_add_test(unit worker cuda TSAN LIBS hydra_fake_gpu)
