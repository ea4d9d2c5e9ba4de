# gpu_parts.sh - the parts of gpu-check.sh. Sourced by it.
# shellcheck shell=sh
# shellcheck disable=SC2034,SC2154  # shared with gpu-check.sh
#
# A part is a function gpu_part_NAME that runs below a limit, writes what a person wants to
# see to its output, and what a machine wants to read to $HYDRA_GPU_CHECK_OUT/NAME.data.json,
# in steps, so that what is there when it is killed is whole. It returns 0, 77 behind a line
# "SKIPPED: why", or its last line says what is wrong.

gpu_all_parts="build conformance sanitizer sharing agents order timings steps cudnn"

# Seconds; together less than eight minutes, also when the last one has to be killed.
gpu_budget_s=470
gpu_limit_s() {
    case $1 in
    build) echo 130 ;;
    conformance) echo 50 ;;
    sanitizer) echo 50 ;;
    sharing) echo 40 ;;
    agents) echo 40 ;;
    order) echo 20 ;;
    timings) echo 75 ;;
    steps) echo 25 ;;
    cudnn) echo 40 ;;
    esac
}

gpu_build=${HYDRA_GPU_CHECK_BUILD:-$root/build/gpu-check}
gpu_bin=${HYDRA_GPU_CHECK_BIN:-}

# FIELD: of the cards, a line each; empty where there is none, or where the driver hangs.
gpu_query_all() {
    command -v nvidia-smi > /dev/null 2>&1 || return 0
    timeout -k 1 "${HYDRA_GPU_CHECK_QUERY_S:-20}" nvidia-smi --query-gpu="$1" \
        --format=csv,noheader 2> /dev/null | grep -v '^No devices' || true
}

gpu_query() {
    gpu_query_all "$1" | head -n 1
}

gpu_cards() {
    command -v nvidia-smi > /dev/null 2>&1 || { echo 1; return 0; }
    gpu_query_all name | grep -c . || true
}

# The kernels that this card loads, and nothing else: half of what a build for all takes.
gpu_arch() {
    case $(gpu_query compute_cap) in
    8.*) echo 80 ;;
    9.*) echo 90 ;;
    *) echo '80;90' ;;
    esac
}

gpu_machine() {
    echo "$(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
}

# Text that may stand between the quotes of JSON.
gpu_text() {
    printf '%s' "$1" | tr -d '\000-\037' | sed 's/\\/\\\\/g; s/"/\\"/g'
}

# PROGRAM: where it is; a test program where it was built.
gpu_program() {
    for at in "$gpu_bin/$1" "$gpu_build/bin/$1" "$gpu_build/tests/$1"; do
        if [ -x "$at" ]; then
            echo "$at"
            return 0
        fi
    done
    echo "SKIPPED: $1 is not built" >&2
    return 77
}

gpu_part_build() {
    if [ -n "$gpu_bin" ]; then
        echo "SKIPPED: programs of $gpu_bin"
        return 77
    fi
    launcher=
    if command -v ccache > /dev/null 2>&1; then
        launcher=-DCMAKE_C_COMPILER_LAUNCHER=ccache
    fi
    # shellcheck disable=SC2086  # the launcher is one word or none
    cmake -S "$root" -B "$gpu_build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DHYDRA_GPU=ON \
        -DHYDRA_CUDA_ARCH="$(gpu_arch)" $launcher || { echo "configuring failed"; return 1; }
    ninja -C "$gpu_build" -j "$(nproc)" hydra-schedd hydra-worker hydractl hydra-bench \
        conform_compute conform_compute_ops conform_nccl gpu_order ||
        { echo "the build failed"; return 1; }
}

# NAME: a program of the compute table's tests, on the card alone.
gpu_conform() {
    program=$(gpu_program "$1") || return
    text=$HYDRA_GPU_CHECK_OUT/$1.txt
    HYDRA_TEST_COMPUTE=cuda "$program" > "$text" 2>&1 || {
        cat "$text"
        echo "$1 failed"
        return 1
    }
    cat "$text"
    # A skip that nobody sees would look like a pass.
    grep -q '^compute cuda ' "$text" || {
        echo "$1 left the card out: $(grep '^SKIPPED' "$text" | tail -n 1)"
        return 1
    }
}

