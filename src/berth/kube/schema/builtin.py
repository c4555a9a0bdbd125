"""The types of the built-in kinds, read from the packaged data files.

A file holds one API group version. Each type maps its fields to an expression::

    "containers": "[Container]! map=name patch=name"

``[T]`` is a list, ``{T}`` a map of strings to T, another word a type of the same file, of another
file (``core.v1.PodSpec``) or a scalar. ``!`` marks a required field. After it may follow
``set`` or ``map=<keys>`` (server-side apply's list types), ``atomic`` (a map owned as a whole),
``patch`` or ``patch=<key>`` (strategic merge), ``retain``, ``replace``, ``default=<JSON>``, and
``inline`` (a struct that every object has, were it empty: no pointer in Go).
The entry ``@`` of a type says that server-side apply owns it as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from importlib.resources import files

import msgspec

from berth.kube.schema.nodes import (
    BYTES,
    INT_OR_STRING,
    MICRO_TIME,
    QUANTITY,
    TIME,
    SchemaNode,
    SchemaStruct,
    Type,
)

FILES = (
    "meta.v1",
    "core.v1",
    "admissionregistration.v1",
    "apiextensions.v1",
    "apps.v1",
    "authentication.v1",
    "authorization.v1",
    "autoscaling.v1",
    "autoscaling.v2",
    "batch.v1",
    "coordination.v1",
    "discovery.v1",
    "events.v1",
    "networking.v1",
    "node.v1",
    "policy.v1",
    "rbac.v1",
    "resource.v1",
    "scheduling.v1",
    "scheduling.v1alpha2",
    "scheduling.v1beta1",
    "storage.v1",
)


class Package(msgspec.Struct, frozen=True):
    """One data file."""

    group: str
    version: str
    package: str
    types: dict[str, dict[str, str]]


@cache
def package(name: str) -> Package:
    raw = files("berth.kube.schema").joinpath("data", f"{name}.json").read_bytes()
    return msgspec.json.decode(raw, type=Package)


@cache
def package_of(group: str, version: str) -> str | None:
    """The data file of an API group version."""
    for name in FILES:
        held = package(name)
        if (held.group, held.version) == (group, version) and name != "meta.v1":
            return name
    return None


@cache
def kinds_of(group: str) -> tuple[str, ...]:
    """The kinds of an API group, of all its versions that have a data file."""
    return tuple(kind for name in FILES if package(name).group == group for kind in _kinds(name))


@cache
def api_versions() -> Mapping[str, str]:
    """An apiVersion of every kind there is."""
    return {
        kind: f"{package(name).group}/{package(name).version}".lstrip("/")
        for name in FILES
        for kind in _kinds(name)
    }


def _kinds(name: str) -> list[str]:
    if name == "meta.v1":
        return []
    return [kind for kind, fields in package(name).types.items() if "kind" in fields and "metadata" in fields]


@cache
def struct(qualified: str) -> SchemaStruct:
    """The type with a name such as ``core.v1.PodSpec``."""
    home, _, name = qualified.rpartition(".")
    held = package(home)
    expressions = held.types[name]
    return SchemaStruct(
        f"{held.package}.{name}",
        partial(_fields, home, expressions),
        atomic=expressions.get("@") == "atomic",
    )


def object_node(qualified: str) -> SchemaNode:
    return SchemaNode(type="object", struct=struct(qualified))


def _fields(home: str, expressions: Mapping[str, str]) -> Mapping[str, SchemaNode]:
    return {name: parse(text, home) for name, text in expressions.items() if name != "@"}


def parse(expression: str, home: str) -> SchemaNode:
    """The node of one field expression, see the head of this module."""
    base, *attributes = expression.split(" ")
    node = _type(base.removesuffix("!"), home)
    node.required = base.endswith("!")
    for attribute in attributes:
        word, _, argument = attribute.partition("=")
        _ATTRIBUTES[word](node, argument)
    return node


def _type(text: str, home: str) -> SchemaNode:
    if text.startswith("["):
        return SchemaNode(type="array", items=_type(text[1:-1], home))
    if text.startswith("{"):
        return SchemaNode(type="object", values=_type(text[1:-1], home))
    scalar = _scalar(text)
    if scalar is not None:
        return scalar
    return object_node(text if "." in text else f"{home}.{text}")


_SCALARS: dict[str, tuple[Type, str]] = {
    "string": ("string", ""),
    "boolean": ("boolean", ""),
    "number": ("number", ""),
    "int32": ("integer", "int32"),
    "int64": ("integer", "int64"),
    "bytes": ("string", BYTES),
    "time": ("string", TIME),
    "microtime": ("string", MICRO_TIME),
    "quantity": ("string", QUANTITY),
    "int-or-string": ("string", INT_OR_STRING),
}


def _scalar(text: str) -> SchemaNode | None:
    if text in ("object", "any"):
        # Opaque on purpose: server-side apply owns such a place as a whole.
        return SchemaNode(type="any" if text == "any" else "object", preserve_unknown=True, atomic=True)
    known = _SCALARS.get(text)
    return SchemaNode(type=known[0], format=known[1]) if known is not None else None


def _set(node: SchemaNode, _: str) -> None:
    node.list_type = "set"


def _map(node: SchemaNode, argument: str) -> None:
    node.list_type, node.list_keys = "map", tuple(argument.split(","))


def _atomic(node: SchemaNode, _: str) -> None:
    node.atomic = True


def _patch(node: SchemaNode, argument: str) -> None:
    node.merge, node.merge_key = True, argument


def _retain(node: SchemaNode, _: str) -> None:
    node.retain_keys = True


def _replace(node: SchemaNode, _: str) -> None:
    node.replace = True


def _inline(node: SchemaNode, _: str) -> None:
    node.inline = True


def _default(node: SchemaNode, argument: str) -> None:
    node.default = msgspec.json.decode(argument)


_ATTRIBUTES = {
    "set": _set,
    "map": _map,
    "atomic": _atomic,
    "patch": _patch,
    "retain": _retain,
    "replace": _replace,
    "default": _default,
    "inline": _inline,
}
