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


@dataclass(slots=True)
class UnknownAnnotation:
    """An annotation with Berth's prefix that nothing reads.

    Attributes:
        manifest: The first object that has it.
        path: Where the annotations are.
        objects: How many have it.
    """

    manifest: Manifest
    path: Path
    name: str
    objects: int = 1

    @property
    def near(self) -> str | None:
        """What was probably meant."""
        names = [each.removeprefix(_PREFIX) for each in POD_ANNOTATIONS]
        found = possible(names, self.name.removeprefix(_PREFIX))
        return f"{_PREFIX}{found}" if found else None

    def __str__(self) -> str:
        others = f" and {self.objects - 1} more" if self.objects > 1 else ""
        meant = f"; did you mean {self.near}?" if self.near else ""
        return f"{self.manifest}{others}: {render(self.path)}[{self.name}]: unknown annotation{meant}"


def unknown_annotations(manifests: Iterable[Manifest]) -> list[UnknownAnnotation]:
    """The unknown annotations of pods and pod templates, each once for a kind, in order of appearance."""
    found: dict[tuple[str, Path, str], UnknownAnnotation] = {}
    for manifest in manifests:
        metadata, path = _pod_metadata(manifest.object)
        if metadata is None or not metadata.annotations:
            continue
        for name in metadata.annotations:
            if not name.startswith(_PREFIX) or name in POD_ANNOTATIONS:
                continue
            known = found.get(key := (manifest.kind, path, name))
            if known is None:
                found[key] = UnknownAnnotation(manifest, (*path, "annotations"), name)
            else:
                known.objects += 1
    return list(found.values())


def _pod_metadata(view: KubeObject | None) -> tuple[ObjectMeta | None, Path]:
    """The metadata that an object's pods have, and where it is."""
    if isinstance(view, Pod):
        return view.metadata, ("metadata",)
    path: Path = ("spec", "template", "metadata")
    if isinstance(view, Workload | ReplicationController | Job):
        template = view.spec.template
    elif isinstance(view, CronJob):
        job = view.spec.job_template
        template = job.spec.template if job and job.spec else None
        path = ("spec", "jobTemplate", *path)
    else:
        return None, path
    return template.metadata if template else None, path
