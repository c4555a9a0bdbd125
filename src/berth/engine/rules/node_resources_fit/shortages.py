"""What a node has not enough of: what is said of it, how it is spelt, and how a kubelet adds it up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from berth.engine.rules.verdicts import Reason
from berth.engine.state.cluster_events import NodeAdded, NodeUpdated, PodDeleted
from berth.engine.state.requests import pod_requests, units_of
from berth.kube.amounts import quantity
from berth.kube.amounts.resource_names import (
    CPU,
    EPHEMERAL_STORAGE,
    HUGE_PAGES_PREFIX,
    MEMORY,
    PODS,
    is_extended,
)
from berth.kube.objects import Node, Pod

TOO_MANY_PODS = "Too many pods"

INSUFFICIENT = Reason(
    "InsufficientResource",
    "",
    "{resource}: {wanted} wanted, {free} of {size} free",
    varies=("free", "size"),
    waits_for="{wanted} {resource} to be free on a node: pods to leave it",
    events=(PodDeleted, NodeAdded, NodeUpdated),
)
TOO_SMALL = replace(
    INSUFFICIENT,
    code="NodeTooSmall",
    waits_for="a node with at least {wanted} {resource}",
    events=(NodeAdded, NodeUpdated),
)
NODE_FULL = replace(
    INSUFFICIENT,
    code="TooManyPods",
    sentence=TOO_MANY_PODS,
    waits_for="a pod to leave a node that has as many as it takes",
)


def insufficient(resource: str) -> str:
    return f"Insufficient {resource}"


_MEBI = 1 << 20


def spelled(resource: str, amount: int) -> str:
    """``500m``, ``1536Mi``, ``2``."""
    if resource == CPU:
        return quantity.format_quantity(f"{amount}m")
    if in_bytes(resource) and amount and amount % 1024 == 0:
        return quantity.format_quantity(f"{amount // 1024}Ki")
    return str(amount)


def in_bytes(resource: str) -> bool:
    return resource in (MEMORY, EPHEMERAL_STORAGE) or resource.startswith(HUGE_PAGES_PREFIX)


def rounded_down(resource: str, amount: int) -> int:
    """To an amount that a person would write: whole mebibytes where bytes are counted."""
    return amount // _MEBI * _MEBI if in_bytes(resource) and amount > _MEBI else amount


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
