"""A binding does not return to a cluster while it is being evicted from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from berth.fleet.rules.base import Ask, ClusterRule, Objection

if TYPE_CHECKING:
    from collections.abc import Iterable

REASON = "cluster(s) is in the process of eviction"


class ClusterEviction(ClusterRule):
    name = "ClusterEviction"

    def objections(self, ask: Ask) -> Iterable[Objection]:
        if ask.entry.leaving:
            rejected = np.zeros(ask.clusters.size, dtype=np.bool_)
            rejected[list(ask.entry.leaving)] = True
            yield Objection(rejected, lambda _: REASON)

    def violated(self, ask: Ask) -> Iterable[str]:
        for slot in ask.entry.leaving:
            if ask.targets[slot]:
                yield f"{ask.clusters.names[slot]} is a target while the binding is being evicted from it"
