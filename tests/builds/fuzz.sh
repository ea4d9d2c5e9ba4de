#!/bin/sh
# fuzz.sh - every fuzz target as a libFuzzer program, for a few seconds from its corpus:
# 10 s each, with HYDRA_LONG 60 s and as long again with failing allocations. HYDRA_FUZZ_S
# sets the seconds, HYDRA_FUZZ_ONLY the targets (names without fuzz_).
set -eu
command -v clang > /dev/null || { echo "SKIPPED: no clang"; exit 77; }
build=$HYDRA_BUILD_DIR/fuzz
seconds=${HYDRA_FUZZ_S:-${HYDRA_LONG:+60}}
seconds=${seconds:-10}
mkdir -p "$build"
printf 'int LLVMFuzzerTestOneInput(const char *d, long n) { (void)d; (void)n; return 0; }\n' \
    > "$build/probe.c"
clang -fsanitize=fuzzer "$build/probe.c" -o "$build/probe" 2> "$build/log" || {
    echo "SKIPPED: this clang has no libFuzzer (package libclang-rt-dev)"
    exit 77
}
launcher=
if command -v ccache > /dev/null; then launcher=-DCMAKE_C_COMPILER_LAUNCHER=ccache; fi
# shellcheck disable=SC2086
CC=clang cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DHYDRA_FUZZ=ON \
    -DCMAKE_C_FLAGS_DEBUG="-O1 -gline-tables-only" \
    -DHYDRA_SANITIZE=address,undefined,fuzzer-no-link $launcher > "$build/log" 2>&1 || {
    cat "$build/log"
    exit 1
}
ninja -C "$build" -j "$(nproc)" hydra_fuzz > "$build/log" 2>&1 || {
    tail -n 60 "$build/log"
    exit 1
}

# What was found lies in build/fuzz/found and is printed (small inputs as base64).
cat > "$build/one.sh" << 'EOF'
#!/bin/sh
# one.sh BUILD SECONDS NAME OOM
set -eu
name=$3
grown=$1/grown/$name
mkdir -p "$grown" "$1/found"
if [ "$4" = 1 ]; then export HYDRA_FUZZ_OOM=1; fi
log=$1/$name.$4.log
if "$1/tests/fuzz_$name" -max_total_time="$2" -timeout=25 -rss_limit_mb=3072 \
    -max_len=65536 -artifact_prefix="$1/found/$name-" -print_final_stats=1 \
    "$grown" "tests/fuzz/${name}_corpus" > "$log" 2>&1; then
    printf '%-10s%s %s runs, %s\n' "$name" "$([ "$4" = 1 ] && echo ' oom' || echo '    ')" \
        "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
        "$(grep -oE 'cov: [0-9]+' "$log" | tail -n 1)"
else
    grep -vE '^#[0-9]+' "$log" | tail -n 60
    echo "FOUND in fuzz_$name: HYDRA_FUZZ_OOM=$4 $1/tests/fuzz_$name $1/found/$name-..."
    exit 1
fi
EOF
names=${HYDRA_FUZZ_ONLY:-$(cd tests/fuzz && for f in fuzz_*.c; do f=${f%.c}; echo "${f#fuzz_}"; done)}
modes=0
if [ -n "${HYDRA_LONG:-}" ]; then modes="0 1"; fi
for mode in $modes; do
    for name in $names; do
        echo "$build $seconds $name $mode"
    done
done | xargs -P "$(nproc)" -L 1 sh "$build/one.sh"
