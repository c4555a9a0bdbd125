"""Tolerations that nearly match a taint."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from berth.engine.rules.near_misses import nearest
from berth.engine.rules.node_affinity.matching import match_required
from berth.engine.rules.relaxing import Question
from berth.engine.rules.taint_toleration.taints import describe
from berth.kube.objects import Taint, Toleration
from berth.kube.taints import untolerated


def clues(question: Question) -> Iterator[str]:
    """Of the nodes that the pod's node affinity leaves it: the taints of others are not in its way.

    If it leaves none, that is a fault of its own, and nobody knows which nodes were meant.
    """
    tolerations = question.pod.spec.tolerations or []
    table = question.cluster.nodes
    wanted = np.flatnonzero(match_required(table, question.pod_class, table.every_slot)).tolist()
    taints = dict.fromkeys(
        taint
        for slot in wanted or range(table.count)
        if (node := question.nodes.get(table.names[slot] or "")) is not None
        for taint in untolerated(tolerations, (node.spec.taints if node.spec else None) or ())
    )
    for taint in taints:
        for toleration in tolerations:
            if why := near_miss(toleration, taint):
                yield f"the toleration {shown(toleration)} is not for the taint {describe(taint)}: {why}"


def near_miss(toleration: Toleration, taint: Taint) -> str | None:
    """What keeps a toleration from matching, if it was meant to."""
    if (toleration.key or "") != (taint.key or ""):
        meant = nearest(toleration.key or "", (taint.key or "",)) if toleration.key else None
        return f"the key is {taint.key}" if meant else None
    if toleration.effect and toleration.effect != taint.effect:
        return f"the effect is {taint.effect}"
    return f"the value is {taint.value}" if taint.value else "the taint has no value"


def shown(toleration: Toleration) -> str:
    value = f"={toleration.value}" if toleration.value else ""
    effect = f":{toleration.effect}" if toleration.effect else ""
    return f"{toleration.key}{value}{effect}"
