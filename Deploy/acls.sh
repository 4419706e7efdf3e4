#!/usr/bin/env bash
# The least rights in Kafka for each worker and for the operator. May be run again and again:
# what is there already is added to no effect. Takes nothing away.
#
#   Deploy/acls.sh                                        what would be done; nothing is
#   Deploy/acls.sh --bootstrap-server HOST:PORT --yes     does it
#
#   --prefix P           TOLLWAY_TOPIC_PREFIX (tollway.)
#   --principal FORM     of each worker; %s is its name (User:tollway-%s); TLS: 'User:CN=tollway-%s'
#   --command-config F   how kafka-acls.sh itself signs in
#   --only NAME          one of ingest decode dedupe report notifications purchases shop operator
#
# shop is a platform that writes its sales to purchases.received itself, and nothing else.
#
# KAFKA_ACLS names another kafka-acls.sh than that in the PATH; it may be several words.
set -euo pipefail

prefix=tollway.
principal='User:tollway-%s'
server=
config=
only=
is_real=no

fail() {
    printf 'acls.sh: %s\n' "$*" >&2
    exit 2
}

while [ $# -gt 0 ]; do
    case $1 in
        --yes)
            is_real=yes
            shift
            continue
            ;;
        -h | --help)
            sed -n '2,/^set /{/^#/{s/^# \{0,1\}//p}}' "${BASH_SOURCE[0]}"
            exit 0
            ;;
        --prefix | --principal | --command-config | --only | --bootstrap-server)
            [ $# -gt 1 ] || fail "$1 wants a value"
            ;;
        *) fail "unknown: $1 (see --help)" ;;
    esac
    case $1 in
        --prefix) prefix=$2 ;;
        --principal) principal=$2 ;;
        --command-config) config=$2 ;;
        --only) only=$2 ;;
        --bootstrap-server) server=$2 ;;
    esac
    shift 2
done
case $only in
    '' | ingest | decode | dedupe | report | notifications | purchases | shop | operator) ;;
    *) fail "--only is \"$only\": one of ingest decode dedupe report notifications purchases shop operator" ;;
esac
case $principal in
    User:*%s*) ;;
    *) fail "--principal is \"$principal\": it begins with User: and has %s where the name goes" ;;
esac
read -r -a tool <<<"${KAFKA_ACLS:-kafka-acls.sh}"
if [ "$is_real" = yes ]; then
    [ -n "$server" ] || fail '--yes wants --bootstrap-server'
    command -v "${tool[0]}" >/dev/null || fail "${tool[0]} is not in the PATH (KAFKA_ACLS names another)"
fi

# add NAME ARGUMENT...: one call of kafka-acls.sh for one principal.
add() {
    local who
    # shellcheck disable=SC2059  # the form is the user's, checked above
    who=$(printf "$principal" "$1")
    shift
    local call=("${tool[@]}" --bootstrap-server "${server:-HOST:PORT}")
    [ -z "$config" ] || call+=(--command-config "$config")
    call+=(--add --force --allow-principal "$who" "$@")
    if [ "$is_real" = yes ]; then
        "${call[@]}" >/dev/null || fail "refused: ${call[*]}"
        printf 'added: %s\n' "${call[*]:${#tool[@]}}"
    else
        printf '%q ' "${call[@]}"
        printf '\n'
    fi
}

# topics OPERATIONS NAME...: fills the arguments with topics and what may be done.
arguments=()
operations() {
    local operation
    for operation in $1; do
        arguments+=(--operation "$operation")
    done
}

# may NAME 'OPERATIONS' TOPIC...
may() {
    local name=$1 what=$2 topic
    shift 2
    arguments=()
    operations "$what"
    for topic in "$@"; do
        arguments+=(--topic "$topic")
    done
    add "$name" "${arguments[@]}"
}

# DescribeConfigs: to check at the start that a topic keeps what it must keep.
reads='Read Describe DescribeConfigs'
writes='Write Describe DescribeConfigs'
both='Read Write Describe DescribeConfigs'

