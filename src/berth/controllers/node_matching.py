"""Whether a node satisfies what a pod requires of it: its selector and both required affinities."""

from __future__ import annotations

from berth.kube.annotations import AnnotationError, effective_affinity
from berth.kube.gates import FeatureGates
from berth.kube.objects import Node, Pod
from berth.kube.selectors import parse_node_selector, selector_from_labels


def matches_node(pod: Pod, node: Node, gates: FeatureGates) -> bool:
    labels, name = node.metadata.labels or {}, node.metadata.name or ""
    if not selector_from_labels(pod.spec.node_selector).matches(labels):
        return False
    try:
        affinity = effective_affinity(pod, gates)
    except AnnotationError:
        return False
    rules = affinity.node_affinity if affinity else None
    if rules is None:
        return True
    required = (
        parse_node_selector(rules.required_during_scheduling_ignored_during_execution),
        parse_node_selector(rules.required_during_scheduling_required_during_execution),
    )
    return all(terms is None or terms.matches(labels, name) for terms in required)
