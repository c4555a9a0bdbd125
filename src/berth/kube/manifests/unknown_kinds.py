"""Kinds in files that their API group does not have: the answer would be one without the object."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from berth.kube.manifests import kinds
from berth.kube.manifests.manifest import Manifest
from berth.kube.manifests.unknown_fields import CustomSchemas
from berth.kube.schema import builtin
from berth.kube.text.near_names import certain, possible

# What the groups have, or had, besides the kinds whose fields are known.
_BESIDES: dict[str, tuple[str, ...]] = {
    "": (
        "ComponentStatus",
        "Config",  # a kubeconfig
        "DeleteOptions",
        "List",
        "PodStatusResult",
        "RangeAllocation",
        "SerializedReference",
        "Status",
    ),
    "apps": ("DeploymentRollback", "Scale"),
    "extensions": (
        "DeploymentRollback",
        "Ingress",
        "NetworkPolicy",
        "PodSecurityPolicy",
        "Scale",
        "ThirdPartyResource",
    ),
    "batch": ("JobTemplate", "ScheduledJob"),
    "policy": ("PodSecurityPolicy",),
    "scheduling.k8s.io": ("CompositePodGroup",),
    "scheduling.x-k8s.io": ("ElasticQuota",),
    "resource.k8s.io": (
        "DeviceTaintRule",
        "PodSchedulingContext",
        "ResourceClaimParameters",
        "ResourceClass",
        "ResourceClassParameters",
        "ResourcePoolStatusRequest",
    ),
    "storage.k8s.io": ("VolumeAttributesClass",),
    "policy.karmada.io": (
        "ClusterOverridePolicy",
        "ClusterTaintPolicy",
        "FederatedResourceQuota",
        "OverridePolicy",
    ),
    "work.karmada.io": ("Work",),
}
_OF_OTHERS = ("scheduling.x-k8s.io",)  # custom resources, of which there may be more


@dataclass(slots=True)
class UnknownKind:
    """A kind that an API group does not have.

    Attributes:
        manifest: The first object of it.
        objects: How many there are.
        hint: What may be meant; empty if nothing is like it.
    """

    manifest: Manifest
    hint: str
    objects: int = 1

    def __str__(self) -> str:
        many = f" (of {self.objects} objects)" if self.objects > 1 else ""
        home = self.manifest.api_version or "Kubernetes"
        meant = f"; did you mean {self.hint}?" if self.hint else ""
        return f"{self.manifest.source.file}: kind: {self.manifest.kind}{many} is not a kind of {home}{meant}"


@dataclass(slots=True)
class UnservedVersion:
    """A version of a kind that servers of today do not have any more.

    Attributes:
        manifest: The first object of it.
        instead: The version to write.
        objects: How many there are.
    """

    manifest: Manifest
    instead: str
    objects: int = 1

    def __str__(self) -> str:
        others = f" and {self.objects - 1} more" if self.objects > 1 else ""
        return f"{self.manifest}{others}: apiVersion: {self.why}; write {self.instead}"

    @property
    def why(self) -> str:
        return f"no server of today has {self.manifest.api_version} of this kind"


def unserved_versions(manifests: Iterable[Manifest]) -> list[UnservedVersion]:
    """The versions that an API server would refuse, each once; what a server stored it had."""
    found: dict[tuple[str, str], UnservedVersion] = {}
    for manifest in manifests:
        if manifest.object is None or manifest.object.metadata.uid:
            continue
        key = (manifest.api_version, manifest.kind)
        if key in found:
            found[key].objects += 1
        elif (instead := kinds.served_instead(*key)) is not None:
            found[key] = UnservedVersion(manifest, instead)
    return list(found.values())


def unknown_kinds(manifests: Iterable[Manifest], custom: CustomSchemas | None = None) -> list[UnknownKind]:
    """The kinds that a group Berth reads does not have, each once, in order of appearance.

    Args:
        manifests: As they were loaded.
        custom: The schemas of kinds that are read besides those with a typed view.
    """
    found: dict[tuple[str, str], UnknownKind | None] = {}
    for manifest in manifests:
        key = (manifest.api_version, manifest.kind)
        if manifest.object is not None or (custom and key in custom):
            continue
        if key not in found:
            hint = _judged(manifest, custom or {})
            found[key] = None if hint is None else UnknownKind(manifest, hint)
        elif (known := found[key]) is not None:
            known.objects += 1
    return [kind for kind in found.values() if kind is not None]


def _judged(manifest: Manifest, custom: CustomSchemas) -> str | None:
    """What may be meant by a kind that is not there; None if it is, or if nobody can say."""
    kind = kinds.item_kind(manifest.kind) or manifest.kind
    group, _, version = manifest.api_version.rpartition("/")
    if not manifest.api_version:
        return _without_version(kind)
    own = {name for api_version, name in custom if kinds.group_of(api_version) == group}
    if not own and not kinds.versions_of(group):
        return _of_unknown_group(group, kind)
    held = {*kinds.read_kinds(group), *builtin.kinds_of(group), *_BESIDES.get(group, ()), *own}
    if kind in held:
        return None
    if own or group in _OF_OTHERS or version not in kinds.versions_of(group):
        return certain(sorted(held), kind)  # it may have kinds that are not known here
    return certain(sorted(held), kind) or _elsewhere(kind) or possible(sorted(held), kind) or ""


def _without_version(kind: str) -> str | None:
    """People leave the apiVersion out: then only what is like a kind that is read can be misspelt."""
    every = builtin.api_versions()
    if kind in every or kind in {each for names in _BESIDES.values() for each in names}:
        return None
    return certain(sorted(each for each in every if kinds.view_of("", each)), kind)


def _of_unknown_group(group: str, kind: str) -> str | None:
    """A kind that is read, or nearly, in a misspelt group; those of others may have any kind."""
    homes = builtin.api_versions()
    near = kind if kind in homes else certain(sorted(homes), kind)
    if near is None or builtin.kinds_of(group):
        return None
    # Custom resources have groups with a dot: one without, that is not known, is nobody's.
    misspelt = "." not in group or certain((kinds.group_of(homes[near]),), group) is not None
    return f"{near} of {homes[near]}" if misspelt else None


def _elsewhere(kind: str) -> str | None:
    """The right name, or nearly, in the wrong group."""
    homes = builtin.api_versions()
    near = certain(sorted(homes), kind)
    return f"{near} of {homes[near]}" if near is not None else None