# What every worker with a group needs: its group, its transactional ids, its dead letters.
worker() {
    local name=$1
    add "$name" --operation Read --operation Describe --group "$prefix$name"
    # <prefix><worker>-<INSTANCE>: by prefix, for there are as many as replicas.
    add "$name" --operation Write --operation Describe \
        --transactional-id "$prefix$name-" --resource-pattern-type prefixed
    may "$name" "$writes" "dlq.$prefix$name"
}

wanted() {
    [ -z "$only" ] || [ "$only" = "$1" ]
}

if wanted ingest; then
    may ingest "$writes" "${prefix}tokens.received.v1" "${prefix}notifications.received.v1" \
        "${prefix}account-tokens.requested.v1" "${prefix}purchases.received.v1"
fi
if wanted decode; then
    worker decode
    may decode "$reads" "${prefix}tokens.received.v1"
    may decode "$writes" "${prefix}tokens.decoded.v1" "${prefix}tokens.distinct.v1"
fi
if wanted dedupe; then
    worker dedupe
    may dedupe "$reads" "${prefix}tokens.decoded.v1" "${prefix}tokens.refused.v1"
    may dedupe "$writes" "${prefix}tokens.distinct.v1"
    may dedupe "$both" "${prefix}dedupe.state.v1"
fi
if wanted report; then
    worker report
    may report "$reads" "${prefix}tokens.distinct.v1" "${prefix}notifications.verified.v1" \
        "${prefix}reports.requested.v1" "${prefix}account-tokens.requested.v1" \
        "${prefix}lanes.control.v1"
    may report "$writes" "${prefix}reports.outcomes.v1" "${prefix}account-tokens.outcomes.v1" \
        "${prefix}purchases.answered.v1" "${prefix}tokens.refused.v1"
    may report "$both" "${prefix}report.state.v1"
    # The guard before UNRECOGNIZED_TOKEN: how far these topics reach, and how far others have read.
    may report Describe "${prefix}tokens.received.v1" "${prefix}tokens.decoded.v1"
    add report --operation Describe --group "${prefix}decode" --group "${prefix}dedupe"
fi
if wanted notifications; then
    worker notifications
    may notifications "$reads" "${prefix}notifications.received.v1"
    may notifications "$writes" "${prefix}notifications.verified.v1" \
        "${prefix}notifications.other.v1"
fi
if wanted purchases; then
    worker purchases
    may purchases "$reads" "${prefix}purchases.received.v1" "${prefix}tokens.decoded.v1" \
        "${prefix}tokens.refused.v1" "${prefix}purchases.answered.v1"
    may purchases "$writes" "${prefix}reports.requested.v1" "${prefix}purchases.outcomes.v1"
    may purchases "$both" "${prefix}purchases.state.v1"
fi
if wanted shop; then
    may shop 'Write Describe' "${prefix}purchases.received.v1"
fi
if wanted operator; then
    # The person at `tollway`: makes topics, reads everything, writes what goes back from dead letters.
    for pattern in "$prefix" "dlq.$prefix"; do
        add operator --operation Create --operation Read --operation Write --operation Describe \
            --operation DescribeConfigs --operation AlterConfigs \
            --topic "$pattern" --resource-pattern-type prefixed
    done
    add operator --operation Read --operation Describe \
        --group "$prefix" --resource-pattern-type prefixed
    # `tollway doctor`: whether Kafka keeps what commits rest upon as safely as our topics. No Read:
    # `tollway transactions` is User:ANONYMOUS (RUNBOOK.md).
    may operator 'Describe DescribeConfigs' __consumer_offsets __transaction_state
    # How long each broker keeps the positions of a group without members.
    add operator --operation DescribeConfigs --cluster
    add operator --operation Write --operation Describe \
        --transactional-id "$prefix" --resource-pattern-type prefixed
fi
[ "$is_real" = yes ] || echo 'nothing was changed: --bootstrap-server HOST:PORT --yes does it' >&2
