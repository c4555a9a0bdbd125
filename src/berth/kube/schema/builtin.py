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
from functools import cache
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

_DATA = files("berth.kube.schema").joinpath("data")
_NAMES = sorted(path.name for path in _DATA.iterdir())
FILES = tuple(name.removesuffix(".json") for name in _NAMES if name.endswith(".json"))


class Package(msgspec.Struct, frozen=True):
    """One data file."""

    group: str
    version: str
    package: str
    types: dict[str, dict[str, str]]


@cache
def package(name: str) -> Package:
    return msgspec.json.decode(_DATA.joinpath(f"{name}.json").read_bytes(), type=Package)


@cache
def package_of(group: str, version: str) -> str | None:
    """The data file of an API group version."""
    name = f"{group.partition('.')[0] or 'core'}.{version}"
    return name if name in FILES and package(name).group == group else None


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
        lambda: {field: parse(text, home) for field, text in expressions.items() if field != "@"},
        atomic=expressions.get("@") == "atomic",
    )


def object_node(qualified: str) -> SchemaNode:
    return SchemaNode(type="object", struct=struct(qualified))


def parse(expression: str, home: str) -> SchemaNode:
    """The node of one field expression, see the head of this module."""
    base, *attributes = expression.split(" ")
    node = _type(base.removesuffix("!"), home)
    node.required = base.endswith("!")
    for attribute in attributes:
        word, _, argument = attribute.partition("=")
        match word:
            case "set":
                node.list_type = "set"
            case "map":
                node.list_type, node.list_keys = "map", tuple(argument.split(","))
            case "patch":
                node.merge, node.merge_key = True, argument
            case "default":
                node.default = msgspec.json.decode(argument)
            case "retain":
                node.retain_keys = True
            case "atomic" | "replace" | "inline":
                setattr(node, word, True)
            case _:
                raise ValueError(f"{expression}: {word} is no attribute")
    return node


def _type(text: str, home: str) -> SchemaNode:
    if text.startswith("["):
        return SchemaNode(type="array", items=_type(text[1:-1], home))
    if text.startswith("{"):
        return SchemaNode(type="object", values=_type(text[1:-1], home))
    if text in ("object", "any"):
        # Opaque on purpose: server-side apply owns such a place as a whole.
        return SchemaNode(type="any" if text == "any" else "object", preserve_unknown=True, atomic=True)
    if text in _SCALARS:
        kind, form = _SCALARS[text]
        return SchemaNode(type=kind, format=form)
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


# --- newer ----------------------------------------------------------------------------------------

# Fields since v1.37, while the data files are those of v1.36. The embedded server does not keep them, but
# manifests may be from a newer cluster. What is below them is not known.
_USER, _DEFAULT_USER = ("user",), ("defaultUser",)
_CORE = {
    "ClusterTrustBundleProjection": _USER,
    "ConfigMapVolumeSource": _DEFAULT_USER,
    "DownwardAPIVolumeFile": _USER,
    "DownwardAPIVolumeSource": _DEFAULT_USER,
    "EmptyDirVolumeSource": ("mode",),
    "GRPCAction": ("mode",),
    "HTTPGetAction": ("protocol",),
    "KeyToPath": _USER,
    "NodeAllocatableResourceClaimStatus": ("mapping", "overhead"),
    "NodeSpec": ("podPreemptionPolicy",),
    "NodeSystemInfo": ("runningInUserNamespace",),
    "PersistentVolumeClaimStatus": ("healthStatus",),
    "PodCertificateProjection": _USER,
    "PodSpec": ("evictionResponders",),
    "PodStatus": ("volumeHealth",),
    "ProjectedVolumeSource": _DEFAULT_USER,
    "SecretVolumeSource": _DEFAULT_USER,
    "ServiceAccountTokenProjection": _USER,
    "VolumeMount": ("bindMountOptions",),
}
_NEWER = {
    **{f"io.k8s.api.core.v1.{name}": fields for name, fields in _CORE.items()},
    "io.k8s.api.batch.v1.JobSpec": ("scheduling",),
}


def newer_fields(struct: SchemaStruct) -> tuple[str, ...]:
    """The names of fields that a newer Kubernetes adds to a type."""
    return _NEWER.get(struct.name, ())
