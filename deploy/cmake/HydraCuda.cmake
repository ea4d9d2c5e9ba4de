# The GPU parts: found, not assumed. HYDRA_GPU=AUTO builds what is there, ON insists,
# OFF leaves it out. Sets HYD_CUDA and HYD_NCCL for the two tables, and HYD_NVCC_FLAGS.
set(HYDRA_GPU AUTO CACHE STRING "GPU parts: AUTO, ON or OFF")
set_property(CACHE HYDRA_GPU PROPERTY STRINGS AUTO ON OFF)
set(HYDRA_CUDA_ARCH "80;90" CACHE STRING
    "GPU architectures that the kernels are built for; the last one as PTX, too")

set(HYD_CUDA OFF)
set(HYD_NCCL OFF)
set(HYD_CUDNN OFF)
set(why "HYDRA_GPU=OFF")

# nvcc also wants a C++ compiler: ask it once for an empty program.
function(hyd_nvcc_works ret_works)
  if(NOT DEFINED HYD_NVCC_WORKS)
    file(WRITE ${CMAKE_BINARY_DIR}/nvcc_probe.cu "__global__ void probe(void) {}\n")
    execute_process(
      COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} -arch=compute_80 -c
        ${CMAKE_BINARY_DIR}/nvcc_probe.cu -o ${CMAKE_BINARY_DIR}/nvcc_probe.o
      RESULT_VARIABLE rc OUTPUT_QUIET ERROR_VARIABLE text)
    if(rc EQUAL 0)
      set(HYD_NVCC_WORKS ON CACHE INTERNAL "nvcc compiles an empty kernel")
    else()
      set(HYD_NVCC_WORKS OFF CACHE INTERNAL "nvcc compiles an empty kernel")
      message(STATUS "nvcc does not work: ${text}")
    endif()
  endif()
  set(${ret_works} ${HYD_NVCC_WORKS} PARENT_SCOPE)
endfunction()

if(NOT HYDRA_GPU STREQUAL "OFF")
  find_package(CUDAToolkit 12.0 QUIET)
  set(why "no CUDA toolkit 12 or newer with nvcc")
  if(CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE AND TARGET CUDA::cudart_static)
    hyd_nvcc_works(HYD_CUDA)
    set(why "nvcc compiles nothing here")
  endif()
  if(HYD_CUDA)
    # cuDNN is loaded when it is asked for; to build, its headers are enough.
    find_path(CUDNN_INCLUDE_DIR cudnn_graph.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    if(CUDNN_INCLUDE_DIR)
      set(HYD_CUDNN ON)
    endif()
    set(why "no NCCL")
    find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    find_library(NCCL_LIB nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
    if(NCCL_INCLUDE_DIR AND NCCL_LIB)
      set(HYD_NCCL ON)
      add_library(hydra_nccl INTERFACE)
      target_link_libraries(hydra_nccl INTERFACE ${NCCL_LIB} CUDA::cudart_static)
      target_include_directories(hydra_nccl SYSTEM INTERFACE ${NCCL_INCLUDE_DIR})
    endif()
  endif()
  if(HYDRA_GPU STREQUAL "ON" AND NOT (HYD_CUDA AND HYD_NCCL))
    message(FATAL_ERROR "HYDRA_GPU=ON needs the CUDA toolkit (12 or newer, nvcc on PATH, "
                        "a C++ compiler for it) and NCCL: ${why}")
  endif()
endif()
if(HYD_CUDA AND HYD_NCCL)
  message(STATUS "GPU parts: CUDA ${CUDAToolkit_VERSION} for sm_${HYDRA_CUDA_ARCH}, NCCL ${NCCL_LIB}, cuDNN ${HYD_CUDNN}")
else()
  message(STATUS "GPU parts: CUDA kernels ${HYD_CUDA}, NCCL ${HYD_NCCL} (${why})")
endif()

if(HYD_CUDA)
  # The host half of a kernel object then needs nothing of a C++ library.
  set(HYD_NVCC_FLAGS -O3 -std=c++17 -lineinfo
    -Xcompiler=-fPIC,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics)
  foreach(arch ${HYDRA_CUDA_ARCH})
    list(APPEND HYD_NVCC_FLAGS -gencode=arch=compute_${arch},code=sm_${arch})
    set(last ${arch})
  endforeach()
  list(APPEND HYD_NVCC_FLAGS -gencode=arch=compute_${last},code=compute_${last})
  separate_arguments(HYD_NVCC_LAUNCHER NATIVE_COMMAND "${CMAKE_C_COMPILER_LAUNCHER}")
endif()

# hyd_cuda_object(<target> <object> <source> [definitions]): compile with nvcc, link into the
# target. CMake's own CUDA language would make nvcc link every program.
function(hyd_cuda_object target object source)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${object}.o)
  add_custom_command(OUTPUT ${out}
    COMMAND ${HYD_NVCC_LAUNCHER} ${CUDAToolkit_NVCC_EXECUTABLE} ${HYD_NVCC_FLAGS} ${ARGN}
      -I${CMAKE_SOURCE_DIR} -MD -MF ${out}.d -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${out}
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source}
    DEPFILE ${out}.d
    COMMENT "nvcc ${object}"
    VERBATIM)
  target_sources(${target} PRIVATE ${out})
  set_source_files_properties(${out} TARGET_DIRECTORY ${target}
    PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
endfunction()
