"""The nodes whose taints a pod tolerates."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from berth.engine.rules.taint_toleration.taints import first_untolerated
from berth.engine.state.arrays import BoolArray, Slots
from berth.engine.state.nodes import NodeTable
from berth.kube.objects import Toleration


def match_tolerated(nodes: NodeTable, tolerations: Iterable[Toleration] | None, slots: Slots) -> BoolArray:
    """Asked once for every set of taints there is."""
    passes = [first_untolerated(tolerations, taints) is None for taints in nodes.taints.values]
    tolerated: BoolArray = np.array(passes, dtype=np.bool_)[nodes.taints.ids[slots]]
    return tolerated