# Every case of the compute table's tests on the card, against attention in double, to which
# the CPU's kernels are held, too.
gpu_part_conformance() {
    for name in conform_compute_ops conform_compute; do
        gpu_conform $name || return
    done
}

gpu_part_sanitizer() {
    tool=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
    if [ ! -x "$tool" ]; then
        echo "SKIPPED: no compute-sanitizer"
        return 77
    fi
    program=$(gpu_program conform_compute) || return
    for check in memcheck racecheck synccheck; do
        echo "== $check"
        HYDRA_TEST_COMPUTE=cuda HYDRA_TEST_FEW=1 "$tool" --tool "$check" \
            --error-exitcode 9 "$program" || { echo "$check found something"; return 1; }
        printf '{"last_passed": "%s"}' "$check" > "$HYDRA_GPU_CHECK_OUT/sanitizer.data.json"
    done
}

# The transport's contract: two to four ranks; on one card each as a machine of its own.
gpu_part_sharing() {
    program=$(gpu_program conform_nccl) || return
    "$program"
}

# A scheduler, agents of one rank each that say they are machines of their own, a job, steps.
# Set before: fleet_heads, fleet_kv_heads, fleet_d, fleet_verify, fleet_cap, fleet_steps,
# fleet_part, fleet_options of an agent, and the lengths on the standard input. Prints what
# was predicted and measured.
gpu_fleet() {
    for name in hydra-schedd hydra-worker hydractl; do
        gpu_program $name > /dev/null || return
    done
    ctl=$(gpu_program hydractl)
    cards=$(gpu_cards)
    agents=$cards
    [ "$agents" -ge 2 ] || agents=2
    [ "$agents" -le 4 ] || agents=4
    agents=${HYDRA_GPU_CHECK_AGENTS:-$agents}
    ranks=${HYDRA_GPU_CHECK_RANKS:-1} # of an agent
    fleet=$(mktemp -d)
    pids=
    trap gpu_fleet_stop EXIT
    trap 'exit 143' TERM INT
    cat > "$fleet/lengths"
    printf '{"name": "gpu-check", "layers": 1, "hidden": %d, "heads": %d, "kv_heads": %d, "head_dim": %d, "ffn": 4096, "recompute": false, "window": 0}\n' \
        $((fleet_heads * fleet_d)) "$fleet_heads" "$fleet_kv_heads" "$fleet_d" > "$fleet/model.json"
    HYDRA_CONNECT=unix:$fleet/hydra.sock
    export HYDRA_CONNECT
    "$(gpu_program hydra-schedd)" --listen "$HYDRA_CONNECT" --state "$fleet/state" \
        > "$fleet/schedd.log" 2>&1 &
    pids="$pids $!"
    tries=100
    until "$ctl" job list > /dev/null 2>&1; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || { echo "the scheduler does not answer"; return 1; }
        sleep 0.1
    done
    "$ctl" job open gpu --ranks $((agents * ranks)) --ranks-per-node $((agents * ranks)) \
        --cap "$fleet_cap" --policy hydra --run agents --dtype bf16 \
        --verify "$fleet_verify" --wait-members 60 --model "$fleet/model.json" \
        --device h100 --scope attention > "$fleet/open.log" 2>&1 || {
        echo "the job was refused: $(tail -n 1 "$fleet/open.log")"
        return 1
    }
    gpu_fleet_agents
    step=0
    while [ $step -lt "$fleet_steps" ]; do
        "$ctl" submit gpu "$fleet/lengths" --step $step --wait --timeout 60 \
            > "$fleet/submit.log" 2>&1 || {
            tail -n 5 "$fleet"/worker-*.log
            echo "step $step failed: $(tail -n 1 "$fleet/submit.log")"
            return 1
        }
        step=$((step + 1))
        "$ctl" report gpu --json > "$fleet/report.json"
        mv "$fleet/report.json" "$HYDRA_GPU_CHECK_OUT/$fleet_part.data.json"
    done
    grep -h 'device open\|device says' "$fleet"/worker-*.log || true
    [ "$cards" -ge "$agents" ] ||
        echo "$agents agents share $cards card(s), over sockets: times and exposed bytes say nothing about a network"
    "$ctl" report gpu
    "$ctl" job close gpu > /dev/null
}

