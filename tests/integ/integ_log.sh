#!/bin/sh
# integ_log.sh - the daemon logs each step's plan with its degrees, and says when nothing is
# gained: equal sequences, or sequences that all need the whole pool; not otherwise. It takes
# all open files that it may have, and says when they are few.
set -eu
bin=${HYDRA_BIN_DIR:?}
tmp=$(mktemp -d)
trap 'kill "$daemon" 2> /dev/null || true; wait || true; rm -rf "$tmp"' EXIT
socket=unix:$tmp/schedd.sock
"$bin/hydra-schedd" --listen "$socket" 2> "$tmp/log" &
daemon=$!
i=0
until "$bin/hydractl" job list --connect "$socket" > /dev/null 2>&1; do
    i=$((i + 1))
    if [ "$i" -ge 100 ] || ! kill -0 "$daemon"; then
        cat "$tmp/log"
        exit 1
    fi
    sleep 0.1
done

# A line of the log with all these words, within 20 s.
logged() {
    i=0
    while :; do
        cp "$tmp/log" "$tmp/found"
        for word in "$@"; do
            grep -F -e "$word" "$tmp/found" > "$tmp/rest" || true
            mv "$tmp/rest" "$tmp/found"
        done
        [ ! -s "$tmp/found" ] || return 0
        i=$((i + 1))
        if [ "$i" -ge 200 ]; then
            echo "no line with: $*"
            cat "$tmp/log"
            exit 1
        fi
        sleep 0.1
    done
}

step() {
    "$bin/hydractl" submit train "$tmp/lengths" --connect "$socket" > /dev/null
}

"$bin/hydractl" job open train --run none --ranks 8 --cap 4096 --connect "$socket" > /dev/null
# 0: one long sequence among short ones; something is gained.
{ echo 30000; yes 700 | head -n 200; } > "$tmp/lengths"
step
logged '"step planned"' 'job=train step=0 policy=hydra sequences=201 tokens=170000' 'ranks=8' 'degrees='
# 1: all alike.
yes 4000 | head -n 64 > "$tmp/lengths"
step
logged '"step planned"' 'step=1 ' "degrees='1:64'"
logged '"nothing to gain"' 'step=1 ' "hint='nothing is gained: every policy within 1 %'"
# 2: each needs the pool.
yes 32700 | head -n 20 > "$tmp/lengths"
step
logged '"step planned"' 'step=2 ' "degrees='8:20' hint='one degree only: no short sequences at this cap'"
logged '"nothing to gain"' 'step=2 ' "hint='nothing is gained, one degree only: no short sequences at this cap'"
# Checks run in turn: that of step 0 is over.
if grep -F '"nothing to gain"' "$tmp/log" | grep -q 'step=0 '; then
    echo "step 0 gains something, the log denies it"
    cat "$tmp/log"
    exit 1
fi
kill "$daemon"
wait "$daemon"

prlimit --nofile=256: "$bin/hydra-schedd" --listen "$socket" 2> "$tmp/log" &
daemon=$!
logged '"listening"'
may=$(awk '/Max open files/ { print $4 == $5 }' "/proc/$daemon/limits")
if [ "$may" != 1 ]; then
    echo "it may open more files than it takes"
    exit 1
fi
kill "$daemon"
wait "$daemon"
prlimit --nofile=300 "$bin/hydra-schedd" --listen "$socket" 2> "$tmp/log" &
daemon=$!
logged '"few open files"' 'limit=300'
kill "$daemon"
wait "$daemon"
