"""Which schema belongs to which kind; custom resources come and go at run time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berth.kube.schema import builtin
from berth.kube.schema.budget import told
from berth.kube.schema.checks import conforms, problems, prune
from berth.kube.schema.constraints import violations
from berth.kube.schema.crd import apply_defaults, root_node
from berth.kube.schema.nodes import SchemaNode
from berth.kube.validation import FieldError

Gvk = tuple[str, str, str]

_MOST_UNKNOWN = 100  # fields that upstream's decoder tells of, too


class Schema:
    """The schema of one kind."""

    def __init__(self, root: SchemaNode, *, custom: Mapping[str, Any] | None = None) -> None:
        self.root = root
        # The schema of a custom resource as its definition gives it, None for a built-in kind.
        self.custom = custom

    def conforms(self, obj: dict[str, Any]) -> bool:
        """Whether there are neither unknown fields nor wrong types: the quick answer for most objects."""
        return conforms(obj, self.root)

    def unknown_fields(self, obj: dict[str, Any]) -> list[str]:
        """The paths of fields the kind does not have, ``spec.containers[0].imagee``; not all of many."""
        if conforms(obj, self.root):
            return []
        found = (problem.path for problem in problems(obj, self.root) if not problem.message)
        return list(told(found, _MOST_UNKNOWN, len))

    def type_error(self, obj: dict[str, Any]) -> tuple[str, str] | None:
        """Path and message of the first value that could not have been decoded (400 Bad Request).

        For a custom resource only its metadata is decoded like that; see :meth:`validate` for the rest.
        """
        if conforms(obj, self.root):
            return None
        found = (
            (problem.path, problem.message)
            for problem in problems(obj, self.root)
            if problem.message and (self.custom is None or problem.path.partition(".")[0] == "metadata")
        )
        return next(found, None)

    def prune(self, obj: dict[str, Any]) -> dict[str, Any]:
        """The object without unknown fields; the same object if it has none."""
        pruned: dict[str, Any] = prune(obj, self.root)
        return pruned

    def apply_defaults(self, obj: dict[str, Any]) -> None:
        """Fill in a custom resource's defaults, in place; built-in kinds are defaulted elsewhere."""
        if self.custom is not None:
            apply_defaults(obj, self.root)

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        """What a custom resource's schema objects to (422 Invalid); nothing for built-in kinds."""
        return violations(obj, self.root) if self.custom is not None else []


class SchemaRegistry:
    """The schemas of all kinds that are served."""

    def __init__(self) -> None:
        self._builtin: dict[Gvk, Schema | None] = {}
        self._custom: dict[Gvk, Schema] = {}
        self._by_crd: dict[str, list[Gvk]] = {}

    def for_kind(self, group: str, version: str, kind: str) -> Schema | None:
        key = (group, version, kind)
        custom = self._custom.get(key)
        if custom is not None:
            return custom
        if key not in self._builtin:
            self._builtin[key] = _builtin_schema(group, version, kind)
        return self._builtin[key]

    def custom(self) -> dict[tuple[str, str], Schema]:
        """The schemas of custom resources by apiVersion and kind."""
        return {(f"{group}/{version}", kind): held for (group, version, kind), held in self._custom.items()}

    def add_crd(self, crd: Mapping[str, Any]) -> None:
        """Take in a CustomResourceDefinition, replacing an earlier state of it."""
        self.remove_crd(crd)
        spec = crd.get("spec") or {}
        group, kind = str(spec.get("group", "")), str((spec.get("names") or {}).get("kind", ""))
        added: list[Gvk] = []
        for version in spec.get("versions") or ():
            key = (group, str(version.get("name", "")), kind)
            self._custom[key] = _custom_schema(key, version, preserve=bool(spec.get("preserveUnknownFields")))
            added.append(key)
        self._by_crd[_name(crd)] = added

    def remove_crd(self, crd: Mapping[str, Any]) -> None:
        for key in self._by_crd.pop(_name(crd), ()):
            self._custom.pop(key, None)


def _name(crd: Mapping[str, Any]) -> str:
    return str((crd.get("metadata") or {}).get("name", ""))


def _builtin_schema(group: str, version: str, kind: str) -> Schema | None:
    home = builtin.package_of(group, version)
    if home is None or kind not in builtin.package(home).types:
        return None
    return Schema(builtin.object_node(f"{home}.{kind}"))


def _custom_schema(key: Gvk, version: Mapping[str, Any], *, preserve: bool) -> Schema:
    group, name, kind = key
    written = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    if preserve or not written:
        written = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, **written}
    return Schema(root_node(written, _definition(group, name, kind)), custom=written)


def _definition(group: str, version: str, kind: str) -> str:
    """A definition name in the manner of the built-in ones: ``io.example.v1.Widget``."""
    return ".".join([*reversed(group.split(".")), version, kind])
