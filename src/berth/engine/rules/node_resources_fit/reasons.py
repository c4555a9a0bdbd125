"""What is said of a node without enough of a resource."""

from __future__ import annotations

from berth.engine.rules.reasons import Reason
from berth.engine.state.cluster_events import NodeAdded, NodeUpdated, PodDeleted

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
