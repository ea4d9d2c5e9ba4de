#!/bin/sh
# format.sh - fail when clang-format would change a file of ours.
set -eu
command -v clang-format > /dev/null || { echo "SKIPPED: no clang-format"; exit 77; }
# Other versions judge otherwise; this is Debian 12's.
clang-format --version | grep -q 'version 14\.' || { echo "SKIPPED: clang-format is not version 14"; exit 77; }
git ls-files --cached --others --exclude-standard '*.c' '*.h' | grep -v '^build' |
    xargs clang-format --dry-run --Werror
