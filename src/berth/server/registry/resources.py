"""Resources as they are served: beside their address their names, verbs and subresources.

Only facts about addressing; what an object may contain is told by :mod:`berth.kube.schema`, and what
becomes of it by its kind's strategy. Custom resources become further :class:`ServedResource` values.
"""

from __future__ import annotations

from typing import NamedTuple

from berth.kube.api_resources import Resource
from berth.server.registry.fields import mapping

STANDARD_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CREATE_ONLY = ("create",)


class ServedResource(Resource, frozen=True, kw_only=True):
    """One resource of one version of an API group."""

    singular: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()
    verbs: tuple[str, ...] = STANDARD_VERBS

    @property
    def gvk(self) -> tuple[str, str, str]:
        return (self.group, self.version, self.kind)

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"

    @property
    def stored(self) -> bool:
        """Whether objects can be read back; reviews and bindings are only ever created."""
        return "get" in self.verbs

    @property
    def root(self) -> str:
        """The path of the group version, such as ``/api/v1`` or ``/apis/apps/v1``."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


class Subresource(NamedTuple):
    """What a subresource accepts or answers; an empty kind stands for the resource's own."""

    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""
    kind: str = ""


SUBRESOURCES = {
    "binding": Subresource(("create",), "", "v1", "Binding"),
    "eviction": Subresource(("create",), "policy", "v1", "Eviction"),
    "finalize": Subresource(("update",)),
    "attach": Subresource(("create", "get")),
    "exec": Subresource(("create", "get")),
    "log": Subresource(("get",)),
    "portforward": Subresource(("create", "get")),
    "scale": Subresource(("get", "patch", "update"), "autoscaling", "v1", "Scale"),
    "token": Subresource(("create",), "authentication.k8s.io", "v1", "TokenRequest"),
    "status": Subresource(("get", "patch", "update")),
}


def served(  # noqa: PLR0913 -- the facts about one resource
    group_version: str,
    plural: str,
    kind: str,
    *,
    namespaced: bool = True,
    short: str = "",
    categories: str = "",
    subresources: str = "",
    verbs: tuple[str, ...] = STANDARD_VERBS,
) -> ServedResource:
    """A built-in resource; several short names, categories or subresources are separated by spaces."""
    group, _, version = group_version.rpartition("/")
    return ServedResource(
        group=group,
        version=version,
        plural=plural,
        singular=kind.lower(),
        kind=kind,
        namespaced=namespaced,
        short_names=tuple(short.split()),
        categories=tuple(categories.split()),
        subresources=frozenset(subresources.split()),
        verbs=verbs,
    )


def from_crd(crd: dict[str, object]) -> tuple[ServedResource, ...]:
    """The resources a CustomResourceDefinition asks to have served, one for each served version."""
    spec = mapping(crd.get("spec"))
    names = mapping(spec.get("names"))
    kind = str(names.get("kind", ""))
    versions = spec.get("versions")
    return tuple(
        ServedResource(
            group=str(spec.get("group", "")),
            version=str(version.get("name", "")),
            plural=str(names.get("plural", "")),
            singular=str(names.get("singular") or kind.lower()),
            kind=kind,
            namespaced=spec.get("scope") == "Namespaced",
            short_names=_strings(names.get("shortNames")),
            categories=_strings(names.get("categories")),
            subresources=frozenset(mapping(version.get("subresources"))) & {"status", "scale"},
        )
        for version in (versions if isinstance(versions, list) else [])
        if isinstance(version, dict) and version.get("served")
    )


def _strings(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
