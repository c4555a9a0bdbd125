"""Whether a kubelet lets a pod onto its node: by the node, and by the other pods there.

A kubelet knows its own pods only, so of rules about others it looks at the terms whose topology is the
node and that must hold during execution; so does the proposal for inter-pod affinity. Whether a pod may
be the first of its group anywhere is for the scheduler to know: such a pod is not rejected for being
alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from berth.engine.execution.violations import is_in_the_way, violations_among
from berth.engine.rules.inter_pod_affinity.rule import ALONE, UNWANTED, UNWANTED_PEERS
from berth.engine.rules.node_affinity import rule as node_affinity
from berth.engine.rules.node_ports import rule as node_ports
from berth.engine.rules.node_resources_fit.rule import shortages
from berth.engine.rules.taint_toleration import rule as taint_toleration
from berth.engine.rules.verdicts import RuleVerdict, RuleViolation
from berth.engine.state.cluster import Cluster, pod_name
from berth.engine.state.options import Options
from berth.kube.affinity.annotations import AFFINITY_ANNOTATION, AnnotationError
from berth.kube.gates import FeatureGates
from berth.kube.objects import LivePod, Namespace, Node
from berth.kube.well_known import HOSTNAME


@dataclass(frozen=True, slots=True)
class AdmissionFailure:
    reason: str
    message: str


def admit(
    pod: LivePod,
    node: Node,
    *,
    running: Sequence[LivePod],
    bound: Sequence[LivePod],
    namespaces: Sequence[Namespace],
    options: Options,
) -> AdmissionFailure | None:
    """Why the node cannot take the pod beside the others, None if it can.

    Args:
        running: The pods that were admitted there: those it must not be with.
        bound: All pods that are to run there: those it may rely on.
        namespaces: With their labels.
        options: Which rules there are, and whom they leave out.
    """
    if (failure := next(_failures(pod, node, running, options.gates), None)) is not None:
        return failure
    if not any(map(_may_object, (pod, *running))):
        return None
    name = pod_name(pod)
    here = _cluster(pod, node, running, namespaces, options)
    near = _on_the_node(violations_among(here, [name, *map(pod_name, running)]))
    if any(violation.has_unwanted_peers and violation.pod == name for violation in near):
        return _failed(UNWANTED_PEERS)
    if any(is_in_the_way(here, violation, name) for violation in near):
        return _failed(UNWANTED)
    if any(violation.lacks_peers and violation.pod == name for violation in near):
        there = violations_among(_cluster(pod, node, bound, namespaces, options), [name])
        if any(violation.lacks_peers for violation in _on_the_node(there)):
            return _failed(ALONE)
    return None


def _failures(
    pod: LivePod, node: Node, others: Sequence[LivePod], gates: FeatureGates
) -> Iterator[AdmissionFailure]:
    """What the node has against it.

    The order of the checks and the wording follow pkg/kubelet/lifecycle/predicate.go; what fits is decided by
    the engine's rules.
    """
    for short in shortages(pod, node, others):
        figures = f"requested: {short.requested}, used: {short.used}, capacity: {short.capacity}"
        text = f"Node didn't have enough resource: {short.resource}, {figures}"
        yield AdmissionFailure(f"OutOf{short.resource}", text)
    for verdict in (
        node_affinity.admission(pod, node, gates),
        node_ports.admission(pod, others),
        taint_toleration.admission(pod, node),
    ):
        if verdict is not None:
            yield _failed(verdict)


def _failed(verdict: RuleVerdict) -> AdmissionFailure:
    return AdmissionFailure(verdict.rule, f"Predicate {verdict.rule} failed: {verdict.reasons[0]}")


def _on_the_node(violations: Iterable[RuleViolation]) -> list[RuleViolation]:
    return [each for each in violations if each.topology is not None and each.topology[0] == HOSTNAME]


def _may_object(pod: LivePod) -> bool:
    """Whether a pod may have rules about others; most have none, and nothing is to be built for them."""
    if AFFINITY_ANNOTATION in (pod.metadata.annotations or {}):
        return True
    affinity = pod.spec.affinity
    rules = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ()
    return any(
        rule is not None and bool(rule.required_during_scheduling_required_during_execution) for rule in rules
    )


def _cluster(
    pod: LivePod, node: Node, others: Sequence[LivePod], namespaces: Iterable[Namespace], options: Options
) -> Cluster:
    cluster = Cluster(options)
    for namespace in namespaces:
        cluster.set_namespace(namespace)
    cluster.add_node(node)
    for there in (pod, *others):
        try:
            pod_class = cluster.class_of(there)
        except AnnotationError:
            continue
        name, identity = pod_name(there), cluster.identity_of(there)
        cluster.assume(name, pod_class, node.metadata.name or "", identity=identity)
    return cluster
