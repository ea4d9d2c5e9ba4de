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
set(emu_files emu/compute_emu.c emu/declare_emu.c emu/devices_emu.c emu/emu_fiber.c
  emu/emu_memory.c emu/emu_traffic.c emu/emu_words.c)
set_source_files_properties(${emu_files} emu/kernels_emu.c PROPERTIES
  COMPILE_OPTIONS "-O2;-fno-sanitize=all")
# The kernels find the emulator's words in the program that loads them; the runpath, not
# the older rpath, so that LD_LIBRARY_PATH can put other kernels there.
add_library(emu_kernels SHARED emu/kernels_emu.c)
target_link_libraries(emu_kernels PRIVATE hydra_flags)
foreach(name compute compute_ops)
  add_executable(conform_cuda_${name} conform/conform_${name}.c ${conform_files}
    ${emu_files})
  set_target_properties(conform_cuda_${name} PROPERTIES ENABLE_EXPORTS ON
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(conform_cuda_${name} PRIVATE hydra_test hydra_compute emu_kernels)
  target_link_options(conform_cuda_${name} PRIVATE -Wl,--enable-new-dtags)
  add_test(NAME conform.cuda_emulated.${name} COMMAND conform_cuda_${name})
  set_tests_properties(conform.cuda_emulated.${name} PROPERTIES LABELS conform
    TIMEOUT 600)
endforeach()
# Cards with less shared memory take other kernels of wide heads.
foreach(kib 163 99)
  add_test(NAME conform.cuda_emulated.compute_${kib} COMMAND conform_cuda_compute)
  set_tests_properties(conform.cuda_emulated.compute_${kib} PROPERTIES LABELS conform
    TIMEOUT 600 ENVIRONMENT "HYDRA_EMU_SHARED_KIB=${kib};HYDRA_DTYPE=bf16;HYDRA_TEST=compute_equals_*")
endforeach()
hydra_add_test(unit worker emu LIBS hydra_compute)
target_sources(unit_worker_emu PRIVATE emu/emu_fiber.c emu/emu_memory.c
  emu/emu_traffic.c emu/emu_words.c)
set_source_files_properties(unit/worker/test_emu.c PROPERTIES
  COMPILE_OPTIONS "-fno-sanitize=all")

# The CUDA backend's host side, over a card that is not there.
foreach(name compute compute_ops)
  hydra_add_variant(conform ${name}_fake conform/conform_${name}.c
    SOURCES conform/devices_fake.c ${conform_files} LIBS hydra_fake_gpu)
endforeach()
hydra_add_test(unit worker cuda TSAN LIBS hydra_fake_gpu)
hydra_add_test(unit worker cuda_traffic TIMEOUT 300 LIBS hydra_compute emu_kernels)
target_sources(unit_worker_cuda_traffic PRIVATE conform/attn_case.c ${emu_files})
set_target_properties(unit_worker_cuda_traffic PROPERTIES ENABLE_EXPORTS ON)
target_link_options(unit_worker_cuda_traffic PRIVATE -Wl,--enable-new-dtags)

# Seeded bugs: some in every run, the whole list with --long. They compile and run tests on
# both cores.
hydra_add_script(conform cuda_mutations emu/mutations.py TIMEOUT 400)
hydra_add_script(conform cuda_mutations_all emu/mutations.py ARGS --all TIMEOUT 1800)
set_tests_properties(conform.cuda_mutations_all PROPERTIES LABELS "conform;long")
set_tests_properties(conform.cuda_mutations conform.cuda_mutations_all PROPERTIES
  PROCESSORS 2)
# What nvcc makes of the kernels: one head size in every run.
hydra_add_script(builds ptxas builds/ptxas.py)
hydra_add_script(builds ptxas_all builds/ptxas.py ARGS --all TIMEOUT 900)
set_tests_properties(builds.ptxas_all PROPERTIES LABELS "builds;long")
hydra_add_test(unit worker cuda_fused TIMEOUT 300 LIBS hydra_compute emu_kernels)
target_sources(unit_worker_cuda_fused PRIVATE ${conform_files} ${emu_files})
set_source_files_properties(unit/worker/test_cuda_fused.c PROPERTIES COMPILE_OPTIONS
  "-O2;-fno-sanitize=all")
set_target_properties(unit_worker_cuda_fused PROPERTIES ENABLE_EXPORTS ON)
target_link_options(unit_worker_cuda_fused PRIVATE -Wl,--enable-new-dtags)
# Does cuDNN take our graph? Asked with the toolkit's stub of the driver, without a card.
# cuDNN keeps what it allocates.
if(HYD_CUDNN AND EXISTS ${CUDAToolkit_LIBRARY_DIR}/stubs/libcuda.so)
  hydra_add_test(unit worker cudnn_graph LIBS hydra_compute)
  target_include_directories(unit_worker_cudnn_graph SYSTEM PRIVATE ${CUDNN_INCLUDE_DIR})
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/tests/stub)
  file(CREATE_LINK ${CUDAToolkit_LIBRARY_DIR}/stubs/libcuda.so
    ${CMAKE_BINARY_DIR}/tests/stub/libcuda.so.1 SYMBOLIC)
  set_property(TEST unit.worker.cudnn_graph APPEND PROPERTY ENVIRONMENT
    LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/tests/stub ASAN_OPTIONS=detect_leaks=0)
endif()
