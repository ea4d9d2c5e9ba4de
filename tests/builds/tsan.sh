#!/bin/sh
# tsan.sh - the threaded parts (remote calls, daemon, agent, thread pool) under the thread
# sanitizer. libgrpc is not instrumented: tests/builds/tsan.supp says what is left out.
set -eu
build=$HYDRA_BUILD_DIR/tsan
launcher=
if command -v ccache > /dev/null; then launcher=-DCMAKE_C_COMPILER_LAUNCHER=ccache; fi
# shellcheck disable=SC2086
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DHYDRA_WERROR=ON \
    -DHYDRA_SANITIZE=thread -DHYDRA_GPU=OFF $launcher > "$build.log" 2>&1 || { cat "$build.log"; exit 1; }
ninja -C "$build" -j "$(nproc)" hydra_tsan > "$build.log" 2>&1 || { tail -n 60 "$build.log"; exit 1; }
cd "$build"
exec ctest -L tsan --output-on-failure --no-tests=error
