"""Taints, and the tolerations that let a pod stay in spite of them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from berth.engine.state.columns import BoolArray, Slots
from berth.engine.state.tables import NodeTable
from berth.kube.objects import Taint, Toleration
from berth.kube.taints import untolerated

SOFT_EFFECT = "PreferNoSchedule"


# What upstream adds to a node that is cordoned.
CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def first_untolerated(tolerations: Iterable[Toleration] | None, taints: Iterable[Taint]) -> Taint | None:
    """The first taint that keeps the pod away."""
    return next(iter(untolerated(tolerations, taints)), None)


def describe(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def match_tolerated(nodes: NodeTable, tolerations: Iterable[Toleration] | None, slots: Slots) -> BoolArray:
    """Asked once for every set of taints there is."""
    passes = [first_untolerated(tolerations, taints) is None for taints in nodes.taints.values]
    return np.array(passes, dtype=np.bool_)[nodes.taints.ids[slots]]
