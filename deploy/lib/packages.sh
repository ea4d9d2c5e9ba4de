# packages.sh - what a machine needs, and getting it. Sourced by demo.sh and test.sh.
# shellcheck shell=sh
#
# hydra_packages run|test: on Debian 12+ and Ubuntu 24.04+ installs what is missing, after
# saying what and why; elsewhere names what is missing and stops.

# package|why; `run` builds and runs the product, `test` adds what the tests use.
hydra_package_list() {
    cat <<'LIST'
run|gcc|C compiler
run|libc6-dev|C library headers
run|cmake|build
run|ninja-build|build
run|pkg-config|build: finds the libraries
run|git|build: names the version
run|libgrpc-dev|remote calls (gRPC C core)
run|protobuf-compiler|message definitions
run|protobuf-c-compiler|messages in C
run|libprotobuf-c-dev|messages in C
run|libprotobuf-dev|definitions of well-known messages
run|libuv1-dev|event loop
run|libucx-dev|communication between ranks on CPUs
run|libjansson-dev|JSON
run|libinih-dev|configuration files
run|libsqlite3-dev|the daemon's journal
run|libmicrohttpd-dev|metrics and the inspection page
run|libxxhash-dev|fingerprints of plans
test|libcmocka-dev|unit tests
test|clang|second compiler
test|clang-tidy|static analysis
test|clang-format|form of the code
test|libclang-rt-dev|fuzzers
test|shellcheck|lint of scripts
test|mandoc|lint of man pages
test|python3|third-party gRPC clients in tests
test|python3-venv|third-party gRPC clients in tests
test|python3-grpcio|third-party gRPC client in tests
test|python3-protobuf|third-party gRPC client in tests
test|protobuf-compiler-grpc|stubs of that client
test|openssl|certificates for tests
test|libopenblas-dev|matrix product to compare the kernels with
test|procps|process checks in tests
test|chromium|the inspection page in a real browser
test|chromium-driver|drives that browser
LIST
}

hydra_say() {
    printf '%s\n' "$*" >&2
}

hydra_as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo > /dev/null 2>&1; then
        sudo "$@"
    else
        hydra_say "This needs root: install sudo, or run as root: $*"
        return 1
    fi
}

# Version of the system, or "" when it is neither Debian nor Ubuntu.
hydra_system_ok() {
    [ -r /etc/os-release ] || return 1
    # shellcheck disable=SC1091
    system=$(. /etc/os-release && printf '%s %s' "${ID:-} ${ID_LIKE:-}" "${VERSION_ID:-99}")
    version=${system##* }
    major=${version%%.*}
    case " $system " in
    *" ubuntu "*) [ "$major" -ge 24 ] ;;
    *" debian "*) [ "$major" -ge 12 ] ;;
    *) return 1 ;;
    esac
}

# A package, or another one that provides the same under a newer name.
hydra_has_package() {
    case $(dpkg-query -W -f '${Status}\n' "$1" 2> /dev/null) in
    *"install ok installed"*) return 0 ;;
    esac
    return 1
}

# Of these packages, those that this system has: a few are named after a version, and the
# tests that want one that is missing say so.
hydra_known_packages() {
    for package in $1; do
        if apt-cache show "$package" > /dev/null 2>&1; then
            printf ' %s' "$package"
        else
            hydra_say "  (this system has no package $package)"
        fi
    done
}

hydra_packages() {
    kinds=$1
    missing=
    reasons=
    if ! hydra_system_ok || ! command -v apt-get > /dev/null 2>&1; then
        hydra_packages_elsewhere
        return
    fi
    while IFS='|' read -r kind package why; do
        [ "$kind" = run ] || [ "$kinds" = test ] || continue
        if ! hydra_has_package "$package"; then
            missing="$missing $package"
            reasons="$reasons
  $package: $why"
        fi
    done <<LIST
$(hydra_package_list)
LIST
    [ -n "$missing" ] || return 0
    hydra_say "Installing packages that are missing here:$reasons"
    log=$(mktemp)
    hydra_as_root apt-get -q update > "$log" 2>&1 || true
    missing=$(hydra_known_packages "$missing")
    # shellcheck disable=SC2086  # one word a package
    if hydra_as_root env DEBIAN_FRONTEND=noninteractive \
            apt-get -q install -y --no-install-recommends $missing >> "$log" 2>&1; then
        rm -f "$log"
        return 0
    fi
    tail -n 20 "$log" >&2
    rm -f "$log"
    hydra_say "Installing failed; by hand: apt-get install$missing"
    return 1
}

# Other systems: name what is missing or too old, install nothing.
hydra_packages_elsewhere() {
    bad=0
    for tool in gcc cmake ninja pkg-config protoc git; do
        if ! command -v "$tool" > /dev/null 2>&1; then
            hydra_say "missing program: $tool"
            bad=1
        fi
    done
    command -v protoc-gen-c > /dev/null 2>&1 || command -v protoc-c > /dev/null 2>&1 || {
        hydra_say "missing program: protoc-gen-c (protobuf-c)"
        bad=1
    }
    for lib in 'libprotobuf-c >= 1.4.0' 'libuv >= 1.44' 'jansson >= 2.14' \
        'libxxhash >= 0.8' 'sqlite3 >= 3.40' 'libmicrohttpd >= 0.9.75' 'inih' \
        'ucx >= 1.13' 'grpc'; do
        if ! pkg-config --exists "$lib" 2> /dev/null; then
            hydra_say "missing or too old library: $lib"
            bad=1
        fi
    done
    if [ "$bad" -ne 0 ]; then
        hydra_say "This system is neither Debian 12+ nor Ubuntu 24.04+: install the above by hand, then run this again."
        return 1
    fi
}
