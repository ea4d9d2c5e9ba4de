#!/bin/sh
# integ_worker_cli.sh - hydra-worker's flags are those of its man page; wrong use is one
# line and exit code 2; printed programs of all ranks of a plan fit together.
set -eu
worker=${HYDRA_BIN_DIR:?}/hydra-worker
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
bad=0

complain() {
    echo "$1"
    bad=1
}

"$worker" --help | sed -n 's/^  \(-., \)\{0,1\}--\([a-z-]*\).*/\2/p' | sort -u > "$tmp/flags"
grep -e '^\.It Fl' deploy/man/hydra-worker.8 | grep -oe 'Fl -[a-z-]*' |
    sed 's/^Fl -//' | sort -u > "$tmp/documented"
printf 'version\n' >> "$tmp/flags" # stands behind --help
sort -u "$tmp/flags" -o "$tmp/flags"
diff -u "$tmp/documented" "$tmp/flags" ||
    complain "the flags in hydra-worker(8) are not those of --help"

refused() {
    want=$1
    shift
    rc=0
    "$worker" "$@" > "$tmp/out" 2> "$tmp/err" || rc=$?
    if [ "$rc" -ne 2 ] || [ "$(wc -l < "$tmp/err")" -ne 1 ]; then
        complain "'$*' ended with $rc: $(cat "$tmp/err")"
    fi
    grep -qe "$want" "$tmp/err" || complain "'$*' does not say '$want': $(cat "$tmp/err")"
}
refused 'job' --node a
refused 'node' --job j
refused 'ranks.*1 to 64' --job j --node a --ranks 65
refused 'compute.*auto|cpu|cuda' --job j --node a --compute tpu

cat > "$tmp/plan.json" << 'EOF'
{"version": 1, "ranks": 4, "lengths": [331, 5, 0, 127, 64],
 "microbatches": [
  {"groups": [{"ranks": [0, 1, 2, 3], "u": 2, "r": 2, "ids": [0, 1, 2]},
              {"ranks": [3, 0, 2], "u": 1, "r": 3, "ids": [3]}]},
  {"groups": [{"ranks": [2], "u": 1, "r": 1, "ids": [4]}]}]}
EOF
print_all() {
    for rank in 0 1 2 3; do
        "$worker" --print-program "$tmp/plan.json" --rank "$rank" --heads 8 --kv-heads 4 \
            --head-dim 64 "$@" > "$tmp/program.$rank"
    done
}

# What one rank sends another, the other receives: message by message, in order.
compare_all() {
    : > "$tmp/all"
    for a in 0 1 2 3; do
        for b in 0 1 2 3; do
            sed -n "s/^ *send \([0-9]*\) bytes to rank $b,.*/\1/p" "$tmp/program.$a" \
                > "$tmp/sent"
            sed -n "s/^ *recv \([0-9]*\) bytes from rank $a,.*/\1/p" "$tmp/program.$b" \
                > "$tmp/received"
            diff -u "$tmp/sent" "$tmp/received" || complain "ranks $a and $b disagree: $*"
            cat "$tmp/sent" >> "$tmp/all"
        done
    done
    [ "$(wc -l < "$tmp/all")" -gt 20 ] || complain "there are hardly any messages: $*"
}

# Bytes of messages to and from the blocks of a ring.
ring_bytes() {
    cat "$tmp"/program.? |
        sed -n 's/^ *send \([0-9]*\) bytes.*, \(k\|v\|ring\|acc\)[^ ]*$/\1/p' |
        awk '{ n += $1 } END { print n + 0 }'
}

print_all --window 16
compare_all --window 16
window=$(ring_bytes)
print_all --mask full
compare_all --mask full
full=$(ring_bytes)
print_all
compare_all
[ "$(ring_bytes)" -eq "$full" ] || complain "causal moves other keys than full"
if [ "$window" -eq 0 ] || [ "$window" -ge $((full / 4)) ]; then
    complain "a window of 16 moves $window of $full bytes around rings"
fi
grep -q 'microbatch 1: member 0 of 1 (u 1, r 1) on ranks 2; 64 rows of 4(64)' \
    "$tmp/program.2" || complain "rank 2's own sequence is missing"
# A sequence with most of the rows is cut by heads, two kv heads a member.
grep -q 'part 1 of 3: heads 2-3, kv heads 1-1 of 0(331)' "$tmp/program.0" ||
    complain "rank 0 does not show its parts: $(grep part "$tmp/program.0")"
if grep -q 'microbatch 1' "$tmp/program.0"; then
    complain "rank 0 runs what is rank 2's"
fi

refused 'mask.*auto|causal|full|window' --print-program "$tmp/plan.json" --mask sparse
refused 'window is 0 with --mask window' --print-program "$tmp/plan.json" --mask window
refused 'window is 9 with --mask full' --print-program "$tmp/plan.json" --mask full --window 9
refused 'rank is 4 of 4' --print-program "$tmp/plan.json" --rank 4
refused 'No such file\|nothing' --print-program "$tmp/nothing.json"
printf '{"ranks": 2}' > "$tmp/broken.json"
refused 'no plan' --print-program "$tmp/broken.json"
printf '{"ranks": 2, "lengths": [4], "microbatches": [{"groups": [{"ranks": [0], "u": 2, "r": 1, "ids": [0]}]}]}' \
    > "$tmp/wrong.json"
refused 'microbatch 0' --print-program "$tmp/wrong.json"
exit $bad
