"""The texts in an object that have a form of their own: amounts, and the affinity annotation.

Decoding takes them for strings; nobody can use an object in which one of them cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterator

from berth.kube.affinity.annotations import AFFINITY_ANNOTATION, AnnotationError, annotated_affinity
from berth.kube.amounts import quantity
from berth.kube.manifests.kinds import pod_template
from berth.kube.objects import (
    Container,
    KubeObject,
    Node,
    NodeStatus,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodSpec,
    ResourceList,
)
from berth.kube.validation.errors import Path, render


def unreadable_field(view: KubeObject) -> str | None:
    """A sentence about the first such text that cannot be read, naming its field.

    An annotation that a server has stored is not looked at: a stock one stores anything, and what
    somebody wrote into one pod must not keep others from reading the cluster.
    """
    return _misspelt_quantity(view) or (None if view.metadata.uid else _unreadable_annotation(view))


def _unreadable_annotation(view: KubeObject) -> str | None:
    path, template = pod_template(view)
    metadata = view.metadata if isinstance(view, Pod) else template.metadata if template else None
    if metadata is None or AFFINITY_ANNOTATION not in (metadata.annotations or ()):
        return None
    try:
        annotated_affinity(Pod(metadata=metadata))
    except AnnotationError as error:
        return f"{render(path)}.{error}" if path else str(error)
    return None


def _misspelt_quantity(view: KubeObject) -> str | None:
    for path, listed in _lists(view):
        for name, raw in listed.items():
            try:
                quantity.read(raw)
            except quantity.QuantityError as error:
                return f"{render(path)}[{name}]: {error}"
    return None


def _lists(view: KubeObject) -> Iterator[tuple[Path, ResourceList]]:
    if isinstance(view, Pod):
        yield from _of_spec(("spec",), view.spec)
    elif isinstance(view, Node):
        status = view.status or NodeStatus()
        yield ("status", "capacity"), status.capacity or {}
        yield ("status", "allocatable"), status.allocatable or {}
    elif isinstance(view, PersistentVolume):
        yield ("spec", "capacity"), view.spec.capacity or {}
    elif isinstance(view, PersistentVolumeClaim):
        yield ("spec", "resources", "requests"), (view.spec.resources and view.spec.resources.requests) or {}
    else:
        path, template = pod_template(view)
        if template is not None and template.spec is not None:
            yield from _of_spec((*path, "spec"), template.spec)


def _of_spec(path: Path, spec: PodSpec) -> Iterator[tuple[Path, ResourceList]]:
    groups = (("containers", spec.containers), ("initContainers", spec.init_containers))
    held: list[tuple[Path, Container | PodSpec]] = [
        ((*path, field, i), each) for field, group in groups for i, each in enumerate(group or ())
    ]
    for where, holder in (*held, (path, spec)):
        if holder.resources is not None:
            yield (*where, "resources", "requests"), holder.resources.requests or {}
            yield (*where, "resources", "limits"), holder.resources.limits or {}
    yield (*path, "overhead"), spec.overhead or {}
