# processes.sh - ending what a script has started. Sourced by demo.sh and gpu-check.sh.
# shellcheck shell=sh

# hydra_end SECONDS PID...: asks all to end; what does not within the time is killed.
hydra_end() {
    hydra_tries=$(($1 * 10))
    shift
    for pid in "$@"; do
        kill "$pid" 2> /dev/null || true
    done
    for pid in "$@"; do
        while kill -0 "$pid" 2> /dev/null && [ "$hydra_tries" -gt 0 ]; do
            sleep 0.1
            hydra_tries=$((hydra_tries - 1))
        done
        kill -9 "$pid" 2> /dev/null || true
        wait "$pid" 2> /dev/null || true
    done
}
