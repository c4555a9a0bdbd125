"""As much of JSON Schema as the schema of the output uses, and more strictly: nothing may be unheard of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.support.paths import ROOT

Json = dict[str, Any]
SCHEMA: Json = json.loads((ROOT / "src/berth/cli/output/schemas/v1alpha1.json").read_text())
_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
    "array": list,
    "object": dict,
}


def faults(value: Any, schema: Json | None = None, at: str = "$") -> Iterator[str]:
    """What is wrong with an output, or with a part of it, and where."""
    schema = SCHEMA["$defs"][value["kind"]] if schema is None else schema
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        tries = [list(faults(value, each, at)) for each in schema["anyOf"]]
        yield from min(tries, key=len)
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is none of {schema['enum']}"
    if "const" in schema and value != schema["const"]:
        yield f"{at}: {value!r} is not {schema['const']}"
    if "type" in schema:
        kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        if not any(_is_a(value, kind) for kind in kinds):
            yield f"{at}: {value!r} is no {' or '.join(kinds)}"
            return
    if isinstance(value, dict):
        yield from _of_object(value, schema, at)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from faults(item, schema["items"], f"{at}[{i}]")


def _is_a(value: Any, kind: str) -> bool:
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _of_object(value: Json, schema: Json, at: str) -> Iterator[str]:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties")
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{at}.{name} is missing"
    for name, item in value.items():
        inside = properties.get(name, others)
        if inside is None:
            yield f"{at}.{name} is not in the schema"
        else:
            yield from faults(item, inside, f"{at}.{name}")
