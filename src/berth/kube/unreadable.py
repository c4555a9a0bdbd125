"""The texts in an object that have a form of their own: amounts, and the affinity annotation.

Decoding takes them for strings; nobody can use an object in which one of them cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterator

from berth.kube import quantity
from berth.kube.annotations import AFFINITY_ANNOTATION, AnnotationError, annotated_affinity
from berth.kube.objects import (
    CronJob,
    Job,
    KubeObject,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodTemplateSpec,
    ReplicationController,
    ResourceList,
    ResourceRequirements,
    Workload,
)

Listed = Iterator[tuple[str, ResourceList | None]]


def unreadable_field(view: KubeObject) -> str | None:
    """A sentence about the first such text that cannot be read, naming its field."""
    return _misspelt_quantity(view) or _unreadable_annotation(view)


def _unreadable_annotation(view: KubeObject) -> str | None:
    for path, metadata in _pod_metadata(view):
        if AFFINITY_ANNOTATION not in (metadata.annotations or ()):
            continue
        try:
            annotated_affinity(Pod(metadata=metadata))
        except AnnotationError as error:
            return f"{path}{error}"
    return None


def _pod_metadata(view: KubeObject) -> Iterator[tuple[str, ObjectMeta]]:
    """The metadata of a pod or of those in a template, with the path that leads to it."""
    if isinstance(view, Pod):
        yield "", view.metadata
    for path, template in _templates(view):
        if template.metadata is not None:
            yield f"{path}.", template.metadata


def _templates(view: KubeObject) -> Iterator[tuple[str, PodTemplateSpec]]:
    path, template = "spec.template", None
    if isinstance(view, Workload | ReplicationController | Job):
        template = view.spec.template
    elif isinstance(view, CronJob) and view.spec.job_template is not None:
        path, spec = "spec.jobTemplate.spec.template", view.spec.job_template.spec
        template = spec.template if spec is not None else None
    if template is not None:
        yield path, template


def _misspelt_quantity(view: KubeObject) -> str | None:
    for path, listed in _lists(view):
        for name, raw in (listed or {}).items():
            try:
                quantity.read(raw)
            except quantity.QuantityError as error:
                return f"{path}[{name}]: {error}"
    return None


def _lists(view: KubeObject) -> Listed:
    if isinstance(view, Pod):
        yield from _of_spec("spec", view.spec)
    elif isinstance(view, Node):
        status = view.status or NodeStatus()
        yield "status.capacity", status.capacity
        yield "status.allocatable", status.allocatable
    for path, template in _templates(view):
        if template.spec is not None:
            yield from _of_spec(f"{path}.spec", template.spec)


def _of_spec(path: str, spec: PodSpec) -> Listed:
    for i, container in enumerate(spec.containers or ()):
        if container.resources is not None:
            yield from _of_requirements(f"{path}.containers[{i}].resources", container.resources)
    for i, container in enumerate(spec.init_containers or ()):
        if container.resources is not None:
            yield from _of_requirements(f"{path}.initContainers[{i}].resources", container.resources)
    if spec.resources is not None:
        yield from _of_requirements(f"{path}.resources", spec.resources)
    yield f"{path}.overhead", spec.overhead


def _of_requirements(path: str, resources: ResourceRequirements) -> Listed:
    yield f"{path}.requests", resources.requests
    yield f"{path}.limits", resources.limits
