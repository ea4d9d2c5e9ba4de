#!/bin/sh
# tidy.sh - clang-tidy over every .c file of ours that the build compiles.
set -eu
build=${HYDRA_BUILD_DIR:-build/test}
command -v clang-tidy > /dev/null || { echo "SKIPPED: no clang-tidy"; exit 77; }
# gcc's sanitizer flags mean nothing to clang-tidy's front end, and generated code is not
# ours to judge.
python3 - "$build" > "$build/tidy.list" <<'PY'
import json, os, sys
build = os.path.abspath(sys.argv[1])
source = os.getcwd()
files = sorted({os.path.normpath(os.path.join(e["directory"], e["file"]))
                for e in json.load(open(os.path.join(build, "compile_commands.json")))})
for name in files:
    if name.startswith(source + "/") and not name.startswith(build + "/"):
        print(name)
PY
xargs -P "$(nproc)" -n 4 clang-tidy --quiet -p "$build" < "$build/tidy.list" \
    > "$build/tidy.log" 2> "$build/tidy.err" || {
    grep -E 'error:|warning:' "$build/tidy.log" | sort -u | head -n 60
    exit 1
}
echo "$(wc -l < "$build/tidy.list") files are clean"
