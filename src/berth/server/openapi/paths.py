"""The paths of an OpenAPI v3 document: one set of operations for every resource and subresource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from berth.kube.well_known import JSON
from berth.server.registry.resources import SUBRESOURCES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from berth.kube.schema import Schema, SchemaRegistry
    from berth.server.openapi.schemas import Components
    from berth.server.registry.resources import ServedResource

_BODY_TYPES = (JSON, "application/yaml")
PATCH_TYPES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)

# Query parameters that several operations share: name, type, what it does.
_QUERY = {
    "allowWatchBookmarks": ("boolean", "Ask a watch for BOOKMARK events."),
    "continue": ("string", "Go on with a list where an earlier one stopped."),
    "dryRun": ("string", "With All, do everything but keep the outcome."),
    "fieldManager": ("string", "Who is writing, for managedFields."),
    "fieldSelector": ("string", "Only objects with these field values."),
    "fieldValidation": ("string", "What to do about unknown fields: Ignore, Warn or Strict."),
    "force": ("boolean", "Apply even where others own the fields."),
    "gracePeriodSeconds": ("integer", "How long the object may take to go."),
    "labelSelector": ("string", "Only objects with these labels."),
    "limit": ("integer", "At most so many objects."),
    "orphanDependents": ("boolean", "Older form of propagationPolicy=Orphan."),
    "pretty": ("string", "Indent the answer."),
    "propagationPolicy": ("string", "What happens to dependents: Orphan, Background or Foreground."),
    "resourceVersion": ("string", "The state to read or to watch from."),
    "resourceVersionMatch": ("string", "How exact the resource version is meant."),
    "sendInitialEvents": ("boolean", "Let a watch begin with what exists."),
    "timeoutSeconds": ("integer", "End the call after so long."),
    "watch": ("boolean", "Stream changes instead of listing."),
}
_LIST = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
)
_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_DELETE = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
_DELETE_MANY = (*_DELETE, *(name for name in _LIST if name not in ("allowWatchBookmarks", "watch")))
# kubectl looks for these by name and does not follow references.
_INLINE = frozenset({*_WRITE, "force"})

_Place = dict[str, Any]


class _Target(NamedTuple):
    """What the operations of one path are about."""

    resource: ServedResource
    gvk: tuple[str, str, str]
    body: dict[str, Any]
    listing: dict[str, Any]
    name: str


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
    written = {root: _collection(target, components)}
    if "get" in resource.verbs:
        written[item] = _item(target, components)
    if resource.namespaced and "list" in resource.verbs:
        everywhere = target._replace(name=f"{words}{resource.kind}ForAllNamespaces")
        written[resource.path()] = {"get": _list(everywhere, components), "parameters": _shared("pretty")}
    for name in sorted(resource.subresources):
        written[f"{item}/{name}"] = _subresource(target, name, components)
    return written


def _collection(target: _Target, components: Components) -> _Place:
    verbs = target.resource.verbs
    place: _Place = {}
    if "list" in verbs:
        place["get"] = _list(target, components)
    if "create" in verbs:
        place["post"] = _operation(target, "create", "post", _WRITE, components, body=target.body)
    if "deletecollection" in verbs:
        place["delete"] = _operation(
            target, "deleteCollection", "deletecollection", _DELETE_MANY, components, answer="meta.v1.Status"
        )
    place["parameters"] = _shared("pretty", *_where(target.resource))
    return place


def _item(target: _Target, components: Components) -> _Place:
    return {
        "get": _operation(target, "read", "get", (), components),
        "put": _operation(target, "replace", "put", _WRITE, components, body=target.body),
        "patch": _patch(target, components),
        "delete": _operation(target, "delete", "delete", _DELETE, components, answer="meta.v1.Status"),
        "parameters": _shared("pretty", "name", *_where(target.resource)),
    }


def _subresource(target: _Target, name: str, components: Components) -> _Place:
    part = SUBRESOURCES[name]
    if part.kind:
        home = {"": "core", "policy": "policy", "autoscaling": "autoscaling"}[part.group]
        target = target._replace(
            gvk=(part.group, part.version, part.kind),
            body=components.builtin(f"{home}.{part.version}.{part.kind}"),
        )
    target = target._replace(name=f"{target.name}{name.capitalize()}")
    place: _Place = {"parameters": _shared("pretty", "name", *_where(target.resource))}
    for verb in part.verbs:
        if verb == "get":
            text = name == "log"
            place["get"] = _operation(target, "read", "get", (), components, text=text)
        elif verb == "patch":
            place["patch"] = _patch(target, components)
        elif verb == "update":
            place["put"] = _operation(target, "replace", "put", _WRITE, components, body=target.body)
        else:
            place["post"] = _operation(target, "create", "post", _WRITE, components, body=target.body)
    return place


def _list(target: _Target, components: Components) -> _Place:
    listing = target._replace(body=target.listing)
    return _operation(listing, "list", "list", _LIST, components)


def _patch(target: _Target, components: Components) -> _Place:
    types = PATCH_TYPES if _is_builtin(target) else PATCH_TYPES[:-1]
    operation = _operation(target, "patch", "patch", (*_WRITE, "force"), components)
    operation["requestBody"] = {
        "required": True,
        "content": {media: {"schema": components.patch()} for media in types},
    }
    return operation


def _is_builtin(target: _Target) -> bool:
    return str(target.body.get("$ref", "")).startswith("#/components/schemas/io.k8s.")


# Which codes an action answers with when all is well.
_CODES = {
    "delete": ("200", "202"),
    "deletecollection": ("200",),
    "get": ("200",),
    "list": ("200",),
    "patch": ("200", "201"),
    "post": ("200", "201", "202"),
    "put": ("200", "201"),
}


def _operation(  # noqa: PLR0913 -- what differs between the operations of a path
    target: _Target,
    prefix: str,
    action: str,
    query: tuple[str, ...],
    components: Components,
    *,
    body: dict[str, Any] | None = None,
    answer: str = "",
    text: bool = False,
) -> _Place:
    group, version, kind = target.gvk
    schema = components.builtin(answer) if answer else target.body
    content = {"text/plain": {"schema": {"type": "string"}}} if text else {JSON: {"schema": schema}}
    operation: _Place = {
        "operationId": f"{prefix}{target.name}",
        "parameters": [_query(name) if name in _INLINE else _reference(name) for name in query],
        "responses": {
            **{code: {"description": "Done.", "content": content} for code in _CODES[action]},
            "default": {
                "description": "Refused; the Status says why.",
                "content": {JSON: {"schema": components.builtin("meta.v1.Status")}},
            },
        },
        "tags": [target.resource.api_version.replace(".k8s.io", "").replace("/", "_").replace(".", "_")],
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": group, "kind": kind, "version": version},
    }
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {t: {"schema": body} for t in _BODY_TYPES}}
    elif action in ("delete", "deletecollection"):
        options = components.builtin("meta.v1.DeleteOptions")
        operation["requestBody"] = {"content": {JSON: {"schema": options}}}
    return operation


def _where(resource: ServedResource) -> tuple[str, ...]:
    return ("namespace",) if resource.namespaced else ()


def _shared(*names: str) -> list[dict[str, Any]]:
    return [_reference(name) for name in names]


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/parameters/{name}"}


def _query(name: str) -> dict[str, Any]:
    kind, text = _QUERY[name]
    return {"name": name, "in": "query", "description": text, "schema": {"type": kind}}


def _in_path(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "description": text, "schema": {"type": "string"}}
