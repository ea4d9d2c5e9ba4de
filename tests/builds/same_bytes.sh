#!/bin/sh
# same_bytes.sh HYDRACTL_A HYDRACTL_B - both builds must plan the same bytes, for every
# policy, on made-up lengths. What is measured (time) is cut out before comparing.
set -eu
a=$1
b=$2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
"$a" mock --lognormal 8,1.2,64,200000 -n 1500 --seed 7 -o "$tmp/lengths" > /dev/null
"$b" mock --lognormal 8,1.2,64,200000 -n 1500 --seed 7 -o "$tmp/lengths.b" > /dev/null
cmp "$tmp/lengths" "$tmp/lengths.b"
n=0
for policy in $("$a" policies --json | python3 -c '
import json, sys
print(*[p["name"] for p in json.load(sys.stdin)["policies"]])'); do
    for ranks in 16 48; do
        ok=1
        "$a" plan "$tmp/lengths" --ranks $ranks --cap 16384 --pp 4 --policy "$policy" \
            --cp 16 --out "$tmp/a.json" > /dev/null 2> "$tmp/a.err" || ok=0
        "$b" plan "$tmp/lengths" --ranks $ranks --cap 16384 --pp 4 --policy "$policy" \
            --cp 16 --out "$tmp/b.json" > /dev/null 2> "$tmp/b.err" || true
        if [ $ok = 0 ]; then
            cmp "$tmp/a.err" "$tmp/b.err"
            continue
        fi
        for side in a b; do
            python3 - "$tmp/$side.json" > "$tmp/$side.pure" <<'PY'
import json, sys
plan = json.load(open(sys.argv[1]))
plan.pop("measured", None)
plan["figures"].pop("plan_time_s", None)
json.dump(plan, sys.stdout, sort_keys=True)
PY
        done
        cmp "$tmp/a.pure" "$tmp/b.pure" || { echo "$policy differs on $ranks ranks"; exit 1; }
        n=$((n + 1))
    done
done
echo "$n plans are byte-identical"
[ $n -ge 2 ]
