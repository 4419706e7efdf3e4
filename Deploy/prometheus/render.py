#!/usr/bin/env python3
"""The alerts as a deployment loads them: with absolute links to the runbook, or for Kubernetes.

  Deploy/prometheus/render.py --runbook https://wiki.example.com/tollway/RUNBOOK.md >rules.yaml
  Deploy/prometheus/render.py --kubernetes                 # a PrometheusRule for the operator

alerts.yaml is the one source: it names its runbook sections by their path in the project, which no
pager can open. --runbook puts an address before the section; a page of your own with the same
section names serves as well. kubernetes/components/prometheus-operator/prometheus-rule.yaml is made
by --kubernetes, and check.sh compares it.
"""

import argparse
import pathlib
import sys
from urllib.parse import urlsplit

SOURCE = pathlib.Path(__file__).resolve().parent / "alerts.yaml"
LOCAL = "Deploy/RUNBOOK.md"

HEAD = """\
# Made by Deploy/prometheus/render.py --kubernetes from alerts.yaml; change that, and make it again.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: tollway
  labels: {app.kubernetes.io/name: tollway}
spec:
"""


def address(text):
    """An absolute http or https address without a fragment."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.fragment:
        raise argparse.ArgumentTypeError(f"{text!r} is no absolute address without a fragment")
    return text


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runbook", type=address, metavar="ADDRESS")
    parser.add_argument("--kubernetes", action="store_true")
    options = parser.parse_args()
    rules = SOURCE.read_text(encoding="utf-8").replace(
        f"runbook_url: {LOCAL}#", f"runbook_url: {options.runbook or LOCAL}#"
    )
    # The text itself is kept, comments and all: only the groups move under the spec.
    groups = rules[rules.index("groups:"):]
    if options.kubernetes:
        groups = HEAD + "".join(
            ("  " + line if line.strip() else line) for line in groups.splitlines(keepends=True)
        )
    sys.stdout.write(groups)


if __name__ == "__main__":
    main()
