#!/bin/sh
# clang.sh - the product with the second compiler, warnings as errors, optimised; and the
# same inputs must give the same plan bytes as the first compiler's build. The tests' files
# meet the same compiler's warnings in tidy.sh.
set -eu
command -v clang > /dev/null || { echo "SKIPPED: no clang"; exit 77; }
build=$HYDRA_BUILD_DIR/clang
launcher=
if command -v ccache > /dev/null; then launcher=-DCMAKE_C_COMPILER_LAUNCHER=ccache; fi
# shellcheck disable=SC2086
CC=clang cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DHYDRA_WERROR=ON \
    -DHYDRA_TESTS=OFF $launcher > "$build.log" 2>&1 || { cat "$build.log"; exit 1; }
ninja -C "$build" -j "$(nproc)" > "$build.log" 2>&1 || { tail -n 60 "$build.log"; exit 1; }
# Sanitizers call into their runtime, so the pure libraries are judged in this build.
tests/lint/pure_symbols.sh "$build/scheduler/core/libhydra_sched.a" \
    "$build/worker/attn/libhydra_attn.a" || { echo "these symbols are not pure"; exit 1; }
exec tests/builds/same_bytes.sh "$HYDRA_BIN_DIR/hydractl" "$build/bin/hydractl"
