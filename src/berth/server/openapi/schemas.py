"""Schema nodes as the component schemas of an OpenAPI v3 document."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from berth.kube.schema import NO_DEFAULT, Schema, SchemaNode, SchemaStruct, builtin
from berth.kube.schema.nodes import INT_OR_STRING, MICRO_TIME, QUANTITY, TIME
from berth.server.registry.strategy import ServedResource

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
SCHEMAS_PREFIX = "#/components/schemas/"

PATCH = f"{_META}.Patch"

_NAMED_SCALARS: dict[str, tuple[str, dict[str, Any]]] = {
    TIME: (f"{_META}.Time", {"type": "string", "format": "date-time"}),
    MICRO_TIME: (f"{_META}.MicroTime", {"type": "string", "format": "date-time"}),
    QUANTITY: (
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        {"oneOf": [{"type": "string"}, {"type": "number"}]},
    ),
    INT_OR_STRING: (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    ),
}


def ref(name: str) -> dict[str, Any]:
    return {"$ref": f"{SCHEMAS_PREFIX}{name}"}


@cache
def _descriptions() -> Mapping[str, str]:
    """Our own words about types and fields, by full name."""
    raw = files("berth.kube.schema").joinpath("data", "descriptions.yaml").read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for home, texts in yaml.safe_load(raw).items():
        prefix = builtin.package(home).package
        found.update({f"{prefix}.{name}": " ".join(text.split()) for name, text in texts.items()})
    return found


class Components:
    """The schemas a document refers to, collected while it is being written."""

    def __init__(self) -> None:
        self.schemas: dict[str, dict[str, Any]] = {}

    def builtin(self, qualified: str) -> dict[str, Any]:
        """A reference to a type of the data files, such as ``meta.v1.Status``."""
        return self._struct(builtin.struct(qualified))

    def patch(self) -> dict[str, Any]:
        self.schemas.setdefault(PATCH, {"type": "object"})
        return ref(PATCH)

    def kind(self, resource: ServedResource, schema: Schema) -> dict[str, Any]:
        """A reference to the kind of a resource."""
        struct = schema.root.struct
        if struct is None:
            return {"type": "object"}
        if schema.custom is None:
            self._struct(struct)
        elif struct.name not in self.schemas:
            self.schemas[struct.name] = self._custom(schema.custom)
        self._mark(struct.name, resource.group, resource.version, resource.kind)
        return ref(struct.name)

    def list_kind(self, resource: ServedResource, schema: Schema) -> dict[str, Any]:
        item = self.kind(resource, schema)
        name = f"{item['$ref'].removeprefix(SCHEMAS_PREFIX)}List"
        if name not in self.schemas:
            self.schemas[name] = {
                "description": f"A list of {resource.kind} objects.",
                "type": "object",
                "required": ["items"],
                "properties": {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "metadata": self.builtin("meta.v1.ListMeta"),
                    "items": {"type": "array", "items": item},
                },
            }
            self._mark(name, resource.group, resource.version, resource.list_kind)
        return ref(name)

    def _mark(self, name: str, group: str, version: str, kind: str) -> None:
        marks = self.schemas[name].setdefault("x-kubernetes-group-version-kind", [])
        mark = {"group": group, "kind": kind, "version": version}
        if mark not in marks:
            marks.append(mark)

    def _struct(self, struct: SchemaStruct) -> dict[str, Any]:
        if struct.name not in self.schemas:
            written: dict[str, Any] = {"type": "object"}
            self.schemas[struct.name] = written
            text = _descriptions().get(struct.name)
            if text:
                written["description"] = text
            written["properties"] = {
                name: self._field(struct, name, node) for name, node in struct.fields.items()
            }
            if struct.required:
                written["required"] = list(struct.required)
            if struct.atomic:
                written["x-kubernetes-map-type"] = "atomic"
        return ref(struct.name)

    def _field(self, struct: SchemaStruct, name: str, node: SchemaNode) -> dict[str, Any]:
        extra = _merge_attributes(node)
        text = _descriptions().get(f"{struct.name}.{name}")
        if text is None and {"apiVersion", "metadata"} <= struct.fields.keys():
            text = _descriptions().get(f"{_META}.*.{name}")
        if text:
            extra["description"] = text
        if node.default is not NO_DEFAULT and node.default != "":
            extra["default"] = node.default
        written = self._node(node)
        if "$ref" in written:
            return {"allOf": [written], **extra} if extra else written
        return {**written, **extra}

    def _node(self, node: SchemaNode) -> dict[str, Any]:
        if node.format in _NAMED_SCALARS:
            name, written = _NAMED_SCALARS[node.format]
            self.schemas.setdefault(name, dict(written))
            return ref(name)
        if node.struct is not None:
            return self._struct(node.struct)
        if node.type == "any":
            return {"x-kubernetes-preserve-unknown-fields": True}
        written = {"type": node.type}
        if node.format:
            written["format"] = node.format
        if node.items is not None:
            written["items"] = self._node(node.items)
        if node.values is not None:
            written["additionalProperties"] = self._node(node.values)
        return written

    def _custom(self, written: Mapping[str, Any]) -> dict[str, Any]:
        properties = {
            **(written.get("properties") or {}),
            "apiVersion": {"type": "string", "description": _descriptions()[f"{_META}.*.apiVersion"]},
            "kind": {"type": "string", "description": _descriptions()[f"{_META}.*.kind"]},
            "metadata": {
                "allOf": [self.builtin("meta.v1.ObjectMeta")],
                "description": _descriptions()[f"{_META}.*.metadata"],
            },
        }
        return {**written, "type": "object", "properties": dict(sorted(properties.items()))}


def _merge_attributes(node: SchemaNode) -> dict[str, Any]:
    extra: dict[str, Any] = {}
    if node.type == "array":
        extra["x-kubernetes-list-type"] = node.list_type
        if node.list_keys:
            extra["x-kubernetes-list-map-keys"] = list(node.list_keys)
    elif node.atomic and node.values is not None:
        extra["x-kubernetes-map-type"] = "atomic"
    words = {"merge": node.merge, "retainKeys": node.retain_keys, "replace": node.replace}
    strategies = [word for word, given in words.items() if given]
    if strategies:
        extra["x-kubernetes-patch-strategy"] = ",".join(strategies)
    if node.merge_key:
        extra["x-kubernetes-patch-merge-key"] = node.merge_key
    return extra
