"""Choosing groups of clusters (regions, say) so that enough clusters are in them.

Karmada searches all combinations of groups, from the smallest group to the largest, each only until it
suffices.  Of the combinations found the heaviest is best, then the one with the most clusters, then the
first found; but if the heaviest groups of it were found by themselves as well, the fewest of them that
were.  :func:`best_groups` gives the same answer by dynamic programming, because the number of
combinations grows without bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from berth.engine.state.arrays import BoolArray

_IMPOSSIBLE = -(2**62)
# Beyond this many states, or with weights beyond an int64, groups are taken by weight alone: it takes many
# hundreds of groups to get there, and Karmada does not.
_MAX_STATES = 50_000_000


@dataclass(frozen=True, slots=True)
class SpreadGroup:
    name: str
    clusters: int
    weight: int
    index: int = 0  # of the caller


def best_groups(groups: Sequence[SpreadGroup], least: int, most: int, clusters: int) -> list[SpreadGroup]:
    """From `least` to `most` groups with so many `clusters` at least, the heaviest first; none if none do."""
    search = _Search(
        sorted(groups, key=lambda g: (g.clusters, -g.weight, g.name)), least, min(most, len(groups)), clusters
    )
    found = search.best()
    found.sort(key=_heaviest_first)
    for length in range(1, len(found)):
        if search.would_find(found[:length]):
            return found[:length]
    return found


def _heaviest_first(group: SpreadGroup) -> tuple[int, str]:
    return (-group.weight, group.name)


class _Search:
    """A state is how many groups were taken and how many clusters they have, both as far as they matter."""

    def __init__(self, groups: list[SpreadGroup], least: int, most: int, clusters: int) -> None:
        self._groups = groups
        self._least, self._most, self._clusters = least, most, clusters
        # If all may be taken, it does not matter by how many more than the least.
        self._most_counted = max(least, 0) if most >= len(groups) else most

    def best(self) -> list[SpreadGroup]:
        least, most, wanted = self._least, self._most, max(self._clusters, 0)
        groups, counted = self._groups, self._most_counted
        if most <= 0 or least > most or (least <= 0 and wanted == 0):
            return []
        # Weight and clusters in one number, so that the heavier is greater, then the one with more clusters.
        unit = 1 + sum(group.clusters for group in groups)
        heaviest = unit * (1 + sum(abs(group.weight) for group in groups))
        if len(groups) * (counted + 1) * (wanted + 1) > _MAX_STATES or heaviest > -_IMPOSSIBLE // 2:
            return self._by_weight()
        taken, clusters = (a.ravel() for a in np.indices((counted + 1, wanted + 1)))
        done: BoolArray = (taken >= least) & (clusters >= wanted)
        may_take = ~done & ((taken < counted) | (counted != most))
        next_taken = np.minimum(taken + 1, counted) * (wanted + 1)
        best = np.where(done, 0, _IMPOSSIBLE)
        after = {
            size: next_taken + np.minimum(clusters + size, wanted) for size in {g.clusters for g in groups}
        }
        choices: list[BoolArray] = []
        for group in reversed(groups):
            with_it = best[after[group.clusters]] + (group.weight * unit + group.clusters)
            # Of equals the first found is the one that has this group.
            taking = may_take & (with_it > _IMPOSSIBLE // 2) & (with_it >= best)
            best = np.where(taking, with_it, best)
            choices.append(taking)
        return self._follow(choices[::-1])

    def _follow(self, choices: list[BoolArray]) -> list[SpreadGroup]:
        wanted = max(self._clusters, 0)
        taken, clusters = 0, 0
        found = []
        for group, choice in zip(self._groups, choices, strict=True):
            if choice[min(taken, self._most_counted) * (wanted + 1) + min(clusters, wanted)]:
                found.append(group)
                taken, clusters = taken + 1, clusters + group.clusters
        return found if self._suffices(taken, clusters) else []

    def _by_weight(self) -> list[SpreadGroup]:
        found: list[SpreadGroup] = []
        clusters = 0
        for group in sorted(self._groups, key=_heaviest_first)[: self._most]:
            found.append(group)
            clusters += group.clusters
            if self._suffices(len(found), clusters):
                return found
        return []

    def would_find(self, groups: list[SpreadGroup]) -> bool:
        """Whether the search ends with exactly these groups, and not with fewer of them."""
        clusters = 0
        chosen = set(groups)
        ordered = [g for g in self._groups if g in chosen]
        for taken, group in enumerate(ordered, start=1):
            clusters += group.clusters
            if self._suffices(taken, clusters):
                return taken == len(ordered)
        return False

    def _suffices(self, taken: int, clusters: int) -> bool:
        return clusters >= self._clusters and self._least <= taken <= self._most