gpu_fleet_agents() {
    n=0
    while [ $n -lt "$agents" ]; do
        visible=0
        [ "$cards" -lt "$agents" ] || visible=$n
        if [ "$ranks" -gt 1 ]; then
            visible=$(seq -s , 0 $((ranks - 1)))
        fi
        # shellcheck disable=SC2086  # options are words
        env CUDA_VISIBLE_DEVICES="$visible" NCCL_HOSTID="hydra-agent-$n" \
            NCCL_SOCKET_IFNAME="${NCCL_SOCKET_IFNAME:-lo}" NCCL_NET="${NCCL_NET:-Socket}" \
            NCCL_LAUNCH_ORDER_IMPLICIT=1 \
            "$(gpu_program hydra-worker)" --job gpu --node "node-$n" --ranks "$ranks" \
            --compute cuda --transport nccl $fleet_options > "$fleet/worker-$n.log" 2>&1 &
        pids="$pids $!"
        n=$((n + 1))
    done
}

gpu_fleet_stop() {
    status=$?
    trap - EXIT TERM INT
    # shellcheck disable=SC2086  # numbers are words
    hydra_end 5 $pids
    rm -rf "$fleet"
    exit "$status"
}

# The whole product: every result of two steps is checked.
gpu_part_agents() {
    fleet_part=agents fleet_options='' fleet_heads=8 fleet_kv_heads=2 fleet_d=64
    fleet_verify=full fleet_cap=${HYDRA_GPU_CHECK_CAP:-1800}
    fleet_steps=${HYDRA_GPU_CHECK_STEPS:-2}
    # shellcheck disable=SC2086  # lengths are words
    printf '%s\n' ${HYDRA_GPU_CHECK_LENGTHS:-3001 700 512 257 64 1} | gpu_fleet
}

# A step of a plan at size; nothing is checked, so that only it is measured.
gpu_part_steps() {
    fleet_part=steps fleet_options='' fleet_heads=32 fleet_kv_heads=8 fleet_d=128
    fleet_verify=off fleet_cap=${HYDRA_GPU_CHECK_CAP:-24576}
    fleet_steps=${HYDRA_GPU_CHECK_STEPS:-3}
    # shellcheck disable=SC2086  # lengths are words
    printf '%s\n' ${HYDRA_GPU_CHECK_LENGTHS:-32768 16384 8192 8192 4096 4096 2048 1024 1024 512} |
        gpu_fleet
}

# Groups of the engine's communicator between collectives of a second one, as a trainer has
# for its gradients, in one order on every rank.
gpu_part_order() {
    program=$(gpu_program gpu_order) || return
    NCCL_LAUNCH_ORDER_IMPLICIT=1 "$program"
}

# The most telling length first: what is there when the time is over is kept.
gpu_part_timings() {
    program=$(gpu_program hydra-bench) || return
    here_out=$HYDRA_GPU_CHECK_OUT
    comma=
    : > "$here_out/timings.rows"
    unchecked=
    for tokens in 8192 131072 1024 32768 2048 4096 16384 65536; do
        # Checked against double before the first is timed.
        # shellcheck disable=SC2086  # a word or none
        timeout 40 "$program" attn cuda $tokens $unchecked --json > "$here_out/timings.one" || {
            echo "hydra-bench attn cuda $tokens failed"
            return 1
        }
        { printf '%s' "$comma"; cat "$here_out/timings.one"; } >> "$here_out/timings.rows"
        comma=,
        unchecked=unchecked
        { echo '['; cat "$here_out/timings.rows"; echo ']'; } > "$here_out/timings.new"
        mv "$here_out/timings.new" "$here_out/timings.data.json"
    done
    rm -f "$here_out/timings.rows" "$here_out/timings.one"
}

