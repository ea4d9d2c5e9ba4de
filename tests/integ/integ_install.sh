#!/bin/sh
# integ_install.sh - what `cmake --install` and the package leave on a machine works without this
# tree: programs, units that name them, and a trainer built against the installed library.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
usr=$tmp/usr
fail() {
    echo "FAILED: $*"
    exit 1
}

cmake --install "$HYDRA_BUILD_DIR" --prefix "$usr" > "$tmp/log" || fail "$(cat "$tmp/log")"
for program in hydra-schedd hydra-worker hydractl; do
    "$usr/bin/$program" --version > "$tmp/version" || fail "$program does not start"
    grep -q "$program [0-9]" "$tmp/version" || fail "$program says $(cat "$tmp/version")"
done
for unit in hydra-schedd.service hydra-worker@.service; do
    program=$(sed -n 's/^ExecStart=\([^ ]*\).*/\1/p' "$usr/lib/systemd/system/$unit")
    [ -x "$program" ] || fail "$unit starts '$program', which is not there"
done

# A trainer of somebody else: pkg-config, the installed headers and library, nothing of ours.
library=$(dirname "$(find "$usr" -name libhydra_agent.so)")
export PKG_CONFIG_PATH="$library/pkgconfig"
sanitize=$(sed -n 's/^HYDRA_SANITIZE:STRING=//p' "$HYDRA_BUILD_DIR/CMakeCache.txt")
cp "$usr/share/doc/hydra/example_trainer.c" "$tmp"
(
    cd "$tmp"
    # shellcheck disable=SC2046  # flags are words
    cc -std=c17 -Wall -Wextra -Werror ${sanitize:+-fsanitize=$sanitize} example_trainer.c \
        $(pkg-config --cflags --libs hydra_agent) -lm -o "$usr/bin/hydra-example-trainer"
) || fail "the example does not build against the installed library"
LD_LIBRARY_PATH=$library HYDRA_BIN_DIR=$usr/bin \
    HYDRA_TEST='an_example_trainer_gets_the_same_loss_from_any_plan' \
    "$HYDRA_BUILD_DIR/tests/integ_agent" > "$tmp/log" 2>&1 ||
    fail "the example does not run: $(cat "$tmp/log")"
grep -q "1 test(s) run" "$tmp/log" || fail "no trainer ran: $(cat "$tmp/log")"
nm -D --defined-only "$library/libhydra_agent.so" | awk '$3 !~ /^hyd_/ {print $3}' > "$tmp/foreign"
[ ! -s "$tmp/foreign" ] || fail "the library shows $(cat "$tmp/foreign")"

# The package has the same files below /usr, and its units say so.
if ! command -v dpkg-shlibdeps > /dev/null; then
    echo "no dpkg-shlibdeps here: the package was not made"
    exit 0
fi
(cd "$tmp" && cpack --config "$HYDRA_BUILD_DIR/CPackConfig.cmake" -B "$tmp/deb") \
    > "$tmp/log" 2>&1 || fail "$(cat "$tmp/log")"
dpkg-deb -x "$tmp"/deb/hydra_*.deb "$tmp/root"
grep -q '^ExecStart=/usr/bin/hydra-schedd ' "$tmp/root/usr/lib/systemd/system/hydra-schedd.service" ||
    fail "the package's unit does not start /usr/bin/hydra-schedd"
(cd "$usr" && find . ! -type d ! -name hydra-example-trainer | sort) > "$tmp/installed"
(cd "$tmp/root/usr" && find . ! -type d | sort) > "$tmp/packaged"
cmp "$tmp/installed" "$tmp/packaged" || fail "the package has other files than the installation"
echo "$(wc -l < "$tmp/packaged") files installed, packaged, and used by a trainer outside this tree"
