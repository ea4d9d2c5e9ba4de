# The one place that sets compiler flags: every target of ours links hydra_flags.
add_library(hydra_flags INTERFACE)
target_include_directories(hydra_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_definitions(hydra_flags INTERFACE _GNU_SOURCE)
target_compile_options(hydra_flags INTERFACE
  -ffp-contract=off -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wstrict-prototypes
  -Wmissing-prototypes -Wold-style-definition -Wvla -Wundef -Wpointer-arith -Wcast-align
  -Wformat=2 -Wwrite-strings -Wdouble-promotion)
if(HYDRA_WERROR)
  target_compile_options(hydra_flags INTERFACE -Werror)
endif()
if(HYDRA_SANITIZE)
  target_compile_options(hydra_flags INTERFACE
    -fsanitize=${HYDRA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(hydra_flags INTERFACE -fsanitize=${HYDRA_SANITIZE})
endif()
option(HYDRA_FUZZ "Instrument for libFuzzer and link the fuzz targets with it (clang)" OFF)
if(HYDRA_FUZZ)
  target_compile_options(hydra_flags INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(hydra_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
