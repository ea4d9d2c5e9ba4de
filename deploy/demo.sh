#!/bin/sh
# demo.sh - the main job on this machine, from nothing: install what is missing, build, start
# one scheduler and four agents (two jobs of 2 agents x 4 ranks), take the lengths of real
# text on this disk, run five steps of attention forward and backward under two plans, check
# them, and show what was predicted beside what was measured. Stops what it started, also on
# Ctrl-C or failure.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
# shellcheck source=deploy/lib/packages.sh
. "$here/lib/packages.sh"
# shellcheck source=deploy/lib/processes.sh
. "$here/lib/processes.sh"

for word in "$@"; do
    case $word in
    -h | --help)
        echo "usage: sh deploy/demo.sh    (HYDRA_DEMO_STEPS=5 HYDRA_DEMO_FILES=64)"
        exit 0
        ;;
    *)
        echo "demo.sh: unknown argument '$word'; it takes none" >&2
        exit 2
        ;;
    esac
done

steps=${HYDRA_DEMO_STEPS:-5}
files=${HYDRA_DEMO_FILES:-64} # sequences of a step
for number in "HYDRA_DEMO_STEPS $steps" "HYDRA_DEMO_FILES $files"; do
    case ${number#* } in
    '' | 0* | *[!0-9]*)
        echo "demo.sh: ${number% *} is '${number#* }'; must be a whole number, 1 or more" >&2
        exit 2
        ;;
    esac
done
build=${HYDRA_DEMO_BUILD:-$root/build/demo}
bin=${HYDRA_DEMO_BIN:-$build/bin} # programs that are built already
tmp=$(mktemp -d)
pids=

stop_all() {
    status=$?
    trap - EXIT INT TERM HUP
    # shellcheck disable=SC2086  # numbers are words
    hydra_end 10 $pids # nothing is left running
    if [ "$status" -ne 0 ]; then
        echo "demo.sh: failed; last lines of the logs:" >&2
        for log in "$tmp"/*.log; do
            [ -s "$log" ] || continue
            echo "== $(basename "$log")" >&2
            tail -n 5 "$log" >&2
        done
    fi
    rm -rf "$tmp"
    exit "$status"
}
trap stop_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

say() {
    printf '\n== %s\n' "$*"
}

# NAME PROGRAM ARGS...: start in the background, remember it.
start() {
    name=$1
    shift
    "$@" > "$tmp/$name.log" 2>&1 &
    pids="$pids $!"
    echo "$! $name" >> "$tmp/processes"
}

# --- packages and build ---

if [ -z "${HYDRA_DEMO_BIN:-}" ]; then
    hydra_packages run
    cd "$root"
    mkdir -p "$build"
    launcher=
    if command -v ccache > /dev/null 2>&1; then
        launcher=-DCMAKE_C_COMPILER_LAUNCHER=ccache
    fi
    if [ ! -f "$build/build.ninja" ]; then
        echo "building in $build (a minute or two, once) ..."
    fi
    # shellcheck disable=SC2086  # the launcher is one word or none
    cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DHYDRA_TESTS=OFF \
        $launcher > "$build/configure.log" 2>&1 || { cat "$build/configure.log"; exit 1; }
    ninja -C "$build" > "$build/build.log" 2>&1 || { tail -n 40 "$build/build.log"; exit 1; }
fi

say "HyDra demo on $(uname -sm), $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"

# --- calibrate: what this machine computes ---

# One core, no other load: agents that share the cores take longer by the wall, not by CPU time.
"$bin/hydra-worker" --calibrate --compute cpu --heads 8 --kv-heads 2 --head-dim 64 -o "$tmp/cpu-here.json" \
    > "$tmp/calibrate.log" 2>&1
cat > "$tmp/model.json" <<'JSON'
{"name": "demo", "layers": 1, "hidden": 512, "heads": 8, "kv_heads": 2, "head_dim": 64,
 "ffn": 2048, "recompute": false, "window": 0}
JSON
cost="--model $tmp/model.json --device $tmp/cpu-here.json --scope attention"

# --- real text: files of this machine and of this tree, one sequence a file ---

"$bin/hydractl" lengths /usr/include "$root/common" "$root/scheduler" "$root/worker" \
    --sample $((steps * files)) --seed 1 -o "$tmp/all" > "$tmp/lengths.log"

# FILE: seconds of attention of all its sequences on one rank, by the calibrated model.
work_s() {
    # shellcheck disable=SC2086  # options are words
    "$bin/hydractl" plan "$1" --ranks 1 --cap 200000000 --policy static --cp 1 $cost --json |
        sed 's/[,{]/\n/g' | sed -n 's/^ *"mean_cell_s": *//p' | head -n 1
}

