"""Whether a node satisfies what a pod requires of it: its selector and both required affinities."""

from __future__ import annotations

from berth.kube.annotations import AnnotationError, effective_affinity
from berth.kube.gates import FeatureGates, enabled_affinity
from berth.kube.objects import Affinity, Node, NodeSelector, Pod
from berth.kube.selectors import parse_node_selector, selector_from_labels


def matches_node(pod: Pod, node: Node, gates: FeatureGates) -> bool:
    return matches_once(pod, node, gates) and matches_lastingly(pod, node, gates)


def matches_once(pod: Pod, node: Node, gates: FeatureGates) -> bool:
    """Whether the rules hold that are looked at when a pod is placed and not any more when it runs."""
    if not selector_from_labels(pod.spec.node_selector).matches(node.metadata.labels or {}):
        return False
    try:
        affinity = effective_affinity(pod, gates)
    except AnnotationError:
        affinity = enabled_affinity(pod.spec.affinity, gates)
    rules = affinity.node_affinity if affinity else None
    return rules is None or _matches(rules.required_during_scheduling_ignored_during_execution, node)


def matches_lastingly(pod: Pod, node: Node, gates: FeatureGates) -> bool:
    """Whether the rules hold that must hold while the pod runs; not, if they cannot be read."""
    try:
        affinity: Affinity | None = effective_affinity(pod, gates)
    except AnnotationError:
        return False
    rules = affinity.node_affinity if affinity else None
    return rules is None or _matches(rules.required_during_scheduling_required_during_execution, node)


def _matches(selector: NodeSelector | None, node: Node) -> bool:
    terms = parse_node_selector(selector)
    return terms is None or terms.matches(node.metadata.labels or {}, node.metadata.name or "")
