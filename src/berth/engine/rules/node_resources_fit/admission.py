"""The requests of one pod beside those of the others of its node, as a kubelet adds them up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from berth.engine.state.requests import pod_requests, units_of
from berth.kube.amounts.resource_names import PODS, is_extended
from berth.kube.objects import Node, Pod


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
