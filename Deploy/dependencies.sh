# shellcheck shell=bash
# What a build needs from the distribution, installed where it is missing. Sourced, not run.

# pkg-config's name of a library and the Debian package that brings it, as in Package.swift.
tollway_libraries=(
    rdkafka:librdkafka-dev
    libcurl:libcurl4-openssl-dev
    libnghttp2:libnghttp2-dev
    libcrypto:libssl-dev
    libssl:libssl-dev
    libmicrohttpd:libmicrohttpd-dev
    rocksdb:librocksdb-dev
)

tollway_fail() {
    printf '%s\n' "$*" >&2
    exit 1
}

# require_swift: says where to get it; a compiler is not installed behind anybody's back.
require_swift() {
    command -v swift >/dev/null ||
        tollway_fail "swift is not in the PATH; Tollway needs Swift 6.2 or later (https://www.swift.org/install)"
}

# missing_libraries: one Debian package a line.
missing_libraries() {
    local entry
    if ! command -v pkg-config >/dev/null; then
        echo pkg-config
        for entry in "${tollway_libraries[@]}"; do
            echo "${entry#*:}"
        done
        return
    fi
    for entry in "${tollway_libraries[@]}"; do
        pkg-config --exists "${entry%%:*}" || echo "${entry#*:}"
    done
}

# install_packages PACKAGE...: by apt, as root or with sudo; fails with what to do by hand.
install_packages() {
    [ $# -gt 0 ] || return 0
    local as_root=()
    if ! command -v apt-get >/dev/null; then
        tollway_fail "missing: $*. This machine has no apt-get; install what gives you these Debian packages."
    fi
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null ||
            tollway_fail "missing: $*. You are not root and there is no sudo; have somebody run: apt-get install $*"
        as_root=(sudo)
    fi
    echo "installing $*" >&2
    "${as_root[@]}" apt-get update -q >&2 ||
        echo "the package lists could not be brought up to date; going on with those that are here" >&2
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y --no-install-recommends "$@" >&2 ||
        tollway_fail "could not be installed: $*. By hand: apt-get update && apt-get install $*"
}
