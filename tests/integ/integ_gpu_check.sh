#!/bin/sh
# integ_gpu_check.sh - deploy/gpu-check.sh without a card: arguments, the message where there
# is none, a document that stays whole when parts pass, fail, hang, are skipped or the run is
# interrupted; and its parts with a scheduler, over a worker whose card is not there.
set -eu
check=deploy/gpu-check.sh
tests=${HYDRA_BUILD_DIR:?}/tests
bin=${HYDRA_BIN_DIR:?}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
bad=0

complain() {
    echo "$1"
    bad=1
}

# RC WANTED ARGS...
ends() {
    want_rc=$1
    want=$2
    shift 2
    rc=0
    sh $check "$@" > "$tmp/text" 2>&1 || rc=$?
    [ "$rc" -eq "$want_rc" ] || complain "'$*' ended with $rc, not $want_rc: $(cat "$tmp/text")"
    grep -q "$want" "$tmp/text" || complain "'$*' does not say '$want': $(cat "$tmp/text")"
}

# FILTER WANTED: a Python expression over the document `d`.
holds() {
    got=$(python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
p = {x["part"]: x for x in d["parts"]}
print(eval(sys.argv[2]))' "$tmp/results/gpu-check.json" "$1") || got="no document"
    [ "$got" = "$2" ] || complain "$1 is '$got', not '$2'"
}

ends 0 'usage: sh deploy/gpu-check.sh' --help
ends 2 "unknown part 'speed'" speed
ends 2 'usage:' --out
if [ ! -e /dev/nvidiactl ]; then
    ends 77 'no NVIDIA card on this machine' --out "$tmp/none"
    [ ! -e "$tmp/none" ] || complain "a run without a card left files"
fi

command -v python3 > /dev/null || { echo "SKIPPED: no python3 to read the documents with"; exit 77; }

# --- made-up programs: how the parts end ---

export HYDRA_GPU_CHECK_CARD='made-up "card" \1' HYDRA_GPU_CHECK_BIN="$tmp/bin"
mkdir "$tmp/bin"

program() {
    {
        echo '#!/bin/sh'
        cat
    } > "$tmp/bin/$1"
    chmod +x "$tmp/bin/$1"
}
program conform_compute_ops << 'EOF'
echo "compute cuda 0 made up"
EOF
program conform_compute << 'EOF'
echo "compute cuda 0 made up"
EOF
program conform_nccl << 'EOF'
echo 'rank 1: "byte 3" is	wrong'
exit 1
EOF
program gpu_order << 'EOF'
echo "SKIPPED: one card is not enough"
exit 77
EOF
# The second length hangs: the first is kept.
program hydra-bench << 'EOF'
[ "$3" = 8192 ] || exec sleep 60
cat << 'JSON'
{
 "bench": "attn cuda",
 "rows": [
  {
   "head_dim": 128,
   "tokens": 8192,
   "sequences": 4,
   "see": "causal",
   "forward": {
    "median_s": 0.01,
    "tflop_per_s": 301.25
   },
   "backward": {
    "median_s": 0.02,
    "tflop_per_s": 222.5
   }
  }
 ]
}
JSON
EOF
HYDRA_GPU_CHECK_LIMIT_S=6 ends 1 'written: ' --out "$tmp/results" \
    build conformance sharing order timings steps
holds 'd["card"]' 'made-up "card" \1'
holds 'd["complete"]' True
holds '[x["part"] + " " + x["result"] for x in d["parts"]]' \
    "['build skipped', 'conformance passed', 'sharing failed', 'order skipped', 'timings timeout', 'steps skipped']"
holds 'p["sharing"]["why"]' 'rank 1: "byte 3" is wrong'
holds 'p["order"]["why"]' 'one card is not enough'
holds 'p["steps"]["why"]' 'hydra-schedd is not built'
holds 'p["timings"]["limit_s"]' 6
holds 'p["timings"]["data"][0]["rows"][0]["forward"]["tflop_per_s"]' 301.25
grep -q '^ *8192 *causal *301.2 *222.5$' "$tmp/results/gpu-check.txt" ||
    complain "the table lacks the row: $(cat "$tmp/results/gpu-check.txt")"

# A card that the conformance tests skipped is not a pass.
program conform_compute << 'EOF'
echo "SKIPPED: compute cuda, isa auto: no NVIDIA driver"
EOF
ends 1 'left the card out' --out "$tmp/results" conformance
holds 'p["conformance"]["result"]' failed

# Interrupted in the second part: the first is in the document, which is whole.
program conform_compute << 'EOF'
echo "compute cuda 0 made up"
EOF
program gpu_order << 'EOF'
echo $$ > "$0.pid"
exec sleep 60
EOF
sh $check --out "$tmp/results" conformance order > "$tmp/text" 2>&1 &
pid=$!
tries=200
until [ -s "$tmp/bin/gpu_order.pid" ] || [ $tries -eq 0 ]; do
    tries=$((tries - 1))
    sleep 0.05
done
kill -TERM "$pid"
rc=0
wait "$pid" || rc=$?
tries=200
while kill -0 "$(cat "$tmp/bin/gpu_order.pid")" 2> /dev/null && [ $tries -gt 0 ]; do
    tries=$((tries - 1))
    sleep 0.05
done
[ $tries -gt 0 ] || complain "interrupted, it left its part running"
[ "$rc" -eq 130 ] || complain "interrupted, it ended with $rc"
holds 'd["complete"]' False
holds 'p["conformance"]["result"]' passed

# --- the parts that run the product, over the fake card ---

rm -f "$tmp"/bin/*
for name in hydra-schedd hydractl; do
    ln -s "$bin/$name" "$tmp/bin/$name"
done
ln -s "$tests/hydra-worker-fake-gpu" "$tmp/bin/hydra-worker"
ln -s "$tests/conform_nccl_fake" "$tmp/bin/conform_nccl"
# NCCL's double knows ranks of one process only.
export HYDRA_GPU_CHECK_AGENTS=1 HYDRA_GPU_CHECK_RANKS=4 HYDRA_GPU_CHECK_CAP=100 \
    HYDRA_GPU_CHECK_LENGTHS='130 60 50 7' HYDRA_GPU_CHECK_STEPS=1 HYDRA_GPU_CHECK_LIMIT_S=100
ends 0 'written: ' --out "$tmp/results" sharing agents steps
holds '[x["part"] + " " + x["result"] for x in d["parts"]]' \
    "['sharing passed', 'agents passed', 'steps passed']"
holds 'p["agents"]["data"] is not None' True
grep -q 'checked 4 by reference' "$tmp/results/agents.log" || complain "the agents checked nothing"
grep -q 'fake card' "$tmp/results/agents.log" || complain "the agents used another device"
[ $bad -eq 0 ] || cat "$tmp"/results/*.log
exit $bad
