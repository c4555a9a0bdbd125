"""What is said of a node without enough of a resource, and how amounts are spelt."""

from __future__ import annotations

from berth.engine.rules.reasons import Reason
from berth.engine.state.cluster_events import NodeAdded, NodeUpdated, PodDeleted
from berth.kube.amounts import quantity
from berth.kube.amounts.resource_names import CPU, EPHEMERAL_STORAGE, HUGE_PAGES_PREFIX, MEMORY

TOO_MANY_PODS = "Too many pods"

INSUFFICIENT = Reason(
    "InsufficientResource",
    "",
    "{resource}: {wanted} wanted, {free} of {size} free",
    varies=("free", "size"),
    waits_for="{wanted} {resource} to be free on a node: pods to leave it",
    events=(PodDeleted, NodeAdded, NodeUpdated),
)
TOO_SMALL = Reason(
    "NodeTooSmall",
    "",
    "{resource}: {wanted} wanted, {free} of {size} free",
    varies=("free", "size"),
    waits_for="a node with at least {wanted} {resource}",
    events=(NodeAdded, NodeUpdated),
)
NODE_FULL = Reason(
    "TooManyPods",
    TOO_MANY_PODS,
    "{resource}: {wanted} wanted, {free} of {size} free",
    varies=("free", "size"),
    waits_for="a pod to leave a node that has as many as it takes",
    events=(PodDeleted, NodeAdded, NodeUpdated),
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
