# The one place that sets compiler flags: every target of ours links hydra_flags.
add_library(hydra_flags INTERFACE)
target_include_directories(hydra_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_definitions(hydra_flags INTERFACE _GNU_SOURCE)
# Untyped constants are enums here; newer clangs warn of each that meets a double.
target_compile_options(hydra_flags INTERFACE
  -ffp-contract=off -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wstrict-prototypes
  -Wmissing-prototypes -Wold-style-definition -Wvla -Wundef -Wpointer-arith -Wcast-align
  -Wformat=2 -Wwrite-strings -Wdouble-promotion -Wno-enum-float-conversion)
if(HYDRA_WERROR)
  target_compile_options(hydra_flags INTERFACE -Werror)
endif()
# A target with HYD_UNSANITIZED on is left out: for code whose sanitized form takes the
# compiler minutes and that is also built sanitized in another form.
if(HYDRA_SANITIZE)
  set(flags -fsanitize=${HYDRA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_compile_options(hydra_flags INTERFACE
    "$<$<NOT:$<BOOL:$<TARGET_PROPERTY:HYD_UNSANITIZED>>>:${flags}>")
  target_link_options(hydra_flags INTERFACE -fsanitize=${HYDRA_SANITIZE})
endif()
