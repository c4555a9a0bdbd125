"""Unknown kinds and annotations in files, for which an answer leaves an object or a rule out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from berth.kube import well_known
from berth.kube.affinity.annotations import AFFINITY_ANNOTATION
from berth.kube.affinity.workload_annotations import WORKLOAD_AFFINITY_ANNOTATION
from berth.kube.karmada import POLICY_GROUP, WORK_GROUP
from berth.kube.manifests import kinds
from berth.kube.manifests.manifest import Manifest
from berth.kube.manifests.unknown_fields import CustomSchemas, UnknownPart, again
from berth.kube.objects import KubeObject, ObjectMeta, Pod
from berth.kube.schema import builtin
from berth.kube.text.near import certain, possible
from berth.kube.validation.errors import Path, render

# --- kinds ----------------------------------------------------------------------------------------

# What the groups have, or had, besides the kinds whose fields are known; `Config` is a kubeconfig.
_BESIDES = {
    "": "ComponentStatus Config DeleteOptions List PodStatusResult RangeAllocation "
    "SerializedReference Status",
    "apps": "DeploymentRollback Scale",
    "extensions": "DeploymentRollback Ingress NetworkPolicy PodSecurityPolicy Scale ThirdPartyResource",
    "batch": "JobTemplate ScheduledJob",
    "policy": "PodSecurityPolicy",
    "scheduling.k8s.io": "CompositePodGroup",
    "scheduling.x-k8s.io": "ElasticQuota",
    "resource.k8s.io": "DeviceTaintRule PodSchedulingContext ResourceClaimParameters ResourceClass "
    "ResourceClassParameters ResourcePoolStatusRequest",
    "storage.k8s.io": "VolumeAttributesClass",
    POLICY_GROUP: "ClusterOverridePolicy ClusterTaintPolicy FederatedResourceQuota OverridePolicy",
    WORK_GROUP: "Work",
}
_OF_OTHERS = ("scheduling.x-k8s.io",)  # custom resources, of which there may be more


@dataclass(slots=True)
class UnknownKind(UnknownPart):
    """A kind that an API group does not have."""

    hint: str  # what may be meant; empty if nothing is like it

    def __str__(self) -> str:
        many = f" (of {self.objects} objects)" if self.objects > 1 else ""
        home = self.manifest.api_version or "Kubernetes"
        meant = f"; did you mean {self.hint}?" if self.hint else ""
        return f"{self.manifest.source.file}: kind: {self.manifest.kind}{many} is not a kind of {home}{meant}"


@dataclass(slots=True)
class UnservedVersion(UnknownPart):
    """A version of a kind that servers of today do not have any more."""

    instead: str  # the version to write

    def __str__(self) -> str:
        return f"{self.who}: apiVersion: {self.why}; write {self.instead}"

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
        if not again(found, key) and (instead := kinds.served_instead(*key)) is not None:
            found[key] = UnservedVersion(manifest, instead)
    return list(found.values())


def unknown_kinds(manifests: Iterable[Manifest], custom: CustomSchemas | None = None) -> list[UnknownKind]:
    """The kinds that a group Berth reads does not have, each once, in order of appearance.

    `custom` are the schemas of kinds that are read besides those with a typed view.
    """
    found: dict[tuple[str, str], UnknownKind | None] = {}
    for manifest in manifests:
        key = (manifest.api_version, manifest.kind)
        if manifest.object is not None or (custom and key in custom):
            continue
        if not again(found, key):
            hint = _judged(manifest, custom or {})
            found[key] = None if hint is None else UnknownKind(manifest, hint)
    return [kind for kind in found.values() if kind is not None]


def _judged(manifest: Manifest, custom: CustomSchemas) -> str | None:
    """The kind that was meant, empty if none is alike; None if it is known or may be a custom one."""
    kind = kinds.item_kind(manifest.kind) or manifest.kind
    group, _, version = manifest.api_version.rpartition("/")
    if not manifest.api_version:
        return _without_version(kind)
    own = {name for api_version, name in custom if kinds.group_of(api_version) == group}
    if not own and not kinds.versions_of(group):
        return _of_unknown_group(group, kind)
    held = {*kinds.read_kinds(group), *builtin.kinds_of(group), *_BESIDES.get(group, "").split(), *own}
    if kind in held:
        return None
    if own or group in _OF_OTHERS or version not in kinds.versions_of(group):
        return certain(sorted(held), kind)  # it may have kinds that are not known here
    near = certain(sorted(homes := builtin.api_versions()), kind)  # the right name in the wrong group
    elsewhere = f"{near} of {homes[near]}" if near is not None else None
    return certain(sorted(held), kind) or elsewhere or possible(sorted(held), kind) or ""


def _without_version(kind: str) -> str | None:
    """People leave the apiVersion out: then only what is like a kind that is read can be misspelt."""
    every = builtin.api_versions()
    if kind in every or kind in " ".join(_BESIDES.values()).split():
        return None
    return certain(sorted(each for each in every if kinds.view_of("", each)), kind)


def _of_unknown_group(group: str, kind: str) -> str | None:
    """A kind that is read, or nearly, in a misspelt group; those of others may have any kind."""
    homes = builtin.api_versions()
    near = kind if kind in homes else certain(sorted(homes), kind)
    if near is None or builtin.kinds_of(group):
        return None
    # Groups of custom resources have a dot: an unknown one without is a mistake.
    misspelt = "." not in group or certain((kinds.group_of(homes[near]),), group) is not None
    return f"{near} of {homes[near]}" if misspelt else None


# --- annotations that look like Berth's ---------------------------------------------------------

LINT_IGNORE = "berth.dev/lint-ignore"
_PREFIX = "berth.dev/"
# What a pod can have; hollow nodes read those about times and codes.
POD_ANNOTATIONS = (
    AFFINITY_ANNOTATION,
    WORKLOAD_AFFINITY_ANNOTATION,
    well_known.RUN_FOR,
    well_known.EXIT_CODE,
    well_known.START_AFTER,
    well_known.STOP_AFTER,
    well_known.OWN_DELETION_COST,
    LINT_IGNORE,
)
# What an object can have that has or makes no pod, or beside the template of its pods.
OWN_ANNOTATIONS = (
    *POD_ANNOTATIONS,
    well_known.KEEP_SPREAD,
    well_known.REBALANCE,
    well_known.WAITS_FOR_NODES,
    well_known.RELEASE_ANNOTATION,
    well_known.HOLLOW_POWER,
    well_known.AUTOUPDATE,
    well_known.EXCLUSIVE_PENDING,
    well_known.COPIED_LABELS,
    well_known.WORKLOAD_GROUP,
    well_known.CLAIMED_VERSION,
    well_known.CLAIM_TAKEN_OVER,
)
# What a policy or a binding can have.
FLEET_ANNOTATIONS = (WORKLOAD_AFFINITY_ANNOTATION, LINT_IGNORE, well_known.COPIED_LABELS)
# Rules, which count only on a pod, so on a workload only in its template.
_OF_TEMPLATES = (AFFINITY_ANNOTATION,)
# What asks for pods to be moved, which is done for those of ReplicaSets alone.
_OF_REPLICA_SETS = (well_known.REBALANCE, well_known.WAITS_FOR_NODES)
_OTHERS = ("StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicationController")
NOT_MOVED = "only pods of Deployments and ReplicaSets are moved"
_OWN: Path = ("metadata",)
_BESIDE: Path = (*_OWN, "annotations")
_FLEET_RULES = WORKLOAD_AFFINITY_ANNOTATION.removeprefix(_PREFIX)


@dataclass(slots=True)
class UnknownAnnotation(UnknownPart):
    """An annotation with Berth's prefix, or nearly so, that nothing reads."""

    path: Path  # where the annotations are
    name: str
    belongs: Path = ()  # where it would be read; empty if it would nowhere
    known: tuple[str, ...] = POD_ANNOTATIONS  # those that are read there
    no_effect: str = ""  # why it is known there and does nothing; empty if it is not known

    @property
    def near(self) -> str | None:
        """What was probably meant."""
        names = [each.removeprefix(_PREFIX) for each in self.known]
        found = possible(names, self.name.rpartition("/")[2])
        return f"{_PREFIX}{found}" if found else None

    def __str__(self) -> str:
        where = f"{self.who}: {render(self.path)}[{self.name}]"
        if self.belongs:
            return f"{where}: nothing reads it there; write it in {render(self.belongs)}"
        if self.no_effect:
            return f"{where}: has no effect: {self.no_effect}"
        meant = f"; did you mean {self.near}?" if self.near else ""
        return f"{where}: unknown annotation{meant}"


