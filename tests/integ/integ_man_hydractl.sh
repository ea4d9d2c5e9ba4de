#!/bin/sh
# integ_man_hydractl.sh - the man page names every command and option of hydractl, and no
# other. Options come from each command's --help.
set -eu
page=deploy/man/hydractl.1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
tool=${HYDRA_BIN_DIR:?}/hydractl
"$tool" --help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p' > "$tmp/commands"
while read -r command; do
    grep -q "^\.It Cm $command\b" "$page" || { echo "command $command is not in $page"; exit 1; }
    if [ "$command" = job ]; then
        for verb in open list show close; do
            "$tool" job "$verb" --help
        done
    else
        "$tool" "$command" --help
    fi
done < "$tmp/commands" > "$tmp/help"
grep -oE '^ +(-[a-zA-Z], )?--[a-z-]+' "$tmp/help" | grep -oE -- '--[a-z-]+' | sort -u > "$tmp/tool"
grep -oE '^\.It Fl ([a-zA-Z] , )?-[a-z-]+' "$page" | grep -oE -- '-[a-z-]+$' | sed 's/^/-/' |
    sort -u > "$tmp/page"
[ "$(wc -l < "$tmp/tool")" -gt 40 ] || { echo "only $(wc -l < "$tmp/tool") options found"; exit 1; }
diff "$tmp/tool" "$tmp/page" || { echo "< only in --help, > only in $page"; exit 1; }
