#!/usr/bin/env bash
# Whether what lies in this folder is valid, as far as the tools at hand can tell, and which checks
# were left out and why. Runs nothing and changes nothing.
#
#   Deploy/check.sh
#
# Debian: apt-get install prometheus shellcheck python3-yaml. Elsewhere: hadolint, kubectl (or kustomize),
# kubeconform (or kubernetes-validate), check-jsonschema.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
cd "$root"

skipped=()
failed=()
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# check NAME COMMAND...: one line where it is well, its output where it is not.
check() {
    local name=$1
    shift
    if "$@" >"$work/output" 2>&1; then
        printf 'ok      %s\n' "$name"
    else
        printf 'FAILED  %s\n' "$name"
        sed 's/^/        /' "$work/output"
        failed+=("$name")
    fi
}

# skip NAME WHY
skip() {
    printf 'skipped %s\n' "$1"
    skipped+=("$1: $2")
}

has() {
    command -v "$1" >/dev/null
}

if has shellcheck; then
    check 'scripts (shellcheck)' shellcheck Deploy/*.sh .ci/run
else
    skip 'scripts (shellcheck)' 'no shellcheck in the PATH'
fi
check 'rights in Kafka, dry' Deploy/acls.sh

if has promtool; then
    check 'alerts (promtool check)' promtool check rules Deploy/prometheus/alerts.yaml
    check 'alerts, each on its case (promtool test)' promtool test rules Deploy/prometheus/alerts*.test.yaml
    check "compose's Prometheus (promtool)" promtool check config Deploy/prometheus/prometheus.yaml
else
    skip 'alerts (promtool)' 'no promtool in the PATH (Debian: prometheus)'
fi

if ! has python3; then
    skip 'metrics and runbook sections exist' 'no python3 in the PATH'
elif ! python3 -c 'import yaml' 2>/dev/null; then
    skip 'metrics and runbook sections exist' 'python3 lacks yaml (Debian: python3-yaml)'
else
    check 'metrics, labels, settings and runbook sections exist, pods can read their Secrets' python3 Deploy/check-names.py
    if has promtool; then
        python3 Deploy/check-names.py --rules >"$work/expressions.yaml"
        check 'expressions of the dashboard and of KEDA (promtool)' \
            promtool check rules "$work/expressions.yaml"
    fi
fi

same_rules() {
    diff -u Deploy/kubernetes/components/prometheus-operator/prometheus-rule.yaml \
        <(python3 Deploy/prometheus/render.py --kubernetes)
}
if has python3; then
    check 'the PrometheusRule is that of alerts.yaml' same_rules
else
    skip 'the PrometheusRule is that of alerts.yaml' 'no python3 in the PATH'
fi
if has systemd-analyze; then
    mkdir "$work/units"
    # The program is not installed where this runs.
    sed 's#^ExecStart=.*#ExecStart=/bin/true#' Deploy/systemd/tollway-worker@.service \
        >"$work/units/tollway-decode@.service"
    check 'systemd unit (systemd-analyze verify)' \
        systemd-analyze verify --man=no "$work/units/tollway-decode@1.service"
else
    skip 'systemd unit' 'no systemd-analyze in the PATH'
fi
if has hadolint; then
    check 'Dockerfile (hadolint)' hadolint Deploy/Dockerfile
else
    skip 'Dockerfile (hadolint)' 'no hadolint in the PATH'
fi
if has check-jsonschema; then
    check "compose.yaml (compose's schema)" \
        check-jsonschema --builtin-schema vendor.compose-spec Deploy/compose.yaml
elif docker compose version >/dev/null 2>&1; then
    check 'compose.yaml (docker compose config)' docker compose -f Deploy/compose.yaml config --quiet
else
    skip 'compose.yaml' 'neither check-jsonschema nor docker compose'
fi

# kustomize DIRECTORY: builds it on standard output.
kustomize_build() {
    if has kustomize; then
        kustomize build "$1"
    else
        kubectl kustomize "$1"
    fi
}

if has kustomize || has kubectl; then
    for folder in base overlays/example overlays/sasl; do
        built="$work/$(basename "$folder").yaml"
        if ! kustomize_build "Deploy/kubernetes/$folder" >"$built" 2>"$work/output"; then
            printf 'FAILED  kubernetes/%s (kustomize)\n' "$folder"
            sed 's/^/        /' "$work/output"
            failed+=("kubernetes/$folder")
            continue
        fi
        printf 'ok      kubernetes/%s (kustomize)\n' "$folder"
        if has kubeconform; then
            check "kubernetes/$folder (schemas)" kubeconform -strict -ignore-missing-schemas "$built"
        elif has kubernetes-validate; then
            check "kubernetes/$folder (schemas)" kubernetes-validate --strict --no-warn "$built"
        else
            skip "kubernetes/$folder (schemas)" 'neither kubeconform nor kubernetes-validate in the PATH'
        fi
    done
    mkdir "$work/apple"
    printf 'resources: [%s]\ncomponents: [%s]\n' \
        "$(realpath --relative-to="$work/apple" Deploy/kubernetes/overlays/example)" \
        "$(realpath --relative-to="$work/apple" Deploy/kubernetes/components/operator-apple)" \
        >"$work/apple/kustomization.yaml"
    check 'kubernetes/components/operator-apple (kustomize)' kustomize_build "$work/apple"
    skip 'ScaledObject and PodMonitor (schemas)' 'their schemas come with KEDA and the Prometheus operator'
else
    skip 'kubernetes/' 'neither kustomize nor kubectl in the PATH'
fi

if docker info >/dev/null 2>&1; then
    skip 'the image' 'building it takes minutes: docker build -f Deploy/Dockerfile .'
else
    skip 'the image, and compose.yaml as a whole' 'no Docker that answers'
fi
skip 'the manifests on a cluster' 'this script changes nothing'

echo
echo 'skipped:'
printf '  %s\n' "${skipped[@]}"
if [ ${#failed[@]} -gt 0 ]; then
    printf 'FAILED: %s\n' "$(IFS=,; echo "${failed[*]}")"
    exit 1
fi
echo 'all that could be checked is valid'
