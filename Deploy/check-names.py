"""Whether every name in Deploy's texts exists: metrics, labels and settings in the code, sections in
the runbook; and whether every pod can read its Secrets. With --rules: every PromQL expression of
them, as a rules file for promtool.

Metrics are read from the sources, where each is registered by one call with its name and labels.
"""

import json
import pathlib
import re
import sys

import yaml

deploy = pathlib.Path(__file__).resolve().parent
sources = deploy.parent / "Sources"

# From Prometheus itself, and what it puts on every series and on ALERTS.
OTHERS = {"up"}
OTHER_LABELS = {"job", "instance", "namespace", "le", "alertname", "alertstate"}

# A registration of a family: its kind, its name, and what follows up to the labels.
REGISTRATION = re.compile(
    r'\.(counter|measuredCounter|gauge|histogram)\(\s*"([a-z_]+)",(?P<rest>(?:"(?:[^"\\]|\\.)*"|[^")])*)\)'
)
LABELS = re.compile(r"labels: \[([^\]]*)\]")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def registered():
    """Names with prefix, each with its labels."""
    found = {}
    for path in sorted(sources.rglob("*.swift")):
        for match in REGISTRATION.finditer(path.read_text(encoding="utf-8")):
            labels = LABELS.search(match["rest"])
            names = re.findall(r'"([a-z_]+)"', labels[1]) if labels else []
            name = "tollway_" + match[2]
            found[name] = set(names)
            if match[1] == "histogram":
                for suffix in ("_bucket", "_sum", "_count"):
                    found[name + suffix] = set(names)
    return found


def expressions():
    """Every PromQL text, with where it stands."""
    alerts = yaml.safe_load((deploy / "prometheus/alerts.yaml").read_text(encoding="utf-8"))
    for group in alerts["groups"]:
        for rule in group["rules"]:
            yield f"alert {rule['alert']}", rule["expr"]
    board = json.loads((deploy / "grafana/tollway.json").read_text(encoding="utf-8"))
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            yield f"panel {panel['title']}", target["expr"]
    for variable in board["templating"]["list"]:
        query = variable["query"]
        if isinstance(query, dict):
            yield f"variable {variable['name']}", query["query"]
    scaling = deploy / "kubernetes/components/keda/scaled-objects.yaml"
    for scaled in yaml.safe_load_all(scaling.read_text(encoding="utf-8")):
        for trigger in scaled["spec"]["triggers"]:
            if trigger["type"] == "prometheus":
                yield f"scaling of {scaled['metadata']['name']}", trigger["metadata"]["query"]


def faults_of(where, expression, known):
    bare = STRING.sub('""', expression)
    names = set(re.findall(r"\btollway_[a-z_]+", bare))
    for name in sorted(names - set(known)):
        yield f"{where}: {name} is registered nowhere in Sources"
    allowed = OTHER_LABELS.union(*(known[name] for name in names & set(known)), set())
    used = set(re.findall(r"([a-z_]+)\s*(?:=~|!~|!=|=)\s*\"\"", bare))
    for clause in re.findall(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)", bare):
        used.update(label.strip() for label in clause.split(",") if label.strip())
    for label in sorted(used - allowed):
        yield f"{where}: no metric of it has the label {label}"
    if not names and not OTHERS.intersection(re.findall(r"[a-z_]+", bare)):
        yield f"{where}: names no metric"


def anchors(text):
    """Sections of a Markdown text as a browser of it names them."""
    for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        yield re.sub(r"[^a-z0-9 _-]", "", title.lower()).replace(" ", "-")


