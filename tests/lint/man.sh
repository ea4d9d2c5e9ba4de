#!/bin/sh
# man.sh - the man pages are clean mdoc.
set -eu
command -v mandoc > /dev/null || { echo "SKIPPED: no mandoc"; exit 77; }
set -- deploy/man/*.[1-8]
[ -e "$1" ] || { echo "no man pages in deploy/man"; exit 1; }
# Cross references to pages of this project are not installed while it is being built.
mandoc -Tlint -Wwarning "$@"
