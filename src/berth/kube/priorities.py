"""Priority classes resolved to numbers, as the priority admission plugin does on creation."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from berth.kube.objects import ObjectMeta, Pod, PriorityClass

_SYSTEM = tuple(
    PriorityClass(metadata=ObjectMeta(name=name), value=value)
    for name, value in (("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000))
)


def resolve_priorities(pods: Iterable[Pod], classes: Iterable[PriorityClass]) -> list[Pod]:
    """Pods with ``spec.priority`` set from their class, or the global default where they name none.

    A priority that is already there stays, and so does a pod whose class is not known.
    """
    classes = [*_SYSTEM, *classes]
    by_name = {entry.metadata.name: entry for entry in classes}
    defaults = [entry for entry in classes if entry.global_default]
    default = min(defaults, key=lambda entry: entry.value or 0) if defaults else None
    return [_resolved(pod, by_name, default) for pod in pods]


def _resolved(pod: Pod, by_name: dict[str | None, PriorityClass], default: PriorityClass | None) -> Pod:
    spec = pod.spec
    if spec.priority is not None:
        return pod
    chosen = by_name.get(spec.priority_class_name) if spec.priority_class_name else default
    if chosen is None:
        return pod
    policy = spec.preemption_policy or chosen.preemption_policy
    spec = replace(
        spec,
        priority=chosen.value or 0,
        priority_class_name=chosen.metadata.name,
        preemption_policy=policy,
    )
    return replace(pod, spec=spec)
