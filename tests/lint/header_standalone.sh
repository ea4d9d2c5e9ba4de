#!/bin/sh
# header_standalone.sh - fail when a header of ours does not compile alone, with gcc and
# with clang. Generated headers must exist: give the build folder in HYDRA_BUILD_DIR.
set -eu
build=${HYDRA_BUILD_DIR:-build}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# The fake card's headers stand in for CUDA's and NCCL's where a machine has none.
flags="-std=c17 -D_GNU_SOURCE -I. -isystem $build -isystem $build/proto -idirafter tests/fake_gpu/include -Wall -Wextra -Wpedantic -Wstrict-prototypes -Werror -fsyntax-only"
bad=0
find common scheduler worker tests -name '*.h' -type f | sort > "$tmp/list"
for cc in gcc clang; do
    command -v "$cc" > /dev/null || { echo "SKIPPED: no $cc on this machine"; continue; }
    # cuDNN has no stand-in: its two headers are judged where it is installed.
    without='^$'
    # shellcheck disable=SC2086  # flags are words
    echo '#include <cudnn.h>' | "$cc" $flags -x c - 2> /dev/null || {
        echo "SKIPPED: no cudnn.h for $cc on this machine, so not cudnn_api.h and cudnn_graph.h"
        without='/cudnn_\(api\|graph\)\.h$'
    }
    grep -v "$without" "$tmp/list" > "$tmp/list.cc"
    while read -r header; do
        printf '#include "%s"\ntypedef int hyd_not_empty;\n' "$header" > "$tmp/one.c"
        # shellcheck disable=SC2086  # flags are words
        "$cc" $flags "$tmp/one.c" || { echo "$header does not compile alone with $cc"; bad=1; }
    done < "$tmp/list.cc"
done
exit $bad
