# Third-party parts as imported targets; their headers are SYSTEM, so that our warnings
# stay ours. Versions are those of Debian 12; newer ones are fine.
find_package(PkgConfig REQUIRED)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

pkg_check_modules(PBC REQUIRED IMPORTED_TARGET libprotobuf-c>=1.4.0)
pkg_check_modules(UV REQUIRED IMPORTED_TARGET libuv>=1.44)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson>=2.14)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash>=0.8)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3>=3.40)
pkg_check_modules(MHD REQUIRED IMPORTED_TARGET libmicrohttpd>=0.9.75)
pkg_check_modules(INIH REQUIRED IMPORTED_TARGET inih)
pkg_check_modules(UCX REQUIRED IMPORTED_TARGET ucx>=1.13)
if(HYDRA_TESTS)
  pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka>=1.1.5)
endif()

# grpc.pc carries the soname as its version and some 70 private libraries; the C core
# itself needs these two.
find_library(GRPC_LIB grpc REQUIRED)
find_library(GPR_LIB gpr REQUIRED)
find_path(GRPC_INCLUDE_DIR grpc/grpc.h REQUIRED)
add_library(hydra_grpc INTERFACE)
target_link_libraries(hydra_grpc INTERFACE ${GRPC_LIB} ${GPR_LIB})
target_include_directories(hydra_grpc SYSTEM INTERFACE ${GRPC_INCLUDE_DIR})
