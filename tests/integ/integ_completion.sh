#!/bin/bash
# integ_completion.sh - the bash completion offers hydractl's own commands, options and words.
set -eu
PATH=${HYDRA_BIN_DIR:?}:$PATH
# shellcheck source=/dev/null
. deploy/completion/hydractl

# expect WANT WORDS...: completing the last word gives all of WANT.
expect() {
    want=$1
    shift
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    _hydractl
    for word in $want; do
        printf '%s\n' "${COMPREPLY[@]}" | grep -qxF -- "$word" || {
            echo "FAILED: '$*' does not offer '$word' but: ${COMPREPLY[*]}"
            exit 1
        }
    done
}

expect "plan compare help" hydractl ""
expect "policies" hydractl po
[ "${#COMPREPLY[@]}" -eq 1 ] || { echo "FAILED: po gives ${COMPREPLY[*]}"; exit 1; }
expect "open close" hydractl job ""
expect "--ranks --ranks-per-node" hydractl plan --ran
expect "--run --verify" hydractl job open x --
expect "auto mixed exclusive" hydractl plan lengths --cells ""
expect "exclusive" hydractl plan lengths --cells = ex
expect "tile pow2 any" hydractl compare --degrees =
expect "agents none" hydractl job open x --run ""
expect "hydra megatron dp-balanced" hydractl plan --policy ""
expect "llama-8b" hydractl plan --model llama-8
expect "h100 a100" hydractl plan --device ""
expect "deploy" hydractl check dep
echo "commands, options, words of choices and files are completed"
