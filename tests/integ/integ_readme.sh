#!/bin/sh
# integ_readme.sh - the hydractl commands that the top README shows all run, in its order,
# and compare prints what is shown there (numbers and orders masked).
set -eu
bin=${HYDRA_BIN_DIR:?}
readme=$PWD/README.md
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

grep '^build/demo/bin/hydractl ' "$readme" | sed 's/ *#.*//' > commands
[ "$(wc -l < commands)" -ge 5 ] || { echo "README.md shows too few commands"; exit 1; }
while read -r tool words; do
    name=$(basename "$tool")
    # The words of the README, split as a shell does.
    # shellcheck disable=SC2086
    "$bin/$name" $words > "out.${words%% *}" 2> err || {
        echo "README.md: '$name $words' failed: $(cat err)"
        exit 1
    }
done < commands
for file in lengths plan.json plan.html; do
    [ -s "$file" ] || { echo "README.md's commands do not make $file"; exit 1; }
done

mask() {
    sed -E 's/(own ramp|hot-middle|native|ramp)/ORDER/; s/[0-9][0-9.,]*/N/g; s/ +/ /g; s/ $//'
}
# The table and what is said below it; plan ms and bars, which are for wide terminals, cut.
shown() {
    sed -n '/^policy  /,/^$/p; /^best: /,/as that$/p' "$1" | mask |
        sed -E 's/ plan ms$//; s/ N #+$//'
}
shown "$readme" | sed '/^```/d' > want
shown out.compare > got
[ "$(grep -c N want)" -ge 8 ] || { echo "README.md shows no table of compare"; exit 1; }
diff want got || { echo "README.md shows another table (<) than compare prints (>)"; exit 1; }
