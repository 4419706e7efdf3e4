#!/usr/bin/env bash
# Installs what is missing, builds, runs every test, and says what was skipped and why.
#
#   Deploy/test.sh                        everything but what needs a real Kafka
#   KAFKA_HOME=/opt/kafka Deploy/test.sh  that too; a folder with libs/, and Java in the PATH
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
# shellcheck source=Deploy/dependencies.sh
. "$here/dependencies.sh"
cd "$root"

# The suites that run through our C, for the sanitizers; those of Kafka and of the server run apart.
c_suites='CText|TokenWire|HTTPClient|Crypto|StateStore|AppStoreAPI'

# swift knows no UB sanitizer, so only clang is told; its run-time part is inside Address's.
sanitized=(
    --scratch-path .build/sanitized --sanitize=address
    -Xcc -fsanitize=undefined -Xcc -fno-sanitize-recover=undefined
)

# One that hangs ends here, and is named; the longest took 1,300 s on a busy machine.
test_seconds_max=2400
# By SIGINT, which swift hands on to the tests.
limited=(timeout --foreground --signal=INT --kill-after=60 "$test_seconds_max")

skipped=()
failed=()
issues=()
began=$SECONDS
log=$(mktemp)
beside_log=$(mktemp)
fuzz_log=$(mktemp)
beside=
# Told to end, the one in the background begins nothing more.
trap 'rm -f "$log" "$beside_log" "$fuzz_log"; [ -z "$beside" ] || kill "$beside" 2>/dev/null || true' EXIT

step() {
    printf '\n== %s (%d s)\n' "$1" $((SECONDS - began))
}

# run NAME COMMAND...: its output on the screen and in the log; a failure is kept for the end.
run() {
    local name=$1
    shift
    if ! "$@" 2>&1 | tee "$log"; then
        failed+=("$name")
        return 1
    fi
}

missing_tools() {
    command -v python3 >/dev/null || echo python3
    python3 -c 'import jsonschema' 2>/dev/null || echo python3-jsonschema
    python3 -c 'import yaml' 2>/dev/null || echo python3-yaml
    if ! has_validators && ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
        echo python3-venv
    fi
    command -v shellcheck >/dev/null || echo shellcheck
    command -v node >/dev/null || echo nodejs
}

# has_validators: whether Python has what the tests hold Protocols/ and the simulator against.
has_validators() {
    python3 -c 'import jsonschema, yaml, openapi_spec_validator, appstoreserverlibrary' 2>/dev/null
}

# add_validators: puts them beside the build, out of the way of the system's Python.
add_validators() {
    has_validators && return
    local python=.build/python
    [ -x "$python/bin/python3" ] || python3 -m venv --system-site-packages "$python" || return
    "$python/bin/python3" -m pip install -q --disable-pip-version-check \
        'jsonschema>=4.10,<5' 'PyYAML>=6,<7' 'openapi-spec-validator>=0.6,<1' \
        'app-store-server-library>=1.5,<4' || return
    PATH="$root/$python/bin:$PATH"
    export PATH
}

# test_run NAME ARGUMENT...: swift test without its line for every test; what failed is kept for the
# end, where it is seen first.
test_run() {
    local name=$1 code=0
    shift
    echo "this takes minutes; lines come at the end"
    "${limited[@]}" swift test "$@" >"$log" 2>&1 || code=$?
    test_result "$name" "$log" "$code"
}

# test_result NAME LOG CODE: says what a run of tests wrote, and keeps what failed.
test_result() {
    local name=$1 log=$2 code=$3 line
    if [ "$code" -ne 0 ]; then
        failed+=("$name")
        case $code in
        124 | 137)
            issues+=("$name did not end within $test_seconds_max s; these had begun:")
            while read -r line; do
                issues+=("  $line")
            done < <(begun_tests "$log" | head -n 20)
            ;;
        esac
        grep -vE '^[^ ]+ +(Test|Suite|Test case) .*(started|passed)' "$log" | tail -n 200 || true
        while read -r line; do
            issues+=("$line")
        done < <(grep -A 1 -E '^[^ ]+ +Test .* recorded an issue|error: ' "$log" | grep -vE '^--$' |
            cut -c 1-1000 | awk '!seen[$0]++' | head -n 20)
    fi
    grep -E '^[^ ]+ +Test run with ' "$log" || true
}

# keep_skipped LOG: the tests that a run left out, and why, for the end.
keep_skipped() {
    local line
    while read -r line; do
        skipped+=("$line")
    done < <(sed -nE 's/^[^ ]+ +(Test|Suite) (.*) skipped: (.*)$/\2: \3/p; s/^[^ ]+ +(Test|Suite) (.*) skipped\.?$/\2/p' "$1")
}

# begun_tests LOG: those without an end.
begun_tests() {
    awk '
        / Test case / { next }
        sub(/^[^ ]+ +Test /, "") {
            if (sub(/ started\.$/, "")) open[$0] = 1
            else if (sub(/( with [0-9]+ test cases?)? (passed|failed) after .*/, "")) delete open[$0]
        }
        END { for (name in open) print name }' "$1"
}

