"""Annotations of pods in files that look like Berth's and are not: a misspelt rule would not count."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from berth.kube.affinity.annotations import AFFINITY_ANNOTATION
from berth.kube.affinity.workload_annotations import WORKLOAD_AFFINITY_ANNOTATION
from berth.kube.manifests.manifest import Manifest
from berth.kube.objects import CronJob, Job, KubeObject, ObjectMeta, Pod, ReplicationController, Workload
from berth.kube.text.near_names import possible
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
# Rules, which count only on a pod, so on a workload only in its template.
_OF_TEMPLATES = (AFFINITY_ANNOTATION,)
_OWN: Path = ("metadata",)


@dataclass(slots=True)
class UnknownAnnotation:
    """An annotation with Berth's prefix that nothing reads.

    Attributes:
        manifest: The first object that has it.
        path: Where the annotations are.
        objects: How many have it.
        belongs: Where it would be read; empty if it would nowhere.
    """

    manifest: Manifest
    path: Path
    name: str
    objects: int = 1
    belongs: Path = ()

    @property
    def near(self) -> str | None:
        """What was probably meant."""
        names = [each.removeprefix(_PREFIX) for each in POD_ANNOTATIONS]
        found = possible(names, self.name.removeprefix(_PREFIX))
        return f"{_PREFIX}{found}" if found else None

    def __str__(self) -> str:
        others = f" and {self.objects - 1} more" if self.objects > 1 else ""
        where = f"{self.manifest}{others}: {render(self.path)}[{self.name}]"
        if self.belongs:
            return f"{where}: nothing reads it there; write it in {render(self.belongs)}"
        meant = f"; did you mean {self.near}?" if self.near else ""
        return f"{where}: unknown annotation{meant}"


def unknown_annotations(manifests: Iterable[Manifest]) -> list[UnknownAnnotation]:
    """The unknown annotations of pods and pod templates, each once for a kind, in order of appearance."""
    found: dict[tuple[str, Path, str], UnknownAnnotation] = {}
    for manifest in manifests:
        metadata, path = _pod_metadata(manifest.object)
        templates: Path = (*path, "annotations")
        for name in (metadata.annotations if metadata else None) or ():
            if name.startswith(_PREFIX) and name not in POD_ANNOTATIONS:
                _add(found, UnknownAnnotation(manifest, templates, name))
        if path == _OWN or manifest.object is None:
            continue
        for name in manifest.object.metadata.annotations or ():
            if name in _OF_TEMPLATES:
                _add(found, UnknownAnnotation(manifest, (*_OWN, "annotations"), name, belongs=templates))
    return list(found.values())


def _add(found: dict[tuple[str, Path, str], UnknownAnnotation], new: UnknownAnnotation) -> None:
    known = found.setdefault((new.manifest.kind, new.path, new.name), new)
    if known is not new:
        known.objects += 1


def _pod_metadata(view: KubeObject | None) -> tuple[ObjectMeta | None, Path]:
    """The metadata that an object's pods have, and where it is."""
    if isinstance(view, Pod):
        return view.metadata, _OWN
    path: Path = ("spec", "template", "metadata")
    if isinstance(view, Workload | ReplicationController | Job):
        template = view.spec.template
    elif isinstance(view, CronJob):
        job = view.spec.job_template
        template = job.spec.template if job and job.spec else None
        path = ("spec", "jobTemplate", *path)
    else:
        return None, _OWN
    return template.metadata if template else None, path
