#!/bin/sh
# units.sh - systemd accepts the units, and their sandbox is as tight as it was.
set -eu
command -v systemd-analyze > /dev/null || { echo "SKIPPED: no systemd-analyze"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# The programs are not installed here: stand-ins, so that only the units are judged.
for unit in deploy/systemd/*.service; do
    sed "s,/usr/bin/hydra-[a-z]*,/bin/true,; s,^User=.*,User=root,; s,^Group=.*,Group=root," \
        "$unit" > "$tmp/$(basename "$unit")"
done
cp "$tmp/hydra-worker@.service" "$tmp/hydra-worker@job.service"
SYSTEMD_LOG_LEVEL=warning systemd-analyze verify --man=no \
    "$tmp/hydra-schedd.service" "$tmp/hydra-worker@job.service" > "$tmp/log" 2>&1 || true
# A machine without a running systemd cannot look at other units: those lines are not ours.
if grep -E 'hydra-(schedd|worker)' "$tmp/log"; then exit 1; fi
systemd-analyze security --offline=true --threshold=20 "$tmp/hydra-schedd.service" \
    > "$tmp/security" || { tail -n 3 "$tmp/security"; exit 1; }
tail -n 1 "$tmp/security"
