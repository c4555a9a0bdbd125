"""The parts of an OpenAPI v3 document: schema nodes as its component schemas, and its paths.

There is one set of operations for every resource and subresource.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import yaml

from berth.kube.schema import NO_DEFAULT, Schema, SchemaNode, SchemaRegistry, SchemaStruct, builtin
from berth.kube.schema.nodes import INT_OR_STRING, MICRO_TIME, QUANTITY, TIME
from berth.kube.well_known import JSON, PATCH_TYPES, STRATEGIC_PATCH
from berth.server.errors import TEXT_TYPES
from berth.server.registry.strategy import SUBRESOURCES, ServedResource

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
SCHEMAS_PREFIX = "#/components/schemas/"

PATCH = f"{_META}.Patch"

_NAMED_SCALARS: dict[str, tuple[str, dict[str, Any]]] = {
    TIME: (f"{_META}.Time", {"type": "string", "format": TIME}),
    MICRO_TIME: (f"{_META}.MicroTime", {"type": "string", "format": TIME}),
    QUANTITY: (
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        {"oneOf": [{"type": "string"}, {"type": "number"}]},
    ),
    INT_OR_STRING: (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        {"format": INT_OR_STRING, "oneOf": [{"type": "integer"}, {"type": "string"}]},
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


# --- paths


# Query parameters: type, what it does, and the operations that take it.
_QUERY = {
    "allowWatchBookmarks": ("boolean", "Ask a watch for BOOKMARK events.", "list"),
    "continue": ("string", "Go on with a list where an earlier one stopped.", "list"),
    "dryRun": ("string", "With All, do everything but keep the outcome.", "write delete"),
    "fieldManager": ("string", "Who is writing, for managedFields.", "write"),
    "fieldSelector": ("string", "Only objects with these field values.", "list"),
    "fieldValidation": ("string", "What to do about unknown fields: Ignore, Warn or Strict.", "write"),
    "force": ("boolean", "Apply even where others own the fields.", "patch"),
    "gracePeriodSeconds": ("integer", "How long the object may take to go.", "delete"),
    "labelSelector": ("string", "Only objects with these labels.", "list"),
    "limit": ("integer", "At most so many objects.", "list"),
    "orphanDependents": ("boolean", "Older form of propagationPolicy=Orphan.", "delete"),
    "pretty": ("string", "Indent the answer.", "all"),
    "propagationPolicy": (
        "string",
        "What happens to dependents: Orphan, Background or Foreground.",
        "delete",
    ),
    "resourceVersion": ("string", "The state to read or to watch from.", "list"),
    "resourceVersionMatch": ("string", "How exact the resource version is meant.", "list"),
    "sendInitialEvents": ("boolean", "Let a watch begin with what exists.", "list"),
    "timeoutSeconds": ("integer", "End the call after so long.", "list"),
    "watch": ("boolean", "Stream changes instead of listing.", "list"),
}
_LIST, _WRITE, _DELETE = (
    tuple(name for name, (_, _, takers) in _QUERY.items() if taker in takers.split())
    for taker in ("list", "write", "delete")
)
_DELETE_MANY = (*_DELETE, *(name for name in _LIST if name not in ("allowWatchBookmarks", "watch")))
# kubectl looks for these by name and does not follow references.
_INLINE = frozenset({*_WRITE, "force"})

_Place = dict[str, Any]


class _Verb(NamedTuple):
    """How a verb is said in HTTP, in operation ids and as an action; what it answers with if all is well."""

    method: str
    prefix: str
    action: str
    query: tuple[str, ...] = ()
    codes: tuple[str, ...] = ("200",)


_VERBS = {
    "get": _Verb("get", "read", "get"),
    "list": _Verb("get", "list", "list", _LIST),
    "create": _Verb("post", "create", "post", _WRITE, ("200", "201", "202")),
    "update": _Verb("put", "replace", "put", _WRITE, ("200", "201")),
    "patch": _Verb("patch", "patch", "patch", (*_WRITE, "force"), ("200", "201")),
    "delete": _Verb("delete", "delete", "delete", _DELETE, ("200", "202")),
    "deletecollection": _Verb("delete", "deleteCollection", "deletecollection", _DELETE_MANY),
}


class _Target(NamedTuple):
    """What the operations of one path are about."""

    resource: ServedResource
    gvk: tuple[str, str, str]
    body: dict[str, Any]
    listing: dict[str, Any]
    name: str
    text: bool = False  # it is read as plain text


def parameters() -> dict[str, Any]:
    """The shared parameters, for the components of a document."""
    return {name: _query(name) for name in _QUERY if name not in _INLINE} | {
        "name": _in_path("name", "The name of the object."),
        "namespace": _in_path("namespace", "The namespace of the object."),
    }


def paths(
    resources: Iterable[ServedResource], schemas: SchemaRegistry, components: Components
) -> dict[str, _Place]:
    written: dict[str, _Place] = {}
    for resource in resources:
        schema = schemas.for_kind(*resource.gvk)
        if schema is not None:
            written.update(_of_resource(resource, schema, components))
    return dict(sorted(written.items()))


def _of_resource(resource: ServedResource, schema: Schema, components: Components) -> dict[str, _Place]:
    body = components.kind(resource, schema)
    listing = components.list_kind(resource, schema) if "list" in resource.verbs else body
    scope = "Namespaced" if resource.namespaced else ""
    group = resource.group.removesuffix(".k8s.io") or "core"
    words = "".join(word.capitalize() for word in (*group.replace("-", ".").split("."), resource.version))
    target = _Target(resource, resource.gvk, body, listing, f"{words}{scope}{resource.kind}")
    root = resource.path("{namespace}")
    item = resource.path("{namespace}", "{name}")
    verbs = [verb for verb in ("list", "create", "deletecollection") if verb in resource.verbs]
    where = ("namespace",) if resource.namespaced else ()
    written = {root: {**_operations(target, verbs, components), "parameters": _shared("pretty", *where)}}
    shared = _shared("pretty", "name", *where)
    if "get" in resource.verbs:
        place = _operations(target, ("get", "update", "patch", "delete"), components)
        written[item] = {**place, "parameters": shared}
    if resource.namespaced and "list" in resource.verbs:
        everywhere = target._replace(name=f"{words}{resource.kind}ForAllNamespaces")
        place = _operations(everywhere, ("list",), components)
        written[resource.path()] = {**place, "parameters": _shared("pretty")}
    for name in sorted(resource.subresources):
        written[f"{item}/{name}"] = {"parameters": shared, **_subresource(target, name, components)}
    return written


def _subresource(target: _Target, name: str, components: Components) -> _Place:
    part = SUBRESOURCES[name]
    if part.kind:
        home = part.group.partition(".")[0] or "core"
        target = target._replace(
            gvk=(part.group, part.version, part.kind),
            body=components.builtin(f"{home}.{part.version}.{part.kind}"),
        )
    target = target._replace(name=f"{target.name}{name.capitalize()}", text=name == "log")
    return _operations(target, part.verbs, components)


def _operations(target: _Target, verbs: Iterable[str], components: Components) -> _Place:
    return {_VERBS[verb].method: _operation(target, verb, components) for verb in verbs}


def _operation(target: _Target, verb: str, components: Components) -> _Place:
    _, prefix, action, query, codes = _VERBS[verb]
    group, version, kind = target.gvk
    status = components.builtin("meta.v1.Status")
    schema = {"list": target.listing, "delete": status, "deletecollection": status}.get(verb, target.body)
    content = {"text/plain": {"schema": {"type": "string"}}} if target.text else {JSON: {"schema": schema}}
    operation: _Place = {
        "operationId": f"{prefix}{target.name}",
        "parameters": [_query(name) if name in _INLINE else _reference(name) for name in query],
        "responses": {
            **{code: {"description": "Done.", "content": content} for code in codes},
            "default": {
                "description": "Refused; the Status says why.",
                "content": {JSON: {"schema": status}},
            },
        },
        "tags": [target.resource.api_version.replace(".k8s.io", "").replace("/", "_").replace(".", "_")],
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": group, "kind": kind, "version": version},
    }
    if verb in ("create", "update"):
        content = {media: {"schema": target.body} for media in TEXT_TYPES}
        operation["requestBody"] = {"required": True, "content": content}
    elif verb == "patch":
        builtin = str(target.body.get("$ref", "")).startswith("#/components/schemas/io.k8s.")
        types = sorted(PATCH_TYPES if builtin else set(PATCH_TYPES) - {STRATEGIC_PATCH})
        content = {media: {"schema": components.patch()} for media in types}
        operation["requestBody"] = {"required": True, "content": content}
    elif verb in ("delete", "deletecollection"):
        options = components.builtin("meta.v1.DeleteOptions")
        operation["requestBody"] = {"content": {JSON: {"schema": options}}}
    return operation


def _shared(*names: str) -> list[dict[str, Any]]:
    return [_reference(name) for name in names]


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/parameters/{name}"}


def _query(name: str) -> dict[str, Any]:
    kind, text, _ = _QUERY[name]
    return {"name": name, "in": "query", "description": text, "schema": {"type": kind}}


def _in_path(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "description": text, "schema": {"type": "string"}}
