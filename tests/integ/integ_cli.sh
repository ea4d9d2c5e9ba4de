#!/bin/sh
# integ_cli.sh - hydractl as people run it: offline from text to a proved plan, and against a
# daemon from opening a job to closing it. Exit codes and one-line errors included.
set -eu
bin=${HYDRA_BIN_DIR:?}
tmp=$(mktemp -d)
daemon=
cleanup() {
    [ -z "$daemon" ] || kill "$daemon" 2> /dev/null || true
    [ -z "$daemon" ] || wait "$daemon" 2> /dev/null || true
    rm -rf "$tmp"
}
trap cleanup EXIT INT TERM
unset HYDRA_CONNECT
export NO_COLOR=1
cd "$tmp"

fail() {
    echo "FAILED: $*"
    [ ! -s out ] || { echo "--- out"; cat out; }
    [ ! -s err ] || { echo "--- err"; cat err; }
    exit 1
}

# run CODE WORDS...: hydractl must end with CODE; on failure with one line on err only.
run() {
    want=$1
    shift
    got=0
    "$bin/hydractl" "$@" > out 2> err || got=$?
    [ "$got" -eq "$want" ] || fail "hydractl $*: exit $got, not $want"
    if [ "$want" -ne 0 ] && [ "$(wc -l < err)" -ne 1 ]; then
        fail "hydractl $*: not one line on standard error"
    fi
}

# has FILE TEXT
has() {
    grep -qF -- "$2" "$1" || fail "no '$2' in $1"
}

# --- offline ---
mkdir text
i=0
while [ "$i" -lt 40 ]; do
    head -c $((200 + i * i * 40)) /dev/zero | tr '\0' 'x' > "text/$i"
    i=$((i + 1))
done
run 0 lengths text -o lengths
has out "tokens of 40 of 40 are an estimate"
[ "$(wc -l < lengths)" -eq 40 ] || fail "lengths has not 40 lines"

run 0 plan lengths --ranks 8 --cap 8192 --out plan.json
has out "proved"
run 0 plan lengths --ranks 8 --cap 8192 --json
grep -v '"measured"' out | sed 's/"plan_time_s": [^}]*//' > first
run 0 plan lengths --ranks 8 --cap 8192 --json
grep -v '"measured"' out | sed 's/"plan_time_s": [^}]*//' > second
cmp first second || fail "the same input gave other bytes"
run 0 check plan.json lengths
has out "proof         ok"
sed 's/"ids": \[\([0-9]*\)/"ids": [\1, \1/' plan.json > twice.json
run 1 check twice.json
has err "is in the plan twice"
run 0 compare lengths --ranks 8 --cap 8192
has out "best: "
run 0 policies
run 0 models
run 0 devices
"$bin/hydractl" devices h100 --json > mine.json
run 0 plan lengths --ranks 8 --cap 8192 --device mine.json
run 0 mock --lognormal 4096,1.1,1024,8192 -n 100 -o mock
[ "$(wc -l < mock)" -eq 100 ] || fail "mock has not 100 lines"

run 2 plan lengths --ranks 8
has err "hydractl plan: option '--cap TOKENS' is missing"
run 2 plan nothing --ranks 8 --cap 8192
has err "cannot read 'nothing'"
run 1 plan lengths --ranks 1 --cap 1024
if [ -c /dev/full ]; then
    got=0
    "$bin/hydractl" policies > /dev/full 2> err || got=$?
    [ "$got" -eq 2 ] || fail "policies on a full disk: exit $got, not 2"
    has err "cannot write to standard output: No space left on device"
    run 2 plan lengths --ranks 8 --cap 8192 --out /dev/full
    has err "'/dev/full': cannot write the JSON document: No space left on device"
fi
run 0 help plan
has out "Usage: hydractl plan"
run 0 plan -h
has out "Usage: hydractl plan"
run 2 plna
has err "did you mean 'plan'?"

# --- daemon ---
socket=unix:$tmp/schedd.sock
run 3 job list --connect "$socket"
has err "no daemon at $socket"

# The folder of the socket is made where it is missing, as /run/hydra is after a boot.
socket=unix:$tmp/run/schedd.sock
"$bin/hydra-schedd" --listen "$socket" > log 2>&1 &
daemon=$!
i=0
until "$bin/hydractl" job list --connect "$socket" > out 2> err; do
    i=$((i + 1))
    if [ "$i" -ge 100 ] || ! kill -0 "$daemon"; then
        cat log
        fail "the daemon does not answer"
    fi
    sleep 0.1
