"""Annotations in files that look like Berth's and are not: a misspelt rule would not count."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from berth.kube.affinity.annotations import AFFINITY_ANNOTATION
from berth.kube.affinity.workload_annotations import WORKLOAD_AFFINITY_ANNOTATION
from berth.kube.manifests import kinds
from berth.kube.manifests.manifest import Manifest
from berth.kube.objects import KubeObject, ObjectMeta, Pod
from berth.kube.text.near_names import certain, possible
from berth.kube.validation.errors import Path, render
from berth.kube.well_known import OWN_DELETION_COST

LINT_IGNORE = "berth.dev/lint-ignore"
_PREFIX = "berth.dev/"
# What a pod can have; hollow nodes read those about times and codes.
POD_ANNOTATIONS = (
    AFFINITY_ANNOTATION,
    WORKLOAD_AFFINITY_ANNOTATION,
    "berth.dev/run-for",
    "berth.dev/exit-code",
    "berth.dev/start-after",
    "berth.dev/stop-after",
    OWN_DELETION_COST,
    LINT_IGNORE,
)
# What an object can have that has or makes no pod, or beside the template of its pods.
OWN_ANNOTATIONS = (
    *POD_ANNOTATIONS,
    "berth.dev/keep-spread",
    "berth.dev/rebalance",
    "berth.dev/rebalance-waits-for-nodes",
    "berth.dev/release-evictions",
    "berth.dev/power",
    "berth.dev/autoupdate",
    "berth.dev/exclusive-pending",
    "berth.dev/copied-labels",
    "berth.dev/workload-group",
    "berth.dev/claimed-version",
    "berth.dev/claim-taken-over",
)
# What a policy or a binding can have.
FLEET_ANNOTATIONS = (WORKLOAD_AFFINITY_ANNOTATION, LINT_IGNORE, "berth.dev/copied-labels")
_FLEET_GROUPS = ("policy.karmada.io", "work.karmada.io")
# Rules, which count only on a pod, so on a workload only in its template.
_OF_TEMPLATES = (AFFINITY_ANNOTATION,)
# What asks for pods to be moved, which is done for those of ReplicaSets alone.
_OF_REPLICA_SETS = ("berth.dev/rebalance", "berth.dev/rebalance-waits-for-nodes")
_OTHERS = ("StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicationController")
NOT_MOVED = "only pods of Deployments and ReplicaSets are moved"
_OWN: Path = ("metadata",)
_BESIDE: Path = (*_OWN, "annotations")
_FLEET_RULES = WORKLOAD_AFFINITY_ANNOTATION.removeprefix(_PREFIX)


@dataclass(slots=True)
class UnknownAnnotation:
    """An annotation with Berth's prefix, or nearly so, that nothing reads.

    Attributes:
        manifest: The first object that has it.
        path: Where the annotations are.
        objects: How many have it.
        belongs: Where it would be read; empty if it would nowhere.
        known: Those that are read there.
        no_effect: Why it is known there and does nothing; empty if it is not known.
    """

    manifest: Manifest
    path: Path
    name: str
    objects: int = 1
    belongs: Path = ()
    known: tuple[str, ...] = POD_ANNOTATIONS
    no_effect: str = ""

    @property
    def near(self) -> str | None:
        """What was probably meant."""
        names = [each.removeprefix(_PREFIX) for each in self.known]
        found = possible(names, self.name.rpartition("/")[2])
        return f"{_PREFIX}{found}" if found else None

    def __str__(self) -> str:
        others = f" and {self.objects - 1} more" if self.objects > 1 else ""
        where = f"{self.manifest}{others}: {render(self.path)}[{self.name}]"
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
        known = FLEET_ANNOTATIONS if _is_of_the_fleet(manifest) else OWN_ANNOTATIONS
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


def _is_of_the_fleet(manifest: Manifest) -> bool:
    return manifest.api_version.partition("/")[0] in _FLEET_GROUPS


def _own_annotations(manifest: Manifest) -> Iterable[str]:
    if manifest.object is not None:
        return manifest.object.metadata.annotations or ()
    metadata = manifest.to_dict().get("metadata")  # of a kind that has no view, nobody has checked the form
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return [name for name in annotations if isinstance(name, str)] if isinstance(annotations, dict) else ()


def _add(found: dict[tuple[str, Path, str], UnknownAnnotation], new: UnknownAnnotation) -> None:
    known = found.setdefault((new.manifest.kind, new.path, new.name), new)
    if known is not new:
        known.objects += 1


def _pod_metadata(view: KubeObject | None) -> tuple[ObjectMeta | None, Path]:
    """The metadata that an object's pods have, and where it is."""
    if isinstance(view, Pod):
        return view.metadata, _OWN
    path, template = kinds.pod_template(view)
    if not path:
        return None, _OWN
    return template.metadata if template else None, (*path, "metadata")