def runbook_faults():
    runbook = (deploy / "RUNBOOK.md").read_text(encoding="utf-8")
    sections = set(anchors(runbook))
    alerts = yaml.safe_load((deploy / "prometheus/alerts.yaml").read_text(encoding="utf-8"))
    tests = sorted((deploy / "prometheus").glob("alerts*.test.yaml"))
    cases = "".join(file.read_text(encoding="utf-8") for file in tests)
    names = [rule["alert"] for group in alerts["groups"] for rule in group["rules"]]
    for group in alerts["groups"]:
        for rule in group["rules"]:
            url = rule["annotations"]["runbook_url"]
            path, _, section = url.partition("#")
            if path != "Deploy/RUNBOOK.md" or section not in sections:
                yield f"alert {rule['alert']}: there is no {url}"
            if f"*{rule['alert']}" not in runbook and f" {rule['alert']}" not in runbook:
                yield f"alert {rule['alert']}: its section does not name it"
            if f"alertname: {rule['alert']}\n" not in cases:
                yield f"alert {rule['alert']}: no alerts*.test.yaml has a case of it"
    for name in set(re.findall(r"\bTollway[A-Z][A-Za-z0-9]+", runbook)) - set(names):
        yield f"RUNBOOK.md names {name}, and there is no such alert"


def runbook_metrics(known):
    for page in ("RUNBOOK.md", "SECURITY.md"):
        text = (deploy / page).read_text(encoding="utf-8")
        for name in sorted(set(re.findall(r"\btollway_[a-z_]+[a-z]", text)) - set(known)):
            yield f"{page}: {name} is registered nowhere in Sources"


def setting_faults():
    """Names of the environment in these texts that no program takes."""
    setting = (sources / "StageRuntime/Setting.swift").read_text(encoding="utf-8")
    known = {"TOLLWAY_" + name for name in re.findall(r'case \w+ = "([A-Z_]+)"', setting)}
    for path in sorted(deploy.rglob("*")):
        if path.is_file() and path.suffix in {"", ".yaml", ".md"}:
            text = path.read_text(encoding="utf-8")
            for name in sorted(set(re.findall(r"\bTOLLWAY_[A-Z_]*[A-Z]\b", text)) - known):
                if not name.startswith("TOLLWAY_KAFKA"):
                    yield f"{path.relative_to(deploy)}: no program takes {name}"


def pod_faults():
    """Pods that cannot read a Secret of mode 0440, which is root's and the group's."""
    for path in sorted((deploy / "kubernetes").rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if not isinstance(document, dict):
                continue
            pod = document.get("spec", {}).get("template", {}).get("spec", {})
            # A patch names a container without an image, and the pod that it changes has the rest.
            if not any("image" in container for container in pod.get("containers", [])):
                continue
            for name in ("runAsUser", "fsGroup"):
                if pod.get("securityContext", {}).get(name) != 10001:
                    where = f"{path.relative_to(deploy)}: {document['kind']}"
                    yield f"{where} {document['metadata']['name']}: {name} is not 10001"


# What the Prometheus operator puts on every series of a PodMonitor: a metric's own label of this name
# would be renamed exported_...
TARGET_LABELS = {"namespace", "container", "pod", "endpoint"}


def monitor_faults(known):
    path = deploy / "kubernetes/components/prometheus-operator/pod-monitor.yaml"
    monitor = yaml.safe_load(path.read_text(encoding="utf-8"))
    hidden = TARGET_LABELS & set().union(*known.values())
    for port in monitor["spec"]["podMetricsEndpoints"]:
        dropped = {rule["regex"] for rule in port["relabelings"] if rule.get("action") == "labeldrop"}
        for label in sorted(hidden - dropped):
            yield f"pod-monitor.yaml: the operator's label {label} hides the one of our metrics"


def as_rules():
    """The expressions as recording rules, for promtool to read; Grafana's variables filled in."""
    rules = []
    for where, expression in expressions():
        if where.startswith("variable"):
            continue
        for name, value in {"$__rate_interval": "1m", "$__range": "1h", "$app": ".*"}.items():
            expression = expression.replace(name, value)
        rules.append({"record": f"r{len(rules)}", "expr": expression})
    return yaml.safe_dump({"groups": [{"name": "expressions", "rules": rules}]})


def main():
    if sys.argv[1:] == ["--rules"]:
        print(as_rules())
        return 0
    known = registered()
    faults = [
        fault
        for where, expression in expressions()
        for fault in faults_of(where, expression, known)
    ]
    faults += runbook_faults()
    faults += runbook_metrics(known)
    faults += setting_faults()
    faults += pod_faults()
    faults += monitor_faults(known)
    for fault in faults:
        print(fault)
    print(f"{len(known)} names are registered, {len(list(expressions()))} expressions were read")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