# Attention costs the square of a length: rounds of that find the factor by which all lengths
# are divided, so that a step takes about one second of each core.
factor=1
cp "$tmp/all" "$tmp/scaled"
rounds=3
while [ $rounds -gt 0 ]; do
    rounds=$((rounds - 1))
    total=$(work_s "$tmp/scaled")
    factor=$(awk -v f="$factor" -v t="$total" -v s="$steps" -v c="$(nproc)" \
        'BEGIN { printf "%.6f", f * sqrt(t / (s * c)) }')
    awk -v f="$factor" '{ n = int($1 / f); print n < 1 ? 1 : n }' "$tmp/all" > "$tmp/scaled"
done
split -d -a 2 -l "$files" "$tmp/scaled" "$tmp/step."

# Memory for about four microbatches, and for the longest sequence spread over all ranks.
ranks=8
cap=$(awk -v n="$steps" -v r=$ranks '
    { sum += $1; if ($1 > most) { most = $1 } }
    END { c = sum / n / r / 3; m = most / r * 1.1; c = c > m ? c : m
          printf "%d", int((c + 63) / 64) * 64 }' "$tmp/scaled")

echo "text: $files files of /usr/include and of this tree a step, one sequence a file, $steps steps"
echo "lengths are divided by $factor, so that a step's attention takes about 1 s of each core"
echo "model: 8 query heads, 2 key-value heads, head size 64, fp32; cap $cap tokens a cell"

# --- one scheduler, two jobs, two agents of four ranks each ---

socket=unix:$tmp/hydra.sock
export HYDRA_CONNECT="$socket"
start schedd "$bin/hydra-schedd" --listen "$socket" --state "$tmp/state"
tries=100
until "$bin/hydractl" job list > /dev/null 2>&1; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || { echo "the scheduler does not answer" >&2; exit 1; }
    sleep 0.1
done

for job in hydra static; do
    own=
    [ $job = hydra ] || own="--cp $ranks"
    # shellcheck disable=SC2086  # options are words
    "$bin/hydractl" job open $job --ranks $ranks --ranks-per-node 4 --cap "$cap" \
        --policy $job --run agents --verify sample --wait-members 60 $cost $own \
        > "$tmp/open.log"
    for node in a b; do
        start "worker-$job-$node" "$bin/hydra-worker" --job $job \
            --node $node --ranks 4 --compute cpu --transport ucx
    done
done

# --- steps: lengths in, plan out, streamed to agents, run, checked ---

say "steps: lengths to the scheduler, plans to the agents, attention forward and backward, checked"
step=0
for lengths in "$tmp"/step.*; do
    for job in hydra static; do
        "$bin/hydractl" submit $job "$lengths" --step $step --wait --timeout 120 \
            > "$tmp/submit.log"
    done
    step=$((step + 1))
done
"$bin/hydractl" report hydra static

say "processes: memory and time"
printf '%-18s %12s %10s %10s\n' process 'peak memory' 'CPU s' 'alive s'
hertz=$(getconf CLK_TCK)
up=$(cut -d' ' -f1 /proc/uptime)
while read -r pid name; do
    peak=$(sed -n 's/^VmHWM:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$pid/status")
    sed 's/^.*) //' "/proc/$pid/stat" |
        awk -v n="$name" -v p="$peak" -v h="$hertz" -v up="$up" \
            '{ printf "%-18s %8.1f MiB %10.2f %10.1f\n", n, p / 1024, ($12 + $13) / h, up - $20 / h }'
done < "$tmp/processes"

# Stop in order: agents leave, the scheduler drains.
for job in hydra static; do
    "$bin/hydractl" job close $job > /dev/null
done
echo
echo "done; nothing is left running"
