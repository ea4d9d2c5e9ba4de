#!/bin/sh
# size.sh - a file that grows past 500 lines wants to be two; debts are counted.
set -eu
bad=0
for file in $(git ls-files --cached --others --exclude-standard '*.c' '*.h' '*.cu'); do
    [ -f "$file" ] || continue
    lines=$(wc -l < "$file")
    if [ "$lines" -gt 500 ]; then
        echo "$file has $lines lines, at most 500"
        bad=1
    fi
done
debts=$(git grep -nE '\b(TODO|FIXME|XXX|HACK)\b' -- '*.c' '*.h' '*.cu' | wc -l)
if [ "$debts" -gt 20 ]; then
    echo "$debts TODO marks, at most 20"
    bad=1
fi
exit $bad
