"""Uncordoning nodes."""

from __future__ import annotations

from msgspec.structs import replace

from berth.engine.rules.relaxing import (
    Change,
    Question,
    listed,
    nodes_object,
    on_nodes,
    only_helpful,
)
from berth.engine.rules.taint_toleration.taints import CORDON
from berth.kube.objects import Node, NodeSpec


def uncordoned(question: Question, names: list[str]) -> Change:
    def apply(node: Node) -> Node:
        spec = node.spec or NodeSpec()
        taints = [taint for taint in spec.taints or () if taint.key != CORDON.key]
        return replace(node, spec=replace(spec, unschedulable=None, taints=taints or None))

    change = on_nodes(question, names, apply)
    return Change(
        "uncordon",
        "spec.unschedulable",
        f"with {listed(names)} uncordoned",
        change,
        object=nodes_object(names),
        refine=only_helpful(question, names, change, uncordoned),
    )
