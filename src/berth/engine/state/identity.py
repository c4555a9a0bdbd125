"""Labels that tell the replicas of one workload apart.

The pods of a StatefulSet and of an indexed Job each carry their own number or name as a label.
Taken at their word, a thousand replicas would be a thousand classes, each compiled for itself,
although hardly any selector ever looks at those labels.  So they are left out of a pod's class,
until a selector does mention one: then it is revealed, once and for all, and the pods concerned
are sorted into classes of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from berth.kube.objects import Pod

IDENTITY_LABELS = frozenset(
    {
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
    }
)


def identity_of(pod: Pod, hidden: Collection[str]) -> dict[str, str] | None:
    """The labels of a pod that its class does not show, None if it has none."""
    labels = pod.metadata.labels
    if not labels or not hidden or labels.keys().isdisjoint(hidden):
        return None
    return {key: labels[key] for key in hidden if key in labels}


def without(pod: Pod, identity: Mapping[str, str]) -> Pod:
    labels = {k: v for k, v in (pod.metadata.labels or {}).items() if k not in identity}
    return replace(pod, metadata=replace(pod.metadata, labels=labels))


def with_labels(pod: Pod, more: Mapping[str, str]) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, labels={**(pod.metadata.labels or {}), **more}))