done
has out "no jobs; open one"
export HYDRA_CONNECT="$socket"

run 0 job open train --run none --ranks 8 --cap 8192 --pp 2 --set effort=2
has out "policy        hydra: effort=2"
has out "members       none, its trainer runs the plans itself"
run 0 job open train --run none --ranks 8 --cap 8192 --pp 2 --set effort=2
run 1 job open train --run none --ranks 4 --cap 8192 --pp 2 --set effort=2
has err "job 'train' is open with another pool.ranks: close it first, or take another name"
run 2 job open other --run none --ranks 8 --cap 8192 --pass forward
has err "option '--pass' is of a step: give it to 'hydractl submit'"
run 2 job open other --run none --ranks 8 --cap 8192 --policy best
run 2 job open bad/name --run none --ranks 8 --cap 8192
has err "bad/name"
run 0 job list
has out "train"
run 0 job show train --json
has out '"open": true'

"$bin/hydractl" watch train --count 2 > watched 2> watch_err &
watcher=$!
run 0 submit train lengths --out remote.json
has out "planned"
run 0 check remote.json lengths
has out "fingerprint   ok"
has out "figures       ok"
run 0 submit train lengths --pass forward --step 4 --json
has out '"state": "STEP_PLANNED"'
run 1 submit train mock --step 4
run 1 submit train mock --step 2
run 1 submit nobody lengths
# Forward passes have a cap of their own: cells hold what training could not.
run 0 job open scoring --run none --ranks 8 --cap 2048 --forward-cap 8192 --align 64
run 0 submit scoring lengths --out train.json
has train.json '"cap_tokens": 2048'
run 0 submit scoring lengths --pass forward --step 1 --out forward.json
has forward.json '"cap_tokens": 8192'
has forward.json '"pass": "forward"'
has forward.json '"align_tokens": 64'
for file in train forward; do
    run 0 check $file.json lengths
    has out "proof         ok"
    sed -n 's/.*"max_tokens": \([0-9]*\).*/\1/p' $file.json > most_$file
done
[ "$(cat most_train)" -le 2048 ] || fail "a training cell holds $(cat most_train) tokens"
[ "$(cat most_forward)" -gt 2048 ] || fail "no forward cell makes use of its cap"
run 0 job close scoring
# Stages of unequal cost: the daemon makes the plan that is made without one.
run 0 job open staged --run none --ranks 8 --cap 8192 --pp 4 --stages 1,1,1,1.5
run 0 job show staged
has out "pp 4 (stages cost 1 to 1.5)"
run 0 submit staged lengths --out staged.json
has staged.json '"stages": [1, 1, 1, 1.5]'
run 0 plan lengths --ranks 8 --cap 8192 --pp 4 --stages 1,1,1,1.5 --out local.json
[ "$(sed -n '/"fingerprint"/p' staged.json)" = "$(sed -n '/"fingerprint"/p' local.json)" ] ||
    fail "the daemon planned for other stages"
run 0 job close staged
wait "$watcher" || { cat watch_err; fail "watch failed"; }
has watched "job=train step=0 state=planned"
has watched "step=4 state=planned"
run 0 steps train
[ "$(wc -l < out)" -eq 3 ] || fail "steps are not a header and two lines"
run 0 steps train --from 1 --limit 1 --json
has out '"step": 4'
run 0 report train --json
has out '"more": false'
run 0 watch --count 1
has out "job=train state=open ranks=8 members=0 epoch=0 done=0 failed=0 last_step=4 predicted_balance="
run 2 watch --cells
run 0 workers
has out "no agents; start one"
run 1 drain train node7
# An answer that names what is missing is no missing daemon.
run 0 job open crew --ranks 8 --ranks-per-node 4 --cap 8192
run 0 workers crew
has out "no agents; start one: hydra-worker --connect $socket --job crew"
run 0 workers train
has out "its trainer runs the plans itself"
run 1 submit crew lengths
has err "of 8 ranks are missing: 0-7: start agents (hydra-worker), or open the job with --wait-members S"
run 1 job show nobody
has err "a known job (hydractl job list)"
run 0 job close train
run 0 job close crew
run 0 workers crew
has out "job crew is closed"
run 0 watch crew
has err "job crew is closed"
run 0 job list
has out "no jobs"
run 0 job list --all
has out "closed"

kill "$daemon"
wait "$daemon" || fail "the daemon ended with $?"
daemon=
run 3 steps train
echo "hydractl: offline and daemon commands do as they say"
