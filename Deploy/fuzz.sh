#!/usr/bin/env bash
# Builds the fuzz targets of Tests/FuzzTests with coverage and the address sanitizer, and runs them.
#
#   Deploy/fuzz.sh --minutes 5                   all targets, as many at once as there are cores
#   Deploy/fuzz.sh --minutes 60 --target wire    one of them
#   Deploy/fuzz.sh --minutes 5 --seed 7          from a seed: libFuzzer makes up the same inputs
#
# Ends with 1 where an input broke a rule or crashed: it is kept, and the command that reads it again
# is printed. Ends with 77 where the toolchain has no fuzzer. What a run finds is kept in .build/fuzz/
# and taken up by the next; what is worth keeping for good goes into Tests/FuzzTests/Corpora.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
# shellcheck source=Deploy/dependencies.sh
. "$here/dependencies.sh"
cd "$root"

work=.build/fuzz
program=$work/build/release/tollway-fuzz
corpora=Tests/FuzzTests/Corpora
exit_skipped=77

usage() {
    tollway_fail "usage: Deploy/fuzz.sh --minutes N [--target NAME] [--seed N]; targets: ${targets[*]}"
}

mapfile -t targets < <(cd "$corpora" && ls)
minutes=
seed=0
while [ $# -gt 1 ]; do
    case $1 in
    --minutes) minutes=$2 ;;
    --seed) seed=$2 ;;
    --target)
        [ -d "$corpora/$2" ] || usage
        targets=("$2")
        ;;
    *) usage ;;
    esac
    shift 2
done
[[ $# -eq 0 && $minutes =~ ^[1-9][0-9]*$ && $seed =~ ^[0-9]+$ ]] || usage

# fuzzer_library: libFuzzer without a main of its own, beside Swift's own clang.
fuzzer_library() {
    local resources
    resources=$(swiftc -print-target-info |
        sed -n 's/.*"runtimeResourcePath": "\(.*\)".*/\1/p')
    # Not found is no failure: then the build is skipped.
    { find "$(dirname "$resources")"/clang -name 'libclang_rt.fuzzer_no_main*' || true; } |
        { grep "$(uname -m)" || true; } | head -n 1
}

# build LIBRARY: release, for speed; a build of its own, as everything in it counts its branches.
build() {
    local coverage=edge,inline-8bit-counters,pc-table,trace-cmp
    local options=(
        -c release --product tollway-fuzz --scratch-path "$work/build" --sanitize address
        -Xswiftc -enable-testing
        -Xswiftc "-sanitize-coverage=$coverage"
        -Xcc '-fsanitize=fuzzer-no-link'
        -Xlinker "$1" -Xlinker -lstdc++
    )
    TOLLWAY_FUZZ=1 swift build "${options[@]}" >"$work/build.log" 2>&1 || {
        tail -n 40 "$work/build.log" >&2
        tollway_fail 'FAILED: the build of the fuzz targets'
    }
}

# fuzz TARGET SECONDS: its log is $work/log/TARGET.
fuzz() {
    local target=$1 options
    mkdir -p "$work/corpus/$target" "$work/crashes/$target"
    options=(
        "--target=$target" "-max_total_time=$2" "-seed=$seed" -max_len=4096 -timeout=120
        -rss_limit_mb=4096 -reload=0 -print_funcs=0 -print_final_stats=1
        "-artifact_prefix=$work/crashes/$target/"
    )
    # Swift's own backtrace would take a minute; libFuzzer prints one.
    ASAN_OPTIONS=detect_leaks=0 SWIFT_BACKTRACE=enable=no "$program" "${options[@]}" \
        "$work/corpus/$target" "$corpora/$target" >"$work/log/$target" 2>&1
}

# stat TARGET NAME: a number that libFuzzer gave at the end.
stat_of() {
    sed -n "s/^stat::$2: *//p" "$work/log/$1"
}

# report TARGET EXIT
report() {
    local target=$1 reached input
    # Nothing is reached where an input of the corpus crashes at once.
    reached=$({ grep -aoE 'cov: [0-9]+ ft: [0-9]+' "$work/log/$target" || true; } | tail -n 1)
    printf '%-12s %11s runs, %7s a second, %5s branches, %5s features, %4s new inputs\n' \
        "$target" "$(stat_of "$target" number_of_executed_units)" \
        "$(stat_of "$target" average_exec_per_sec)" \
        "$(cut -d ' ' -f 2 <<<"$reached")" "$(cut -d ' ' -f 4 <<<"$reached")" \
        "$(stat_of "$target" new_units_added)"
    [ "$2" -ne 0 ] || return 0
    { grep -aE 'Fatal error|ERROR: ' "$work/log/$target" || true; } | head -n 3
    input=$(sed -nE 's/.*Test unit written to //p' "$work/log/$target" | tail -n 1)
    if [ -n "$input" ]; then
        echo "  $input"
        echo "  SWIFT_BACKTRACE=enable=no $program --target=$target $input"
    else
        tail -n 5 "$work/log/$target"
    fi
    failed+=("$target")
}

require_swift
mapfile -t missing < <(missing_libraries)
install_packages "${missing[@]}"
library=$(fuzzer_library)
if [ -z "$library" ]; then
    echo "skipped: this Swift toolchain has no libclang_rt.fuzzer_no_main for $(uname -m)" >&2
    exit $exit_skipped
fi
mkdir -p "$work/log"
began=$SECONDS
build "$library"
echo "built in $((SECONDS - began)) s"

cores=$(nproc)
rounds=$(((${#targets[@]} + cores - 1) / cores))
seconds=$((minutes * 60 / rounds))
echo "${#targets[@]} targets on $cores cores, each for $seconds s"

failed=()
declare -A running=()
next=0
while [ $next -lt ${#targets[@]} ] || [ ${#running[@]} -gt 0 ]; do
    while [ $next -lt ${#targets[@]} ] && [ ${#running[@]} -lt "$cores" ]; do
        fuzz "${targets[next]}" "$seconds" &
        running[$!]=${targets[next]}
        next=$((next + 1))
    done
    code=0
    wait -n -p ended || code=$?
    report "${running[$ended]}" $code
    unset "running[$ended]"
done

if [ ${#failed[@]} -gt 0 ]; then
    echo "FAILED: ${failed[*]}"
    exit 1
fi
