#!/usr/bin/env bash
# Storms of faults on a real Kafka, round after round, for as long as asked.
#
#   KAFKA_HOME=/opt/kafka Deploy/chaos.sh --minutes 60 --seed 1
#   KAFKA_HOME=/opt/kafka Deploy/chaos.sh --minutes 60 --seed 1 --nodes 3
#
#   --faults N    faults in one round (45)
#   --kinds K,…   which kinds; one that is named twice is drawn twice as often
#
# Every round has the next seed, a Kafka of its own (one node or three) and the released programs.
# Tokens and sales go in meanwhile. After each the accounts of both must close with Apple's side,
# every topic must hold what its source makes it hold, record for record, Apple's book of line items
# and ours must be equal item by item, every store must be the fold of its changelog, no sale may be
# held, Apple may have refused nothing, and no transaction may be open. What a single node leaves
# hanging is repaired with `tollway transactions repair` before faults strike again, and counted. The
# first round that fails ends it and leaves its folder for the reader (exit 1). Ctrl-C ends it, and
# takes everything away that it started (exit 130).
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
all_kinds=kill,killTwo,killInTransaction,stop,roll,pause,fence,loseState,damageState,twin,scale,killReporter,killBroker,pauseBroker,killTwoBrokers,rollBrokers,loseBroker,killMachine

refuse() {
    printf 'chaos.sh: %s\n' "$*" >&2
    exit 2
}

# number OPTION TEXT: a whole number above 0 that bash can count with.
number() {
    [[ $2 =~ ^[1-9][0-9]{0,8}$ ]] || refuse "$1 is \"$2\": a whole number above 0 is wanted"
    echo "$2"
}

while [ $# -gt 0 ]; do
    case $1 in
        -h | --help)
            sed -n '2,/^set /{/^#/{s/^# \{0,1\}//p}}' "${BASH_SOURCE[0]}"
            printf '\nKinds: %s\n' "$all_kinds"
            exit 0
            ;;
        --minutes | --seed | --faults | --nodes | --kinds)
            [ $# -gt 1 ] || refuse "$1 wants a value"
            ;;
        *) refuse "unknown: $1 (see --help)" ;;
    esac
    case $1 in
        --minutes) minutes=$(number "$1" "$2") ;;
        --seed) seed=$(number "$1" "$2") ;;
        --faults) faults=$(number "$1" "$2") ;;
        --nodes)
            [[ $2 =~ ^[13]$ ]] || refuse "--nodes is \"$2\": 1 or 3"
            nodes=$2
            ;;
        --kinds) kinds=$2 ;;
    esac
    shift 2
done
for kind in ${kinds//,/ }; do
    [[ ,$all_kinds, == *,"$kind",* ]] || refuse "--kinds has \"$kind\": one of $all_kinds"
done

require_swift
[ -d "${KAFKA_HOME:-}/libs" ] || tollway_fail 'KAFKA_HOME names no Kafka: there is no libs folder in it'
command -v java >/dev/null || tollway_fail 'there is no java in the PATH (Debian: openjdk-17-jre-headless)'
mapfile -t missing < <(missing_libraries)
install_packages "${missing[@]}"

swift build -c release
swift build --build-tests
# What runs is a copy: a build that somebody starts meanwhile changes nothing under it.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
released=$(swift build -c release --show-bin-path)
cp "$released"/tollway "$released"/tollway-{ingest,decode,dedupe,report,notifications,purchases} "$work"
cp "$(swift build --show-bin-path)/tollwayPackageTests.xctest" "$work/tests"
log=$work/log
round=
survived=0
rounds=0

# interrupted: the round is told once, and cleans up behind itself.
interrupted() {
    trap '' INT TERM
    if [ -n "$round" ]; then
        echo 'interrupted: the round is being ended' >&2
        kill -TERM "$round" 2>/dev/null || true
        wait "$round" || true
    fi
    printf '%s faults survived in %s rounds, and one that was not judged\n' "$survived" "$rounds"
    exit 130
}
trap interrupted INT TERM

until=$((SECONDS + minutes * 60))
while [ $SECONDS -lt $until ]; do
    printf 'seed %s: %s faults on %s node(s) of Kafka\n' "$seed" "$faults" "$nodes" >&2
    # In a session of its own: Ctrl-C is for this script, which passes it on.
    CHAOS_SEED=$seed CHAOS_FAULTS=$faults CHAOS_KINDS=$kinds CHAOS_NODES=$nodes \
        CHAOS_PROGRAMS=$work setsid \
        "$work/tests" --testing-library swift-testing --filter 'told to Apple once' >"$log" 2>&1 &
    round=$!
    if ! wait "$round"; then
        cat "$log"
        printf 'FAILED with seed %s, after %s faults survived in %s rounds\n' \
            "$seed" "$survived" "$rounds"
        exit 1
    fi
    round=
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
