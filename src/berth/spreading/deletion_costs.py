"""Costs by which the ReplicaSet controller deletes pods in an order: the lowest first.

A cost of ours is accompanied by the same number in an annotation of our own, so that one that somebody else
wrote is known, and never touched.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from berth.kube.amounts.integers import deletion_cost
from berth.kube.objects import Pod
from berth.kube.well_known import OWN_DELETION_COST, POD_DELETION_COST

OURS = OWN_DELETION_COST
# Room between two costs, so that a pod that comes later fits between them.
_STEP = 1000
_MOST = 2**31 - 1


def own_cost(pod: Pod) -> int | None:
    """The cost we gave a pod; None if it has none of ours."""
    annotations = pod.metadata.annotations or {}
    given = annotations.get(OURS)
    return None if given is None or annotations.get(POD_DELETION_COST) != given else deletion_cost(given)


def is_foreign(pod: Pod) -> bool:
    """Whether somebody else has given the pod a cost."""
    annotations = pod.metadata.annotations or {}
    return POD_DELETION_COST in annotations and own_cost(pod) is None


def is_marked(pod: Pod) -> bool:
    """Whether there is something of ours on the pod."""
    return OURS in (pod.metadata.annotations or {})


def new_costs(order: Sequence[str], current: Mapping[str, int]) -> dict[str, int]:
    """The costs to be written so that they rise along `order`; as few as possible.

    Those that are in order stay as they are, and others get numbers between them.
    """
    kept = _rising([(pod, current[pod]) for pod in order if pod in current])
    found: dict[str, int] = {}
    low: int | None = None
    waiting: list[str] = []
    for pod in (*order, None):
        if pod is not None and pod not in kept:
            waiting.append(pod)
            continue
        high = None if pod is None else kept[pod]
        if waiting:
            between = _between(low, high, len(waiting))
            if between is None:
                return _anew(order, current)
            found.update(zip(waiting, between, strict=True))
            waiting = []
        low = high
    return found


def _rising(costs: Sequence[tuple[str, int]]) -> dict[str, int]:
    """The longest part of a sequence of costs that rises."""
    tails: list[int] = []
    chains: list[list[tuple[str, int]]] = []
    for pod, cost in costs:
        place = bisect_left(tails, cost)
        chain = [*(chains[place - 1] if place else ()), (pod, cost)]
        if place == len(tails):
            tails.append(cost)
            chains.append(chain)
        else:
            tails[place], chains[place] = cost, chain
    return dict(chains[-1]) if chains else {}


def _between(low: int | None, high: int | None, number: int) -> list[int] | None:
    """So many numbers that rise between two; None if there is no room."""
    if low is None and high is None:
        low, high = -_STEP * (number + 1) // 2, _STEP * (number + 1) // 2
    low = high - _STEP * (number + 1) if low is None and high is not None else low
    high = low + _STEP * (number + 1) if high is None and low is not None else high
    if low is None or high is None or low < -_MOST or high > _MOST or high - low <= number:
        return None
    return [low + (high - low) * (i + 1) // (number + 1) for i in range(number)]


def _anew(order: Sequence[str], current: Mapping[str, int]) -> dict[str, int]:
    costs = _between(None, None, len(order)) or list(range(len(order)))
    return {pod: cost for pod, cost in zip(order, costs, strict=True) if current.get(pod) != cost}
