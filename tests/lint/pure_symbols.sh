#!/bin/sh
# pure_symbols.sh LIB... - fail when a pure library needs time, I/O, threads or the heap.
set -eu
bad='malloc|calloc|realloc|free|aligned_alloc|f?printf|puts|fputs|abort|strtod|__v?f?printf_chk|__read_chk|fopen|fwrite|read|write|open|socket|time|clock|clock_gettime|gettimeofday|rand|random|getenv|exit|pthread_.*|uv_.*|grpc_.*|cuda.*|nccl.*|ucp_.*'
! nm -u "$@" | grep -E " U ($bad)(@|\$)"
