"""Taints keep pods off a node unless they tolerate them; PreferNoSchedule taints cost score."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
from msgspec.structs import replace

from berth.engine.rules.base import NodeRule
from berth.engine.rules.changes import MOST, Change, Question, on_nodes, on_pod
from berth.engine.rules.verdicts import PROCEED, UNRESOLVABLE, Cause, Reason, RuleVerdict
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import ClusterEvent, NodeAdded, NodeUpdated
from berth.engine.state.columns import BoolArray, IntArray, Slots
from berth.engine.state.pod_class import PodClass
from berth.kube.objects import Node, NodeSpec, Pod, PodSpec, Taint, Toleration
from berth.kube.taints import (
    CONDITION_OF,
    CORDON,
    NO_EXECUTE,
    SOFT_EFFECT,
    described,
    first_untolerated,
    near_miss,
    no_execute_taints,
    taints_of,
    tolerates,
    untolerated,
)
from berth.kube.well_known import READY

UNTOLERATED = Reason(
    "TaintNotTolerated",
    "node(s) had untolerated taint(s)",
    "taint {taint} is not tolerated",
    waits_for="the taint {taint} to be taken off a node",
    events=(NodeUpdated, NodeAdded),
)
AILING = dataclasses.replace(UNTOLERATED, code="NodeConditionTaint", waits_for="a node to be {recovered}")


class TaintToleration(NodeRule):
    name = "TaintToleration"
    for_newcomers = True
    relax_rank = 4
    path = "spec.tolerations"
    reasons = (UNTOLERATED, AILING)
    scores = True
    scaling = True
    less_is_better = True
    prescore = PROCEED

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        super().__init__(cluster, pod_class)
        self.prefilter = PROCEED if pod_class.options.version.early_prefilters else None

    def feasible(self, slots: Slots) -> BoolArray:
        return self.nodes.tolerated(self.pod_class.spec.tolerations, slots)

    def raw(self, slots: Slots) -> IntArray:
        soft = [t for t in self.pod_class.spec.tolerations or () if not t.effect or t.effect == SOFT_EFFECT]
        taints = self.nodes.taints
        counts = [
            sum(t.effect == SOFT_EFFECT and not tolerates(soft, t) for t in taint_set)
            for taint_set in taints.values
        ]
        return np.array(counts, dtype=np.int64)[taints.ids[slots]]

    def admits(self, slot: int) -> bool:
        return self._tolerated(self.nodes.taints.at(slot))

    def _tolerated(self, taints: Iterable[Taint]) -> bool:
        return first_untolerated(self.pod_class.spec.tolerations, taints) is None

    def helped_by(self, change: ClusterEvent) -> bool:
        if not (isinstance(change, NodeUpdated) and change.taints):
            return False
        return not self._tolerated(taints_of(change.old))

    def causes(self, slot: int) -> Iterator[Cause]:
        for taint in untolerated(self.pod_class.spec.tolerations, self.nodes.taints.at(slot)):
            reason, values = UNTOLERATED, {"taint": described(taint)}
            if taint.key in CONDITION_OF:
                reason, values["recovered"] = AILING, _recovered(taint.key)
            yield Cause(reason, values, self.path, execution=taint.effect == NO_EXECUTE)

    def first_causes(self, slot: int) -> Iterator[Cause]:
        return islice(self.causes(slot), 1)

    def clues(self, question: Question) -> Iterator[str]:
        """Of the nodes that the pod's node affinity leaves it: the taints of others are not in its way.

        If it leaves none, that is a fault of its own, and nobody knows which nodes were meant.
        """
        tolerations = question.pod.spec.tolerations or []
        table = question.cluster.nodes
        wanted = np.flatnonzero(question.pod_class.selects(table, table.every_slot)).tolist()
        taints = dict.fromkeys(
            taint
            for slot in wanted or range(table.count)
            if (node := question.nodes.get(table.names[slot] or "")) is not None
            for taint in untolerated(tolerations, taints_of(node))
        )
        for taint in taints:
            for toleration in tolerations:
                if why := near_miss(toleration, taint):
                    given = described(toleration)
                    yield f"the toleration {given} is not for the taint {described(taint)}: {why}"

    @classmethod
    def relaxations(cls, question: Question) -> Iterator[Change]:
        """Tolerations that the pod lacks, and nodes that have to recover."""
        counts = Counter(
            taint
            for node in question.nodes.values()
            for taint in untolerated(question.pod.spec.tolerations, taints_of(node))
        )
        for key in dict.fromkeys(taint.key for taint in counts if taint.key in CONDITION_OF):
            yield _recovery(question, key)
        for taint, _ in counts.most_common(MOST):
            if taint.key == CORDON.key or taint.key in CONDITION_OF:
                continue  # uncordoning removes it, and so does the node's recovery
            added = Toleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)

            def apply(spec: PodSpec, toleration: Toleration = added) -> PodSpec:
                return replace(spec, tolerations=[*(spec.tolerations or ()), toleration])

            phrase = f"with a toleration for the taint {described(taint)}"
            yield Change("toleration", "spec.tolerations", phrase, on_pod(apply), value=described(taint))


def _recovery(question: Question, key: str) -> Change:
    """Nodes without a taint that follows from a condition: nobody should tolerate a node that is down."""
    names = [name for name, node in question.nodes.items() if any(t.key == key for t in taints_of(node))]

    def apply(node: Node) -> Node:
        taints = [taint for taint in taints_of(node) if taint.key != key]
        return replace(node, spec=replace(node.spec or NodeSpec(), taints=taints or None))

    phrase, path = ("with ", f" {_recovered(key)}"), f"status.conditions[{CONDITION_OF[key]}]"
    return on_nodes(question, question.closest(names), apply, "node-condition", path, phrase)


def _recovered(key: str) -> str:
    """What a node is again once it has no such taint."""
    kind = CONDITION_OF[key]
    return "Ready again" if kind == READY else f"without {kind}"


def admission(pod: Pod, node: Node) -> RuleVerdict | None:
    """Why a kubelet does not take the pod, None if it does."""
    if not drives_out(pod, node):
        return None
    return RuleVerdict(TaintToleration.name, UNRESOLVABLE, (UNTOLERATED.sentence,))


def keeps_off(pod: Pod, node: Node) -> bool:
    """Whether the node has a taint for which the pod is not placed there."""
    return first_untolerated(pod.spec.tolerations, taints_of(node)) is not None


def drives_out(pod: Pod, node: Node) -> bool:
    """Whether it has one for which the pod may not even stay."""
    return first_untolerated(pod.spec.tolerations, no_execute_taints(node)) is not None
