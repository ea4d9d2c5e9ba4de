#!/bin/sh
# gpu-check.sh [--out DIR] [PART...] - on a machine with NVIDIA cards: build, prove the GPU
# engine against the CPU's, then time it. One JSON document and one table, in under eight
# minutes; every part has its own limit, and what was found is kept when one fails, hangs or
# is interrupted. What each part does and needs: deploy/README.md, "On a GPU".
#
# Exit code 0: every part passed or was skipped for a reason that is printed; 1: one failed
# or ran out of time; 2: wrong usage; 77: no card here, nothing was run.
#
# From the environment: HYDRA_GPU_CHECK_BIN=DIR takes programs that are built already;
# HYDRA_GPU_CHECK_LIMIT_S=S one limit for every part, _BUDGET_S for all together;
# HYDRA_GPU_CHECK_CARD=NAME, HYDRA_GPU_CHECK_AGENTS, _RANKS (of an agent), _LENGTHS, _CAP, _STEPS replace what is found
# on the machine or usual.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
# shellcheck source=deploy/lib/gpu_parts.sh
. "$here/lib/gpu_parts.sh"
# shellcheck source=deploy/lib/processes.sh
. "$here/lib/processes.sh"

usage() {
    echo "usage: sh deploy/gpu-check.sh [--out DIR] [PART...]"
    echo "parts, in this order: $gpu_all_parts"
}

out=$root/build/gpu-check/results
parts=
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help)
        usage
        exit 0
        ;;
    --out)
        [ $# -ge 2 ] || { usage >&2; exit 2; }
        out=$2
        shift
        ;;
    --run-part) # by this script itself: the part that the limit is around
        HYDRA_GPU_CHECK_OUT=${HYDRA_GPU_CHECK_OUT:?}
        # Not before what runs here has ended: a program that does not listen would outlive
        # the limit, since timeout kills a group only while its first process is there.
        trap 'exit 143' TERM
        "gpu_part_$2"
        exit
        ;;
    *)
        case " $gpu_all_parts " in
        *" $1 "*) parts="$parts $1" ;;
        *)
            echo "gpu-check.sh: unknown part '$1'" >&2
            usage >&2
            exit 2
            ;;
        esac
        ;;
    esac
    shift
done
[ -n "$parts" ] || parts=$gpu_all_parts

card=${HYDRA_GPU_CHECK_CARD:-$(gpu_query name)}
if [ -z "$card" ]; then
    echo "gpu-check.sh: no NVIDIA card on this machine (nvidia-smi lists none); nothing was run" >&2
    exit 77
fi
mkdir -p "$out"
out=$(cd "$out" && pwd)
export HYDRA_GPU_CHECK_OUT="$out"
: > "$out/parts.jsonl"
rm -f "$out"/*.data.json "$out/gpu-check.json" "$out/gpu-check.txt"
start_s=$(date +%s)
budget_s=${HYDRA_GPU_CHECK_BUDGET_S:-$gpu_budget_s}
driver=$(gpu_query driver_version)

# One JSON document of what is known by now; written beside and moved, so that there is a
# whole one at any time.
write_json() {
    {
        printf '{"card": "%s",\n "driver": "%s",\n "machine": "%s",\n "started": "%s",\n "seconds": %s,\n "complete": %s,\n "parts": [' \
            "$(gpu_text "$card")" "$(gpu_text "$driver")" \
            "$(gpu_text "$(gpu_machine)")" "$(date -u -d "@$start_s" +%Y-%m-%dT%H:%M:%SZ)" \
            "$(($(date +%s) - start_s))" "$1"
        comma=
        while IFS="$(printf '\t')" read -r name result seconds limit why; do
            printf '%s\n  {"part": "%s", "result": "%s", "seconds": %s, "limit_s": %s, "why": "%s", "log": "%s.log"' \
                "$comma" "$name" "$result" "$seconds" "$limit" "$(gpu_text "$why")" "$name"
            if [ -s "$out/$name.data.json" ]; then
                printf ', "data": '
                cat "$out/$name.data.json"
            fi
            printf '}'
            comma=,
        done < "$out/parts.jsonl"
        printf '\n ]}\n'
    } > "$out/gpu-check.json.new"
    mv "$out/gpu-check.json.new" "$out/gpu-check.json"
}

bad=0
run_part() {
    name=$1
    limit=${HYDRA_GPU_CHECK_LIMIT_S:-$(gpu_limit_s "$name")}
    left=$((budget_s - ($(date +%s) - start_s)))
    [ "$limit" -le "$left" ] || limit=$left
    result=passed
    why=
    from=$(date +%s)
    rc=0
    if [ "$limit" -le 0 ]; then
        result=timeout
        why='no time was left for it'
        limit=0
        : > "$out/$name.log"
    else
        printf '%-12s ... (at most %s s)\n' "$name" "$limit"
        # In the background, so that a signal is heard at once.
        timeout --kill-after=5 "$limit" sh "$here/gpu-check.sh" --run-part "$name" \
            > "$out/$name.log" 2>&1 &
        child=$!
        wait $child || rc=$?
        child=
        case $rc in
        0) ;;
        77)
            result=skipped
            why=$(sed -n 's/^SKIPPED: //p' "$out/$name.log" | tail -n 1)
            ;;
        124 | 137)
            result=timeout
            why="ended after $limit s"
            ;;
        *)
            result=failed
            why=$(tail -n 1 "$out/$name.log")
            ;;
        esac
    fi
    case $result in failed | timeout) bad=1 ;; esac
    printf '%s\t%s\t%s\t%s\t%s\n' "$name" "$result" "$(($(date +%s) - from))" "$limit" \
        "$(printf '%s' "$why" | tr '\t\n' '  ')" >> "$out/parts.jsonl"
    write_json false
    printf '%-12s %-8s %4s s  %s\n' "$name" "$result" "$(($(date +%s) - from))" "$why"
}

echo "GPU check on $card, $(gpu_machine)"
child=
# shellcheck disable=SC2317  # the trap calls it
interrupted() {
    [ -z "$child" ] || kill "$child" 2> /dev/null || true
    write_json false
    echo "interrupted; what was found: $out/gpu-check.json" >&2
    exit 130
}
trap interrupted INT TERM HUP
for part in $parts; do
    run_part "$part"
done
write_json true
{
    echo "GPU check, $card, driver $driver, $(gpu_machine)"
    printf '%-12s %-8s %8s  %s\n' part result seconds note
    while IFS="$(printf '\t')" read -r name result seconds _ why; do
        printf '%-12s %-8s %8s  %s\n' "$name" "$result" "$seconds" "$why"
    done < "$out/parts.jsonl"
    gpu_tables
} > "$out/gpu-check.txt"
echo
cat "$out/gpu-check.txt"
echo "written: $out/gpu-check.json and $out/gpu-check.txt"
exit $bad
