"""The kubelet's own admission: a bound pod that does not fit its node is rejected, not run.

The order of the checks and the wording follow pkg/kubelet/lifecycle/predicate.go; what fits is decided by
the engine's rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from berth.engine.rules.node_affinity import admission as node_affinity
from berth.engine.rules.node_ports import admission as node_ports
from berth.engine.rules.node_resources_fit.admission import shortages
from berth.engine.rules.taint_toleration import admission as taint_toleration
from berth.engine.rules.verdicts import RuleVerdict
from berth.kube.gates import FeatureGates
from berth.kube.objects import LivePod, Node


@dataclass(frozen=True, slots=True)
class Rejected:
    reason: str
    message: str


def admit(pod: LivePod, node: Node, others: Iterable[LivePod], gates: FeatureGates) -> Rejected | None:
    """Why the node cannot take the pod beside the others, None if it can."""
    others = list(others)
    return next(_rejections(pod, node, others, gates), None)


def _rejections(pod: LivePod, node: Node, others: list[LivePod], gates: FeatureGates) -> Iterator[Rejected]:
    for short in shortages(pod, node, others):
        figures = f"requested: {short.requested}, used: {short.used}, capacity: {short.capacity}"
        text = f"Node didn't have enough resource: {short.resource}, {figures}"
        yield Rejected(f"OutOf{short.resource}", text)
    for verdict in (
        node_affinity.admission(pod, node, gates),
        node_ports.admission(pod, others),
        taint_toleration.admission(pod, node),
    ):
        if verdict is not None:
            yield failed(verdict)


def failed(verdict: RuleVerdict) -> Rejected:
    return Rejected(verdict.rule, f"Predicate {verdict.rule} failed: {verdict.reasons[0]}")
