"""Tolerations that a pod lacks, or that nearly match a taint, and nodes that have to recover."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from berth.engine.rules.changes import MOST, Change, Question, on_nodes, on_pod
from berth.engine.rules.node_affinity.matching import match_required
from berth.engine.rules.taint_toleration.taints import CORDON, describe
from berth.kube.objects import Node, NodeSpec, PodSpec, Taint, Toleration
from berth.kube.taints import CONDITION_OF, HARD_EFFECTS, taints_of, tolerates, untolerated
from berth.kube.text.near import nearest
from berth.kube.well_known import READY


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
        for taint in untolerated(tolerations, taints_of(node))
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


def relaxations(question: Question) -> Iterator[Change]:
    counts: Counter[Taint] = Counter()
    for node in question.nodes.values():
        for taint in taints_of(node):
            if taint.effect in HARD_EFFECTS and not tolerates(question.pod.spec.tolerations, taint):
                counts[taint] += 1
    ailing = dict.fromkeys(taint.key or "" for taint in counts if taint.key in CONDITION_OF)
    for key in ailing:
        names = [name for name, node in question.nodes.items() if any(t.key == key for t in taints_of(node))]
        yield _recovered(question, question.closest(names), key)
    for taint, _ in counts.most_common(MOST):
        if taint.key == CORDON.key or taint.key in CONDITION_OF:
            continue  # uncordoning removes it, and so does the node's recovery
        added = Toleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)

        def apply(spec: PodSpec, toleration: Toleration = added) -> PodSpec:
            return replace(spec, tolerations=[*(spec.tolerations or ()), toleration])

        phrase = f"with a toleration for the taint {describe(taint)}"
        yield Change("toleration", "spec.tolerations", phrase, on_pod(apply), value=describe(taint))


def _recovered(question: Question, names: list[str], key: str) -> Change:
    """Nodes without a taint that follows from a condition: nobody should tolerate a node that is down."""
    kind = CONDITION_OF[key]

    def apply(node: Node) -> Node:
        taints = [taint for taint in taints_of(node) if taint.key != key]
        return replace(node, spec=replace(node.spec or NodeSpec(), taints=taints or None))

    phrase = ("with ", " Ready again" if kind == READY else f" without {kind}")
    return on_nodes(question, names, apply, "node-condition", f"status.conditions[{kind}]", phrase)
