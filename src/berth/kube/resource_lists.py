"""Where objects hold resource amounts, to find one that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator

from berth.kube import quantity
from berth.kube.objects import (
    CronJob,
    Job,
    KubeObject,
    Node,
    Pod,
    PodSpec,
    PodTemplateSpec,
    ReplicationController,
    ResourceList,
    ResourceRequirements,
    Workload,
)

Listed = Iterator[tuple[str, ResourceList | None]]


def misspelt_quantity(view: KubeObject) -> str | None:
    """A sentence about the first amount in an object that is not a quantity, naming its field."""
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
        if view.status is not None:
            yield "status.capacity", view.status.capacity
            yield "status.allocatable", view.status.allocatable
    elif isinstance(view, Workload | ReplicationController | Job):
        yield from _of_template("spec.template", view.spec.template)
    elif isinstance(view, CronJob):
        template = view.spec.job_template
        if template is not None and template.spec is not None:
            yield from _of_template("spec.jobTemplate.spec.template", template.spec.template)


def _of_template(path: str, template: PodTemplateSpec | None) -> Listed:
    if template is not None and template.spec is not None:
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
