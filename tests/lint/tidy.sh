#!/bin/sh
# tidy.sh - clang-tidy over every .c file of ours that the build compiles. The path-sensitive
# analyzer takes most of the time; it looks at the product, and not at the tests, whose
# assertions also expand to more statements than a reader sees.
set -eu
build=${HYDRA_BUILD_DIR:-build/test}
command -v clang-tidy > /dev/null || { echo "SKIPPED: no clang-tidy"; exit 77; }
# Other versions judge otherwise; this is Debian 12's.
clang-tidy --version | grep -q 'version 14\.' || { echo "SKIPPED: clang-tidy is not version 14"; exit 77; }
# Generated code is not ours to judge.
python3 - "$build" <<'PY'
import json, os, sys
build = os.path.abspath(sys.argv[1])
source = os.getcwd()
files = sorted({os.path.normpath(os.path.join(e["directory"], e["file"]))
                for e in json.load(open(os.path.join(build, "compile_commands.json")))})
ours = [f for f in files if f.startswith(source + "/") and not f.startswith(build + "/")]
tests = [f for f in ours if f.startswith(source + "/tests/")]
for name, part in (("tests", tests), ("product", [f for f in ours if f not in tests])):
    open(os.path.join(build, f"tidy.{name}"), "w").write("".join(f"{f}\n" for f in part))
PY
: > "$build/tidy.log"
bad=0
xargs -P "$(nproc)" -n 4 clang-tidy --quiet -p "$build" < "$build/tidy.product" \
    >> "$build/tidy.log" 2> "$build/tidy.err" || bad=1
xargs -P "$(nproc)" -n 8 clang-tidy --quiet -p "$build" --checks='-clang-analyzer-*,-readability-function-size' \
    < "$build/tidy.tests" >> "$build/tidy.log" 2>> "$build/tidy.err" || bad=1
if [ $bad -ne 0 ]; then
    grep -E 'error:|warning:' "$build/tidy.log" | sort -u | head -n 60
    exit 1
fi
echo "$(cat "$build/tidy.product" "$build/tidy.tests" | wc -l) files are clean"
