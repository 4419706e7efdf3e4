#!/usr/bin/env bash
# Storms of faults on a real Kafka, round after round, for as long as asked.
#
#   KAFKA_HOME=/opt/kafka Deploy/chaos.sh --minutes 60 --seed 1
#   KAFKA_HOME=/opt/kafka Deploy/chaos.sh --minutes 60 --seed 1 --nodes 3
#
# Every round has the next seed, a Kafka of its own (one node or three) and the released programs.
# After each the account must close with Apple's side, every topic must hold what its source makes
# it hold, record for record, every store must be the fold of its changelog, and no transaction may
# be open. The first round that fails ends it and leaves its folder for the reader.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=Deploy/dependencies.sh
. "$here/dependencies.sh"
cd "$here/.."

minutes=10
seed=1
faults=45
nodes=1
kinds=
all_kinds=kill,killTwo,stop,pause,loseState,damageState,twin,scale,killReporter,killBroker

usage() {
    tollway_fail "usage: Deploy/chaos.sh [--minutes M] [--seed S] [--faults N in a round] [--nodes 1|3] [--kinds K,...]; kinds, one named twice being drawn twice as often: $all_kinds"
}

# number TEXT: a whole number above 0 that bash can count with.
number() {
    [[ $1 =~ ^[1-9][0-9]{0,8}$ ]] || usage
    echo "$1"
}

while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || usage
    case $1 in
        --minutes) minutes=$(number "$2") ;;
        --seed) seed=$(number "$2") ;;
        --faults) faults=$(number "$2") ;;
        --nodes) [[ $2 =~ ^[13]$ ]] || usage; nodes=$2 ;;
        --kinds) kinds=$2 ;;
        *) usage ;;
    esac
    shift 2
done

require_swift
[ -d "${KAFKA_HOME:-}/libs" ] || tollway_fail 'KAFKA_HOME names no Kafka: there is no libs folder in it'
command -v java >/dev/null || tollway_fail 'there is no java in the PATH (Debian: openjdk-17-jre-headless)'
mapfile -t missing < <(missing_libraries)
install_packages "${missing[@]}"

swift build -c release
swift build --build-tests
programs=$(swift build -c release --show-bin-path)
log=$(mktemp)
trap 'rm -f "$log"' EXIT

survived=0
rounds=0
until=$((SECONDS + minutes * 60))
while [ $SECONDS -lt $until ]; do
    if ! CHAOS_SEED=$seed CHAOS_FAULTS=$faults CHAOS_KINDS=$kinds CHAOS_NODES=$nodes \
        CHAOS_PROGRAMS=$programs \
        swift test --skip-build --filter 'told to Apple once' >"$log" 2>&1; then
        cat "$log"
        printf 'FAILED with seed %s, after %s faults survived in %s rounds\n' \
            "$seed" "$survived" "$rounds"
        exit 1
    fi
    line=$(grep -E '^seed [0-9]+: survived ' "$log") || {
        cat "$log"
        tollway_fail 'no storm ran'
    }
    echo "$line"
    grep -E '^audit: ' "$log"
    count=${line#*survived }
    survived=$((survived + ${count%% *}))
    rounds=$((rounds + 1))
    seed=$((seed + 1))
done
printf '%s faults survived in %s rounds\n' "$survived" "$rounds"
