"""Validates documents against the schemas of Protocols/ with the jsonschema package.

usage: validate.py [--some] PROTOCOLS < CASES

A case a line: {"name": …, "schema": …, "isValid": …, "document": …}. Says on standard output which
cases came out otherwise, one a line, and which schemas had no case, but for --some; exit 0 if there
are none, 1 if there are, 2 without jsonschema.
"""

import json
import pathlib
import sys

try:
    import jsonschema
except ImportError:
    sys.exit("validate.py: the Python package jsonschema is missing (Debian: python3-jsonschema)")


def validators(protocols: pathlib.Path) -> dict:
    found = {}
    for path in protocols.glob("*.schema.json"):
        schema = json.loads(path.read_text(encoding="utf-8"))
        jsonschema.Draft202012Validator.check_schema(schema)
        found[path.name.removesuffix(".schema.json")] = jsonschema.Draft202012Validator(schema)
    return found


def main() -> int:
    arguments = sys.argv[1:]
    needs_all = arguments[0] != "--some"
    by_name = validators(pathlib.Path(arguments[-1]))
    wrong = 0
    unused = set(by_name) if needs_all else set()
    for line in sys.stdin:
        case = json.loads(line)
        unused.discard(case["schema"])
        errors = list(by_name[case["schema"]].iter_errors(case["document"]))
        if (not errors) != case["isValid"]:
            wrong += 1
            reason = errors[0].message if errors else "accepted, and should not be"
            print(f'{case["schema"]}, {case["name"]}: {reason}')
    for name in sorted(unused):
        wrong += 1
        print(f"{name}: no case was written for it")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