def unknown_annotations(manifests: Iterable[Manifest]) -> list[UnknownAnnotation]:
    """The unknown annotations of objects and pod templates, each once for a kind, in order of appearance."""
    found: dict[tuple[str, Path, str], UnknownAnnotation] = {}
    for manifest in manifests:
        metadata, path = _pod_metadata(manifest.object)
        templates: Path = (*path, "annotations")
        for name in (metadata.annotations if metadata else None) or ():
            if _looks_ours(name) and name not in POD_ANNOTATIONS:
                _add(found, UnknownAnnotation(manifest, templates, name))
        if isinstance(manifest.object, Pod):
            continue
        of_the_fleet = manifest.api_version.partition("/")[0] in (POLICY_GROUP, WORK_GROUP)
        known = FLEET_ANNOTATIONS if of_the_fleet else OWN_ANNOTATIONS
        for name in _own_annotations(manifest):
            if name in _OF_TEMPLATES and path != _OWN:
                _add(found, UnknownAnnotation(manifest, _BESIDE, name, belongs=templates))
            elif name in _OF_REPLICA_SETS and manifest.kind in _OTHERS:
                _add(found, UnknownAnnotation(manifest, _BESIDE, name, no_effect=NOT_MOVED))
            elif _looks_ours(name) and name not in known:
                _add(found, UnknownAnnotation(manifest, _BESIDE, name, known=known))
    return list(found.values())


def _looks_ours(name: str) -> bool:
    """Whether an annotation has our prefix, or is the fleet's with one that is mistaken for it."""
    if name.startswith(_PREFIX):
        return True
    prefix, _, last = name.rpartition("/")
    if certain([_FLEET_RULES], last) is None:
        return False
    return not prefix or prefix.endswith("karmada.io") or possible([_PREFIX[:-1]], prefix) is not None


def _own_annotations(manifest: Manifest) -> Iterable[str]:
    if manifest.object is not None:
        return manifest.object.metadata.annotations or ()
    metadata = manifest.to_dict().get("metadata")  # of a kind that has no view, nobody has checked the form
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return [name for name in annotations if isinstance(name, str)] if isinstance(annotations, dict) else ()


def _add(found: dict[tuple[str, Path, str], UnknownAnnotation], new: UnknownAnnotation) -> None:
    if not again(found, key := (new.manifest.kind, new.path, new.name)):
        found[key] = new


def _pod_metadata(view: KubeObject | None) -> tuple[ObjectMeta | None, Path]:
    """The metadata that an object's pods have, and where it is."""
    if isinstance(view, Pod):
        return view.metadata, _OWN
    path, template = kinds.pod_template(view)
    if not path:
        return None, _OWN
    return template.metadata if template else None, (*path, "metadata")
