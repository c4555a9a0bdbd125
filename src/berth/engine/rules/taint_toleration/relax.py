"""Tolerations that a pod lacks, and nodes that have to recover."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec.structs import replace

from berth.engine.rules.relaxing import (
    MOST,
    Change,
    Question,
    listed,
    nodes_object,
    on_nodes,
    on_pod,
    only_helpful,
)
from berth.engine.rules.taint_toleration.taints import CORDON, describe
from berth.kube.objects import Node, NodeSpec, PodSpec, Taint, Toleration
from berth.kube.taints import CONDITION_OF, HARD_EFFECTS, tolerates
from berth.kube.well_known import READY


def relaxations(question: Question) -> Iterator[Change]:
    counts: Counter[Taint] = Counter()
    for node in question.nodes.values():
        for taint in (node.spec and node.spec.taints) or ():
            if taint.effect in HARD_EFFECTS and not tolerates(question.pod.spec.tolerations, taint):
                counts[taint] += 1
    ailing = dict.fromkeys(taint.key or "" for taint in counts if taint.key in CONDITION_OF)
    for key in ailing:
        yield _recovered(question, question.closest(_nodes_with(question, key)), key)
    for taint, _ in counts.most_common(MOST):
        if taint.key == CORDON.key or taint.key in CONDITION_OF:
            continue  # uncordoning removes it, and so does the node's recovery
        added = Toleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)

        def apply(spec: PodSpec, toleration: Toleration = added) -> PodSpec:
            return replace(spec, tolerations=[*(spec.tolerations or ()), toleration])

        phrase = f"with a toleration for the taint {describe(taint)}"
        yield Change("toleration", "spec.tolerations", phrase, on_pod(apply), value=describe(taint))


def _nodes_with(question: Question, key: str) -> list[str]:
    return [name for name, node in question.nodes.items() if any(t.key == key for t in _taints(node))]


def _taints(node: Node) -> list[Taint]:
    return (node.spec.taints if node.spec else None) or []


def _recovered(question: Question, names: list[str], key: str) -> Change:
    """Nodes without a taint that follows from a condition: nobody should tolerate a node that is down."""
    kind = CONDITION_OF[key]

    def apply(node: Node) -> Node:
        taints = [taint for taint in _taints(node) if taint.key != key]
        return replace(node, spec=replace(node.spec or NodeSpec(), taints=taints or None))

    def make(question: Question, names: list[str]) -> Change:
        return _recovered(question, names, key)

    change = on_nodes(question, names, apply)
    return Change(
        "node-condition",
        f"status.conditions[{kind}]",
        f"with {listed(names)} Ready again" if kind == READY else f"with {listed(names)} without {kind}",
        change,
        object=nodes_object(names),
        refine=only_helpful(question, names, change, make),
    )
