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

# --- limits ---

# A part that does not listen is killed 5 s later.
# shellcheck disable=SC2016  # the inner shell's variables
sh -c 'root=. && . deploy/lib/gpu_parts.sh
    all=0
    for part in $gpu_all_parts; do
        all=$((all + $(gpu_limit_s "$part")))
    done
    [ "$all" -le "$gpu_budget_s" ] && [ $((gpu_budget_s + 5)) -lt 480 ]' ||
    complain "the parts' limits are more than eight minutes"

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

# A part that hears nothing but a kill, and what it started, end; what comes behind it gets
# the time that is left, and what there is no time for says so. nvidia-smi hangs, too.
program conform_compute << 'EOF'
echo "compute cuda 0 made up"
EOF
program gpu_order << 'EOF'
trap '' TERM INT HUP
(
    trap '' TERM INT HUP
    while :; do sleep 1; done
) &
echo $! > "$0.pid"
while :; do sleep 1; done
EOF
program nvidia-smi << 'EOF'
trap '' TERM INT HUP
while :; do sleep 1; done
EOF
from=$(date +%s)
PATH=$tmp/bin:$PATH HYDRA_GPU_CHECK_QUERY_S=1 HYDRA_GPU_CHECK_LIMIT_S=4 HYDRA_GPU_CHECK_BUDGET_S=9 \
    ends 1 'written: ' --out "$tmp/results" conformance order sharing timings
took=$(($(date +%s) - from))
rm "$tmp/bin/nvidia-smi"
holds '[x["part"] + " " + x["result"] for x in d["parts"]][:2]' \
    "['conformance passed', 'order timeout']"
holds 'p["timings"]["result"]' timeout
holds 'p["timings"]["why"]' 'no time was left for it'
holds 'd["complete"]' True
[ "$took" -le 40 ] || complain "a budget of 9 s took $took s"
tries=100
while kill -0 "$(cat "$tmp/bin/gpu_order.pid")" 2> /dev/null && [ $tries -gt 0 ]; do
    tries=$((tries - 1))
    sleep 0.05
done
[ $tries -gt 0 ] || complain "a part that hangs left something running"

# cuDNN's part: where there is none, where a shape is refused, where it is used.
program conform_compute << 'EOF'
[ "$HYDRA_TEST_FUSED" = cudnn ] || exit 9
echo "SKIPPED: compute cuda, isa auto: no cuDNN here: libcudnn.so.9 is missing"
EOF
ends 0 'no cuDNN here' --out "$tmp/results" cudnn
holds 'p["cudnn"]["result"]' skipped
program conform_compute << 'EOF'
echo "compute cuda 0 made up"
echo "device says: cudnn computes unmasked rectangles of d=64 heads=2 kv_heads=1"
echo "device says: cudnn is refused for d=80 heads=2 kv_heads=1: o is off"
EOF
ends 0 'hydra-schedd is not built' --out "$tmp/results" cudnn
holds 'p["cudnn"]["data"]' "{'shapes_used': 1, 'shapes_refused': 1, 'conformance': 'passed'}"
program conform_compute << 'EOF'
echo "o of a row is wrong"
exit 1
EOF
ends 1 'conform_compute failed' --out "$tmp/results" cudnn
holds 'p["cudnn"]["result"]' failed

rm -f "$tmp/bin/gpu_order.pid"

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

# --- a card that lacks shared memory, and a driver that is older than the build ---

HYDRA_EMU_SHARED_KIB=72 HYDRA_DTYPE=bf16 HYDRA_TEST='*_every_head_size' \
    "$tests/conform_cuda_compute" > "$tmp/text" 2>&1 ||
    complain "a head size that a card has no room for fails: $(cat "$tmp/text")"
grep -q '^SKIPPED: head size on ' "$tmp/text" || complain "a skipped head size is silent"

HYDRA_FAKE_DRIVER=12040 timeout -s TERM 20 "$tests/hydra-worker-fake-gpu" \
    --connect "unix:$tmp/none" --job j --node n --compute auto 2> "$tmp/text" &
pid=$!
tries=200
until grep -q 'backends chosen' "$tmp/text" || [ $tries -eq 0 ]; do
    tries=$((tries - 1))
    sleep 0.05
done
kill "$pid" 2> /dev/null || true
wait "$pid" || true
grep -q '"backends chosen" compute=cpu' "$tmp/text" ||
    complain "an old driver does not mean the CPU: $(cat "$tmp/text")"
grep -q "compute=cuda why='the driver speaks CUDA 12.4, this build needs 13.0" "$tmp/text" ||
    complain "an old driver is not said: $(cat "$tmp/text")"
rc=0
HYDRA_FAKE_DRIVER=12040 timeout 20 "$tests/hydra-worker-fake-gpu" --connect "unix:$tmp/none" \
    --job j --node n --compute cuda > "$tmp/text" 2>&1 || rc=$?
[ $rc -ne 0 ] || complain "cuda was taken with an old driver"
grep -q "the driver speaks CUDA 12.4" "$tmp/text" ||
    complain "cuda with an old driver: $rc, $(cat "$tmp/text")"

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

# The fake card has no cuDNN: the worker here has to be asked for it, and leaves it out.
rm "$tmp/bin/hydra-worker"
program hydra-worker << EOF
case "\$*" in
*'--fused cudnn') ;;
*) echo 'no --fused cudnn' >&2; exit 1 ;;
esac
options=
for word in "\$@"; do
    case \$word in --fused | cudnn) ;; *) options="\$options \$word" ;; esac
done
exec $tests/hydra-worker-fake-gpu \$options
EOF
program conform_compute << 'EOF'
echo "compute cuda 0 made up"
EOF
program hydra-bench << 'EOF'
[ "$*" = 'attn cuda 8192 unchecked cudnn --json' ] && echo '{"rows": [1]}'
EOF
ends 0 'written: ' --out "$tmp/results" cudnn
holds 'p["cudnn"]["data"]["agents"]' passed
holds 'p["cudnn"]["data"]["timings"]["rows"]' '[1]'
[ $bad -eq 0 ] || cat "$tmp"/results/*.log
exit $bad
