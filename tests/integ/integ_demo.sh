#!/bin/sh
# integ_demo.sh - the demo prints what the README shows (numbers masked), every step is done
# and checked on both plans, and it leaves nothing behind: after a full run, and after
# Ctrl-C in the middle of one. Uses the optimised build that the clang test made.
set -eu
bin=${HYDRA_BUILD_DIR:?}/clang/bin
[ -x "$bin/hydra-worker" ] || { echo "SKIPPED: no optimised build in $bin"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export HYDRA_DEMO_BIN="$bin" TMPDIR="$tmp"

mask() {
    sed -E 's/, [0-9]+ cores, .*/, N cores, CPU/
            s/on Linux [a-z0-9_]+/on Linux ARCH/
            s/[0-9]+(,[0-9]{3})*(\.[0-9]+)?(e[-+]?[0-9]+)?/N/g
            s/N (ms|us|ns|µs|s)([ ,]|$)/N T\2/g
            s/N: N(, N: N)*/DEGREES/g
            s/ +/ /g; s/ $//'
}

leftovers() {
    left=$(pgrep -f "$bin/hydra-(schedd|worker)" || true)
    [ -z "$left" ] || { echo "$1: still running: $left"; exit 1; }
    left=$(find "$tmp" -mindepth 1 -maxdepth 1 ! -name '*.out' ! -name '*.masked')
    [ -z "$left" ] || { echo "$1: left in the temporary folder: $left"; exit 1; }
}

shm_before=$(find /dev/shm -mindepth 1 | wc -l)
sh deploy/demo.sh > "$tmp/demo.out" 2>&1 || { cat "$tmp/demo.out"; exit 1; }
leftovers "after the demo"
[ "$(find /dev/shm -mindepth 1 | wc -l)" -le "$shm_before" ] || { echo "left in /dev/shm"; exit 1; }

sed -n '/^== HyDra demo/,/^done; nothing/p' README.md | mask > "$tmp/readme.masked"
# The README shows the first and the last step.
ends() {
    awk '/^step [0-9]/ { n++; block = "" }
        n == 0 || over { print; next }
        /^== / { print "(steps 1 to 3 are left out here)\n\n" block $0; over = 1; next }
        n == 1 { print; next }
        { block = block $0 "\n" }'
}
sed -n '/^== HyDra demo/,/^done; nothing/p' "$tmp/demo.out" | ends | mask > "$tmp/demo.masked"
[ -s "$tmp/readme.masked" ] || { echo "README.md shows no run of the demo"; exit 1; }
diff "$tmp/readme.masked" "$tmp/demo.masked" || {
    echo "README.md shows another demo (<) than this one (>)"
    exit 1
}
grep -E '^largest error' "$tmp/demo.out" | tr -s ' ' '\n' | grep 'e' |
    awk '/^[0-9.]+e[-+][0-9]+$/ { n++; if ($1 > 1e-5) { print "error " $1; bad = 1 } }
         END { exit bad || n < 10 }' || { echo "an error above 1e-5, or none shown"; exit 1; }

# Ctrl-C while steps run.
sh deploy/demo.sh > "$tmp/stopped.out" 2>&1 &
demo=$!
tries=600
until pgrep -f "$bin/hydra-worker --job static" > /dev/null || [ $tries -eq 0 ]; do
    sleep 0.1
    tries=$((tries - 1))
done
kill -TERM $demo
wait $demo && { echo "a stopped demo must not say that it succeeded"; exit 1; }
leftovers "after a stop"
echo "the demo prints what the README shows and leaves nothing behind"
