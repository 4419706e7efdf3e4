#!/usr/bin/env bash
# The whole pipeline on this machine: installs what is missing, builds, runs `tollway demo`.
#
#   Deploy/demo.sh [--tokens N] [--seed S] [-o json] ...    see tollway demo --help
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
# shellcheck source=Deploy/dependencies.sh
. "$here/dependencies.sh"

require_swift
mapfile -t missing < <(missing_libraries)
install_packages "${missing[@]}"

# A build of what is built already takes seconds, so it is left out where no source is newer.
built="$root/.build/release"
stamp="$built/demo.stamp"
if [ ! -x "$built/tollway" ] || [ ! -e "$stamp" ] ||
    [ -n "$(find "$root/Package.swift" "$root/Sources" -newer "$stamp" -print -quit)" ]; then
    began=$(mktemp)
    echo "building in release mode; the first time takes some minutes" >&2
    swift build --package-path "$root" -c release >&2
    # The time before the build: what was saved while it ran is newer.
    touch -r "$began" "$stamp"
    rm -f "$began"
fi

exec "$built/tollway" demo "$@"
