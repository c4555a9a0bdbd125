"""The balance of any choice of resources, as a profile may ask for.

Integers are upstream's (noderesources/balanced_allocation.go).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from berth.engine.rules.base import MAX_SCORE
from berth.engine.rules.node_resources_fit.scored_resources import ScoredResource, counts
from berth.engine.state.arrays import BoolArray, FloatArray, Int64Array, Slots
from berth.engine.state.pod_class import PodClass
from berth.engine.state.tables import NodeTable

_TWO = 2


class BalanceScore:
    """The score of NodeResourcesBalancedAllocation: 100 less the deviation of the shares in use."""

    def __init__(self, nodes: NodeTable, pod_class: PodClass) -> None:
        plain = pod_class.requests.plain
        self._nodes = nodes
        self._resources = [
            ScoredResource(nodes.row(name), plain.get(name, 0))
            for name in pod_class.options.balanced_resources
            if counts(name, plain.get(name, 0))
        ]

    def of(self, slots: Slots) -> Int64Array:
        without, with_pod = (self._balance(slots, with_pod=with_pod) for with_pod in (False, True))
        scores: Int64Array = MAX_SCORE // 2 + (MAX_SCORE // 2 + with_pod - without) // 2
        return scores

    def _balance(self, slots: Slots, *, with_pod: bool) -> Int64Array:
        shares: list[tuple[BoolArray, FloatArray]] = []
        for resource in self._resources:
            capacity = self._nodes.allocatable[resource.row, slots]
            used = resource.used(self._nodes, slots) + (resource.wanted if with_pod else 0)
            shares.append((capacity > 0, np.minimum(used / np.maximum(capacity, 1), 1.0)))
        number: Int64Array = np.zeros(self._nodes.alive[slots].shape, dtype=np.int64)
        total = np.zeros(number.shape)
        difference = np.zeros(number.shape)  # of the first two shares
        for offered, share in shares:
            difference += np.where(offered & (number == 0), share, 0.0)
            difference -= np.where(offered & (number == 1), share, 0.0)
            total += np.where(offered, share, 0.0)
            number += offered
        # One at a time and in this order, so that rounding is upstream's.
        mean = total / np.maximum(number, 1)
        squares = np.zeros(number.shape)
        for offered, share in shares:
            squares += np.where(offered, (share - mean) * (share - mean), 0.0)
        deviation = np.sqrt(squares / np.maximum(number, 1))
        deviation = np.where(number == _TWO, np.abs(difference / 2), deviation)
        deviation[number < _TWO] = 0.0
        balance: Int64Array = ((1 - deviation) * MAX_SCORE).astype(np.int64)
        return balance

    def at(self, slot: int) -> int:
        without: list[float] = []
        with_pod: list[float] = []
        for resource in self._resources:
            capacity = self._nodes.allocatable.item(resource.row, slot)
            if capacity:
                used = resource.used_at(self._nodes, slot)
                without.append(min(used / capacity, 1.0))
                with_pod.append(min((used + resource.wanted) / capacity, 1.0))
        return MAX_SCORE // 2 + (MAX_SCORE // 2 + balance_of(with_pod) - balance_of(without)) // 2


def balance_of(shares: Sequence[float]) -> int:
    """100 if all shares are equal, 50 if half of them are 1 and half are 0."""
    if len(shares) < _TWO:
        return MAX_SCORE
    if len(shares) == _TWO:
        return int((1 - abs((shares[0] - shares[1]) / 2)) * MAX_SCORE)
    # Plain loops: `sum` of newer Pythons rounds better than upstream does.
    total = squares = 0.0
    for share in shares:
        total += share
    mean = total / len(shares)
    for share in shares:
        squares += (share - mean) * (share - mean)
    return int((1 - sqrt(squares / len(shares))) * MAX_SCORE)