step 'what the build needs'
require_swift
mapfile -t missing < <(missing_libraries; missing_tools)
install_packages "${missing[@]}"
# For the client's tests on HTTP/2; not every distribution has it.
command -v nghttpd >/dev/null || (install_packages nghttp2-server) || true
add_validators || skipped+=("tests against Python's validators: pip could not install them")
swift --version 2>&1 | sed -n 1p
if [ -n "${KAFKA_HOME:-}" ] && ! command -v java >/dev/null; then
    skipped+=("tests on a real Kafka: KAFKA_HOME is set, and there is no java in the PATH (Debian: openjdk-17-jre-headless)")
    unset KAFKA_HOME
elif [ -z "${KAFKA_HOME:-}" ]; then
    skipped+=("tests on a real Kafka: KAFKA_HOME is not set")
fi

step 'build'
run build swift build --build-tests || tollway_fail 'FAILED: the build'

step 'format and scripts'
run format swift format lint --strict --parallel --recursive Package.swift Sources Tests || true
run shellcheck shellcheck Deploy/*.sh .ci/run || true
run 'what is deployed' Deploy/check.sh || true

# In two processes, past swift, which runs one at a time: most tests of the command wait for a program,
# and hold a thread of their process meanwhile.
step 'tests'
echo "this takes minutes; lines come at the end"
tests=$(swift build --show-bin-path)/tollwayPackageTests.xctest
"${limited[@]}" "$tests" --testing-library swift-testing --filter '^(Tollway|Bench)Tests\.' \
    >"$beside_log" 2>&1 &
beside=$!
code=0
"${limited[@]}" "$tests" --testing-library swift-testing --skip '^(System|Kafka|Tollway|Bench)Tests\.' \
    >"$log" 2>&1 || code=$?
test_result tests "$log" "$code"
keep_skipped "$log"
code=0
wait "$beside" || code=$?
beside=
test_result 'tests of the command' "$beside_log" "$code"
keep_skipped "$beside_log"

# Beside the tests of Kafka, which mostly wait: both take what these leave of the processors. What
# the fuzzing finds is kept, and the next run begins with it; what the build says is said by the one
# below, which does it again where it failed.
(
    renice -n 19 "$BASHPID" >/dev/null 2>&1 || true
    code=0
    "$here/fuzz.sh" --minutes 5 >"$fuzz_log" 2>&1 || code=$?
    swift build --build-tests "${sanitized[@]}" >/dev/null 2>&1 || true
    exit "$code"
) &
beside=$!

# One after the other: each has a Kafka of its own, and sessions that a busy machine would end.
step 'tests of Kafka, and fuzzing'
test_run 'Kafka tests' --skip-build --no-parallel --filter '^KafkaTests\.'
keep_skipped "$log"

fuzz_code=0
wait "$beside" || fuzz_code=$?
beside=
cat "$fuzz_log"
case $fuzz_code in
0) ;;
77) skipped+=("fuzzing: this Swift toolchain has no fuzzer") ;;
*) failed+=(fuzzing) ;;
esac

# Apart from the others: a storm starves whoever shares two cores with it.
step 'system tests'
test_run 'system tests' --skip-build --filter '^SystemTests\.'
keep_skipped "$log"

step 'our C under Address and UB sanitizers'
if run 'sanitizer build' swift build --build-tests "${sanitized[@]}" >/dev/null; then
    # Leaks at exit are those of libraries that keep their tables for the life of the process.
    # A real Kafka is slow and no business of theirs; what is skipped for that was run above.
    unset KAFKA_HOME
    export ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1
    # They print what they find themselves; Swift's own look at a crash reads their memory, and hangs.
    export SWIFT_BACKTRACE=enable=no
    test_run sanitizers --skip-build "${sanitized[@]}" --filter "($c_suites)Tests"
    # They have a thousand files open: Foundation reads past its memory where others start a process then.
    test_run 'sanitizers, server' --skip-build "${sanitized[@]}" --filter '^HTTPServerTests\.'
    # A few at a time, where swift can: those of the embedded broker mostly wait.
    at_once=(--no-parallel)
    if swift test --help-hidden | grep -e '--experimental-maximum-parallelization-width' >/dev/null; then
        at_once=(--experimental-maximum-parallelization-width 4)
    fi
    test_run 'sanitizers, Kafka' --skip-build "${sanitized[@]}" "${at_once[@]}" --filter '^KafkaTests\.'
else
    grep -E 'error:|warning:' "$log" | head -n 50 || tail -n 50 "$log"
fi

step 'summary'
if [ ${#skipped[@]} -gt 0 ]; then
    echo 'skipped:'
    printf '  %s\n' "${skipped[@]}" | sort -u
fi
if [ ${#failed[@]} -gt 0 ]; then
    [ ${#issues[@]} -eq 0 ] || printf '%s\n' "${issues[@]}"
    printf 'FAILED after %d s: %s\n' $((SECONDS - began)) "$(IFS=,; echo "${failed[*]}")"
    exit 1
fi
printf 'all passed after %d s\n' $((SECONDS - began))
