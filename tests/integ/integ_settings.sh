#!/bin/sh
# integ_settings.sh - what documents say of the daemon's settings is what it reads: the
# example file, the keys in hydra.conf(5), the flags in hydra-schedd(8), wrong values.
set -eu
schedd=${HYDRA_BIN_DIR:?}/hydra-schedd
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
bad=0

complain() {
    echo "$1"
    bad=1
}

"$schedd" --print-config > "$tmp/printed"
diff -u deploy/hydra.conf.example "$tmp/printed" ||
    complain "deploy/hydra.conf.example is not what --print-config prints"

sed -n 's/^\([a-z_]*\) =.*/\1/p' "$tmp/printed" | sort > "$tmp/keys"
sed -n '/^\.Ss /,/^\.Sh FILES/s/^\.It Va //p' deploy/man/hydra.conf.5 | sort > "$tmp/documented"
diff -u "$tmp/documented" "$tmp/keys" ||
    complain "the keys in hydra.conf(5) are not those of --print-config"

"$schedd" --help | sed -n 's/^  --\([a-z-]*\).*/\1/p' | sort > "$tmp/flags"
sed -n 's/^\.It Fl -\([a-z-]*\).*/\1/p' deploy/man/hydra-schedd.8 | while read -r flag; do
    grep -qx -e "$flag" "$tmp/flags" || echo "$flag"
done > "$tmp/unknown"
[ ! -s "$tmp/unknown" ] ||
    complain "hydra-schedd(8) names flags that --help does not: $(cat "$tmp/unknown")"

"$schedd" --config deploy/hydra.conf.example --check-config > /dev/null ||
    complain "the example file does not pass --check-config"

# Wrong settings: exit code 2, and one line that names the key and what would be right.
refused() {
    want=$1
    shift
    rc=0
    "$schedd" "$@" --check-config > "$tmp/out" 2> "$tmp/err" || rc=$?
    if [ "$rc" -ne 2 ] || [ "$(wc -l < "$tmp/err")" -ne 1 ]; then
        complain "'$*' ended with $rc: $(cat "$tmp/err")"
    fi
    grep -qe "$want" "$tmp/err" || complain "'$*' does not say '$want': $(cat "$tmp/err")"
}
printf '[plan]\nkeep_plan = 3\n' > "$tmp/typo.conf"
refused 'typo.conf:2.*keep_plan.*keep_plans' --config "$tmp/typo.conf"
refused 'plan-threads.*1 to 64' --plan-threads 0
refused 'drain-grace' --drain-grace 30
refused 'log-level.*error|warn|info|debug|trace' --log-level loud
refused 'no such\|nothing\|No such' --config "$tmp/nothing.conf"
refused 'listen.*loopback' --listen 0.0.0.0:7750
refused 'http.*loopback' --http 0.0.0.0:7751
refused 'http.*HOST:PORT' --http 127.0.0.1:99999
refused 'http.*HOST:PORT' --http 127.0.0.1
refused 'unix:PATH or HOST:PORT' --listen nowhere
refused 'tls_key.*missing' --tls-cert "$tmp/none.pem"
refused 'none.pem' --tls-cert "$tmp/none.pem" --tls-key "$tmp/none.key"
exit $bad
