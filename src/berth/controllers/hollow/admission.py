"""The kubelet's own admission: a bound pod that does not fit its node is rejected, not run.

The order of the checks and the wording follow pkg/kubelet/lifecycle/predicate.go; what fits is decided by
the engine's rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from berth.controllers.node_matching import matches_node
from berth.engine.rules.node_affinity import rule as node_affinity
from berth.engine.rules.node_ports import rule as node_ports
from berth.engine.rules.taint_toleration import rule as taint_toleration
from berth.engine.rules.taint_toleration.taints import first_untolerated
from berth.engine.state.nodes import ANY_IP, HostPort
from berth.engine.state.requests import pod_requests, units_of
from berth.kube.gates import FeatureGates
from berth.kube.objects import LivePod, Node
from berth.kube.resource_names import PODS, is_extended


@dataclass(frozen=True, slots=True)
class Rejected:
    reason: str
    message: str


def admit(pod: LivePod, node: Node, others: Iterable[LivePod], gates: FeatureGates) -> Rejected | None:
    """Why the node cannot take the pod beside the others, None if it can."""
    others = list(others)
    return next(_rejections(pod, node, others, gates), None)


def _rejections(pod: LivePod, node: Node, others: list[LivePod], gates: FeatureGates) -> Iterator[Rejected]:
    yield from _resources(pod, node, others)
    if not matches_node(pod, node, gates):
        yield failed("NodeAffinity", node_affinity.REASON_POD)
    if _ports_taken(pod, others):
        yield failed("NodePorts", node_ports.REASON)
    taints = [t for t in (node.spec.taints if node.spec else None) or () if t.effect == "NoExecute"]
    if first_untolerated(pod.spec.tolerations, taints) is not None:
        yield failed("TaintToleration", taint_toleration.REASON)


def failed(name: str, text: str) -> Rejected:
    return Rejected(name, f"Predicate {name} failed: {text}")


def _resources(pod: LivePod, node: Node, others: list[LivePod]) -> Iterator[Rejected]:
    capacity = units_of(node.status.allocatable if node.status else None)
    wanted = {PODS: 1, **pod_requests(pod.spec).plain}
    used = {PODS: len(others)}
    for other in others:
        for name, amount in pod_requests(other.spec).plain.items():
            used[name] = used.get(name, 0) + amount
    for name, amount in wanted.items():
        if not amount or (is_extended(name) and name not in capacity):
            continue
        taken, most = used.get(name, 0), capacity.get(name, 0)
        if amount > most - taken:
            figures = f"requested: {amount}, used: {taken}, capacity: {most}"
            text = f"Node didn't have enough resource: {name}, {figures}"
            yield Rejected(f"OutOf{name}", text)


def _ports_taken(pod: LivePod, others: list[LivePod]) -> bool:
    wanted = list(_ports(pod))
    return bool(wanted) and any(
        (port.protocol, port.port) == (taken.protocol, taken.port) and port.conflicts(taken.ip)
        for other in others
        for taken in _ports(other)
        for port in wanted
    )


def _ports(pod: LivePod) -> Iterator[HostPort]:
    sidecars = [c for c in pod.spec.init_containers or () if c.restart_policy == "Always"]
    for container in (*sidecars, *(pod.spec.containers or ())):
        for port in container.ports or ():
            if port.host_port:
                yield HostPort(port.protocol or "TCP", port.host_port, port.host_ip or ANY_IP)
