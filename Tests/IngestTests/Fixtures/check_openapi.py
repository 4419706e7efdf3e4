"""Validates an OpenAPI document, and what a program really wrote against its schemas.

Usage: check_openapi.py openapi.yaml < lines
Each line is {"schema": "Name", "value": ...}. Needs PyPI's openapi-spec-validator, 0.6 or later.
"""
import json
import sys

import jsonschema
import yaml
from openapi_spec_validator import validate

with open(sys.argv[1], encoding="utf-8") as file:
    document = yaml.safe_load(file)
validate(document)

count = 0
for line in sys.stdin:
    entry = json.loads(line)
    schema = {
        "$ref": f"#/components/schemas/{entry['schema']}",
        "components": document["components"],
    }
    try:
        jsonschema.Draft202012Validator(schema).validate(entry["value"])
    except jsonschema.ValidationError as error:
        sys.exit(f"{line.strip()}\nis no {entry['schema']}: {error.message}")
    count += 1
print(count)
