#!/bin/sh
# shell.sh - shellcheck over every script of ours. Single quotes around awk programs are
# meant (SC2016).
set -eu
command -v shellcheck > /dev/null || { echo "SKIPPED: no shellcheck"; exit 77; }
git ls-files --cached --others --exclude-standard '*.sh' .ci/run |
    xargs shellcheck --exclude=SC2016
