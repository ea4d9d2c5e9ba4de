#!/bin/sh
# integ_gpu_link.sh CUDA NCCL STUB - a hydra-worker that was linked with CUDA and NCCL starts
# where there is no driver, and where the driver is the toolkit's stub: it says what is
# missing, falls back to the CPU under `auto`, and refuses when cuda was asked for. A worker
# that was built without says that.
set -eu
cuda=$1
nccl=$2
stub=$3
worker=${HYDRA_BIN_DIR:?}/hydra-worker
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
bad=0

complain() {
    echo "$1"
    bad=1
}

# WANTED ARGS...: one line on stderr that matches, and exit code 1 or 2.
refused() {
    want=$1
    shift
    rc=0
    timeout 20 "$worker" --connect "unix:$tmp/none" --job j --node n --log-level error "$@" \
        > "$tmp/out" 2> "$tmp/err" || rc=$?
    [ "$rc" -eq 1 ] || [ "$rc" -eq 2 ] || complain "'$*' ended with $rc"
    [ "$(wc -l < "$tmp/err")" -eq 1 ] || complain "'$*' says more than a line: $(cat "$tmp/err")"
    grep -q "$want" "$tmp/err" || complain "'$*' does not say '$want': $(cat "$tmp/err")"
}

# With --compute auto the CPU is taken, and why is in the log.
falls_back() {
    timeout -s TERM 20 "$worker" --connect "unix:$tmp/none" --job j --node n --compute auto \
        2> "$tmp/log" &
    pid=$!
    tries=200
    until grep -q 'backends chosen' "$tmp/log" || [ $tries -eq 0 ]; do
        tries=$((tries - 1))
        sleep 0.05
    done
    kill "$pid" 2> /dev/null || true
    wait "$pid" || true
    grep -q '"backends chosen" compute=cpu' "$tmp/log" ||
        complain "auto did not take the CPU: $(cat "$tmp/log")"
    grep -q "\"compute passed over\" compute=cuda why='$1" "$tmp/log" ||
        complain "auto does not say '$1': $(cat "$tmp/log")"
}

if [ "$cuda" != ON ] || [ "$nccl" != ON ]; then
    refused "no compute backend 'cuda'" --compute cuda
    [ $bad -eq 0 ] || exit 1
    echo "SKIPPED: linking with CUDA and NCCL: this build has none (no toolkit, or HYDRA_GPU=OFF)"
    exit 77
fi
if ldd "$worker" | grep -q 'not found'; then
    complain "libraries are missing: $(ldd "$worker" | grep 'not found')"
fi
ldd "$worker" | grep -q libnccl || complain "hydra-worker is not linked with NCCL"
refused 'nccl cannot move host memory' --compute cpu --transport nccl
if [ -e /dev/nvidiactl ]; then
    echo "SKIPPED: starting without a driver: this machine has one"
    [ $bad -eq 0 ] || exit 1
    exit 77
fi
refused "compute 'cuda': no NVIDIA driver on this machine" --compute cuda
falls_back 'no NVIDIA driver on this machine'
if [ -e "$stub" ]; then
    ln -s "$stub" "$tmp/libcuda.so.1"
    LD_LIBRARY_PATH=$tmp
    export LD_LIBRARY_PATH
    refused "compute 'cuda': no NVIDIA driver" --compute cuda
    falls_back 'no NVIDIA driver'
    echo "checked without a driver and with the stub $stub"
fi
exit $bad
