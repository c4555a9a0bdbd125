"""Node affinity of one pod and one node by their objects alone.

This is what those ask who keep no cluster: the controller of DaemonSets, and a kubelet.
"""

from __future__ import annotations

from collections.abc import Iterable

from berth.engine.rules.node_affinity.matching import REASON_POD
from berth.engine.rules.node_affinity.rule import NodeAffinity
from berth.engine.rules.verdicts import UNRESOLVABLE, RuleVerdict
from berth.engine.state.pod_class import required_nodes
from berth.kube.affinity.annotations import IN_SPEC, AnnotationError, stated_affinity
from berth.kube.gates import FeatureGates, enabled_affinity
from berth.kube.objects import Affinity, Node, Pod
from berth.kube.selectors import selector_from_labels


def admission(pod: Pod, node: Node, gates: FeatureGates) -> RuleVerdict | None:
    """Why a kubelet does not take the pod, None if it does."""
    if matches_when_placed(pod, node, gates) and matches_during_execution(pod, node, gates):
        return None
    return RuleVerdict(NodeAffinity.name, UNRESOLVABLE, (REASON_POD,))


def matches_when_placed(pod: Pod, node: Node, gates: FeatureGates) -> bool:
    """Whether the rules hold that are looked at when a pod is placed and not any more when it runs."""
    if not selector_from_labels(pod.spec.node_selector).matches(node.metadata.labels or {}):
        return False
    try:
        stated = stated_affinity(pod, gates)
    except AnnotationError:
        in_spec = enabled_affinity(pod.spec.affinity, gates)
        stated = () if in_spec is None else ((IN_SPEC, in_spec),)
    return _match(stated, node, execution=False)


def matches_during_execution(pod: Pod, node: Node, gates: FeatureGates) -> bool:
    """Whether the rules hold that must hold while the pod runs; not, if they cannot be read."""
    try:
        return _match(stated_affinity(pod, gates), node, execution=True)
    except AnnotationError:
        return False


def _match(stated: Iterable[tuple[str, Affinity]], node: Node, *, execution: bool) -> bool:
    labels, name = node.metadata.labels or {}, node.metadata.name or ""
    wanted = [rule.selector for rule in required_nodes(stated) if rule.execution == execution]
    return all(selector.matches(labels, name) for selector in wanted)