# cuDNN's forward for unmasked rectangles, which users have to ask for: the compute table's
# tests with it, agents with every result checked, then its time. A shape that its own test
# refuses is no failure; the log has the verdicts.
gpu_part_cudnn() {
    data=$HYDRA_GPU_CHECK_OUT/cudnn.data.json
    HYDRA_TEST_FUSED=cudnn
    HYDRA_TEST_FEW=1
    export HYDRA_TEST_FUSED HYDRA_TEST_FEW
    gpu_conform conform_compute > "$HYDRA_GPU_CHECK_OUT/cudnn.conform" || {
        rc=$?
        cat "$HYDRA_GPU_CHECK_OUT/cudnn.conform"
        why=$(sed -n 's/^SKIPPED: .*: \(.*cuDNN.*\)/\1/p' "$HYDRA_GPU_CHECK_OUT/cudnn.conform" | head -n 1)
        if [ -n "$why" ]; then
            echo "SKIPPED: $why"
            return 77
        fi
        tail -n 1 "$HYDRA_GPU_CHECK_OUT/cudnn.conform"
        return $rc
    }
    cat "$HYDRA_GPU_CHECK_OUT/cudnn.conform"
    used=$(grep -c '^device says: cudnn computes' "$HYDRA_GPU_CHECK_OUT/cudnn.conform" || true)
    refused=$(grep -c '^device says: cudnn is refused' "$HYDRA_GPU_CHECK_OUT/cudnn.conform" || true)
    found=$(printf '"shapes_used": %d, "shapes_refused": %d, "conformance": "passed"' "$used" "$refused")
    printf '{%s}' "$found" > "$data"
    fleet_part=cudnn.agents fleet_options='--fused cudnn' fleet_heads=8 fleet_kv_heads=2
    fleet_d=64 fleet_verify=full fleet_cap=${HYDRA_GPU_CHECK_CAP:-1800}
    fleet_steps=${HYDRA_GPU_CHECK_STEPS:-2}
    # shellcheck disable=SC2086  # lengths are words
    (printf '%s\n' ${HYDRA_GPU_CHECK_LENGTHS:-3001 700 512 257 64 1} | gpu_fleet) || return
    found="$found, \"agents\": \"passed\""
    printf '{%s}' "$found" > "$data"
    program=$(gpu_program hydra-bench) || return
    timeout 20 "$program" attn cuda 8192 unchecked cudnn --json > "$data.one" || {
        echo "hydra-bench attn cuda 8192 unchecked cudnn failed"
        return 1
    }
    { printf '{%s, "timings": ' "$found"; cat "$data.one"; echo '}'; } > "$data.new"
    mv "$data.new" "$data"
    rm -f "$data.one"
}

# TFLOP/s as a table, out of the document that hydra-bench indents a key a line.
gpu_tables() {
    [ -s "$HYDRA_GPU_CHECK_OUT/timings.data.json" ] || return 0
    echo
    echo "attention kernels, bf16, 32 query heads on 8 kv heads, head size 128: useful TFLOP/s, median"
    printf '%8s %8s %10s %10s\n' tokens mask forward backward
    awk -F'[:,]' '
        { gsub(/[" ]/, "") }
        $1 == "tokens" { tokens = $2 }
        $1 == "see" { see = $2 }
        $1 == "tflop_per_s" && n++ % 2 == 0 { forward = $2; next }
        $1 == "tflop_per_s" { printf "%8d %8s %10.1f %10.1f\n", tokens, see, forward, $2 }
    ' "$HYDRA_GPU_CHECK_OUT/timings.data.json" | sort -n -k1,1 -k2,2
}
