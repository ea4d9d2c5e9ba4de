#!/bin/sh
# test.sh [--long] - set up this machine, build, and run every test.
#
# One sanitizer build carries the tests; the second compiler, the thread sanitizer and the
# static analysis are tests of that build, so that one run has one summary, which is the
# last thing printed. --long adds soaks, full fuzzing, mutation lists and the full
# benchmark table. Labels and times: tests/README.md.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
# shellcheck source=deploy/lib/packages.sh
. "$here/lib/packages.sh"

long=
for word in "$@"; do
    case $word in
    --long) long=1 ;;
    -h | --help)
        echo "usage: sh deploy/test.sh [--long]"
        exit 0
        ;;
    *)
        echo "test.sh: unknown argument '$word'; the only one is --long" >&2
        exit 2
        ;;
    esac
done

hydra_packages test
cd "$root"
build=${HYDRA_TEST_BUILD:-build/test}
jobs=$(nproc)
launcher=
if command -v ccache > /dev/null 2>&1; then
    launcher=-DCMAKE_C_COMPILER_LAUNCHER=ccache
fi

step() {
    printf '\n== %s (%s s)\n' "$1" "$(($(date +%s) - start_s))"
}

start_s=$(date +%s)
step "configure"
mkdir -p "$build"
# shellcheck disable=SC2086  # the launcher is one word or none
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DHYDRA_WERROR=ON \
    -DHYDRA_SANITIZE=address,undefined -DHYDRA_BUILD_CHECKS=ON $launcher > "$build/configure.log" 2>&1 || {
    cat "$build/configure.log"
    exit 1
}
step "build with address and undefined-behaviour sanitizers"
ninja -C "$build" -j "$jobs"
step "tests"
cd "$build"
if [ -n "$long" ]; then
    HYDRA_LONG=1 exec ctest -j "$jobs" --output-on-failure
fi
exec ctest -j "$jobs" --output-on-failure -LE long
