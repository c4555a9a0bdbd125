"""What a node has not enough of: what is said of it, and how a kubelet adds it up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from berth.engine.rules.verdicts import Reason
from berth.engine.state.cluster_events import NodeAdded, NodeUpdated, PodDeleted
from berth.engine.state.requests import pod_requests, units_of
from berth.kube.amounts.resource_names import PODS, is_extended
from berth.kube.objects import Node, Pod

TOO_MANY_PODS = "Too many pods"

INSUFFICIENT = Reason(
    "InsufficientResource",
    "",
    "{resource}: {wanted} wanted, {free} of {size} free",
    varies=("free", "size"),
    waits_for="{wanted} {resource} to be free on a node: pods to leave it",
    events=(PodDeleted, NodeAdded, NodeUpdated),
    resolvable=True,
)
TOO_SMALL = replace(
    INSUFFICIENT,
    code="NodeTooSmall",
    waits_for="a node with at least {wanted} {resource}",
    events=(NodeAdded, NodeUpdated),
    resolvable=False,
)
NODE_FULL = replace(
    INSUFFICIENT,
    code="TooManyPods",
    sentence=TOO_MANY_PODS,
    waits_for="a pod to leave a node that has as many as it takes",
)


def insufficient(resource: str) -> str:
    return f"Insufficient {resource}"


@dataclass(frozen=True, slots=True)
class Shortage:
    """A resource of which a node has not enough left."""

    resource: str
    requested: int
    used: int
    capacity: int


def shortages(pod: Pod, node: Node, others: Sequence[Pod]) -> Iterator[Shortage]:
    """What keeps the node from taking the pod; extended resources that it does not know do not count."""
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
            yield Shortage(name, amount, taken, most)
