"""Node selectors and node affinity: which nodes a pod may use, and would rather use.

`nodeSelector`, every required selector of both kinds and the profile's `addedAffinity` must hold.  The terms
of one selector are alternatives.  See the node-affinity design document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from berth.engine.rules.base import NodeRule
from berth.engine.rules.node_affinity import relax
from berth.engine.rules.verdicts import (
    ERROR,
    NODE,
    PROCEED,
    SKIPPED,
    UNRESOLVABLE,
    Cause,
    Reason,
    RuleVerdict,
    RuleViolation,
    StepStatus,
    found_label,
    found_labels,
)
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import ClusterEvent, NodeAdded, NodeUpdated
from berth.engine.state.columns import BoolArray, IndexArray, IntArray, Slots
from berth.engine.state.pod_class import PodClass, required_nodes
from berth.engine.state.tables import NodeTable
from berth.kube.affinity.annotations import IN_SPEC, AnnotationError, stated_affinity
from berth.kube.gates import FeatureGates, enabled_affinity
from berth.kube.objects import Affinity, Node, NodeAffinity, NodeSelector, Pod
from berth.kube.selectors import NodeTerms, Requirement, parse_preferred_terms, selector_from_labels
from berth.kube.text.words import aggregated
from berth.kube.well_known import HOSTNAME, NODE_NAME_FIELD

REASON_CONFLICT = "pod affinity terms conflict"
_CHANGES = (NodeAdded, NodeUpdated)

SELECTOR = Reason(
    "NodeSelectorMismatch",
    "node(s) didn't match Pod's node affinity/selector",
    "{field} wants {wanted}, the node has {found}",
    varies=("found",),
    waits_for="a node with {wanted}",
    events=_CHANGES,
)
AFFINITY = replace(SELECTOR, code="NodeAffinityMismatch")
ADDED_AFFINITY = Reason(
    "AddedAffinityMismatch",
    "node(s) didn't match scheduler-enforced node affinity",
    "{field} wants {wanted}",
    waits_for="a node with {wanted}",
    events=_CHANGES,
)
# So few pods are faster asked about one by one.
_FEW = 8


class NodeAffinityRule(NodeRule):
    name = "NodeAffinity"
    reasons = (SELECTOR, AFFINITY, ADDED_AFFINITY)
    evicts = True
    names_nodes = True
    relax_rank = 6
    scaling = True
    clues = staticmethod(relax.clues)
    relaxations = staticmethod(relax.relaxations)
    wanted_labels = staticmethod(relax.wanted_labels)

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        super().__init__(cluster, pod_class)
        added = pod_class.options.args.added_affinity or NodeAffinity()
        stated_there = (("addedAffinity", Affinity(node_affinity=added)),)
        self._enforced = [required.selector for required in required_nodes(stated_there)]
        added_stated = added.preferred_during_scheduling_ignored_during_execution
        self._added_preferences = parse_preferred_terms(added_stated)
        has_rules = pod_class.required_nodes or pod_class.spec.node_selector is not None
        self.filters = bool(has_rules or self._enforced)
        self.prefilter = self._prefilter() if self.filters else SKIPPED
        preferences = pod_class.affinity.node_affinity if pod_class.affinity else None
        stated = preferences.preferred_during_scheduling_ignored_during_execution if preferences else None
        errors = [e for weighted in pod_class.preferred_nodes for e in weighted.term.errors]
        # Upstream scores zeros for a list that is there but empty.
        self.scores = stated is not None or bool(added_stated)
        self.prescore = PROCEED if self.scores else SKIPPED
        if errors:
            self.prescore = StepStatus(ERROR, (aggregated(errors),))

    def _prefilter(self) -> StepStatus:
        """Narrow to named nodes where every alternative names its node."""
        found = (_named_nodes(required.source) for required in self.pod_class.required_nodes)
        named = [names for names in found if names is not None]
        if not named:
            return PROCEED
        allowed = frozenset.intersection(*named)
        if not allowed:
            return StepStatus(UNRESOLVABLE, (REASON_CONFLICT,))
        return StepStatus(node_names=tuple(sorted(allowed)))

    def feasible(self, slots: Slots) -> BoolArray:
        matches = self.pod_class.selects(self.nodes, slots)
        for enforced in self._enforced:
            matches &= self.nodes.matching_terms(enforced, slots)
        return matches

    def admits(self, slot: int) -> bool:
        return self._matches(self.nodes.labels[slot] or {}, self.nodes.names[slot] or "")

    def _matches(self, labels: Mapping[str, str], name: str) -> bool:
        return self.pod_class.selects_node(labels, name) and all(
            enforced.matches(labels, name) for enforced in self._enforced
        )

    def helped_by(self, change: ClusterEvent) -> bool:
        if not (isinstance(change, NodeUpdated) and change.labels):
            return False
        old = change.old.metadata
        return not self._matches(old.labels or {}, old.name or "")

    def raw(self, slots: Slots) -> IntArray:
        total = np.zeros(len(self.nodes.alive[slots]), dtype=np.int64)
        for weighted in (*self._added_preferences, *self.pod_class.preferred_nodes):
            total += weighted.weight * self.nodes.matching_term(weighted.term, slots)
        return total

    def first_causes(self, slot: int) -> Iterable[Cause]:
        found = list(self.causes(slot))
        # Upstream looks at the pod's own rules only if the profile's hold.
        return found[:1] if found and found[0].reason is ADDED_AFFINITY else found

    def causes(self, slot: int) -> Iterable[Cause]:
        labels, name = self.nodes.labels[slot] or {}, self.nodes.names[slot] or ""
        for enforced in self._enforced:
            if not enforced.matches(labels, name):
                yield Cause(ADDED_AFFINITY, {"field": "addedAffinity", "wanted": str(enforced)})
        selector = self.pod_class.node_selector
        if selector is not None:
            for requirement in sorted(selector.requirements, key=str):
                if not requirement.matches(labels):
                    values = _wanted("nodeSelector", requirement, labels)
                    path = f"spec.nodeSelector[{requirement.key}]"
                    yield Cause(SELECTOR, values, path, elsewhere=requirement.key == HOSTNAME)
        for required in self.pod_class.required_nodes:
            if required.selector.matches(labels, name):
                continue
            field = required.path.rpartition(".")[2]
            cause = partial(Cause, AFFINITY, path=required.path, execution=required.execution)
            unmet = _unmet(required.selector, labels)
            for requirement in unmet:
                yield cause(_wanted(field, requirement, labels), elsewhere=requirement.key == HOSTNAME)
            if not unmet:
                values = {"field": field, "wanted": str(required.selector)}
                yield cause(values, elsewhere=_by_name(required.selector), worded=ADDED_AFFINITY.form)

    @classmethod
    def execution_violations(
        cls, cluster: Cluster, pod_class: PodClass, pods: IndexArray
    ) -> Iterable[RuleViolation]:
        """The selectors that do not hold, judged by the labels that the nodes have now."""
        nodes, slots = cluster.nodes, cluster.pods.node[pods].astype(np.intp)
        for required in pod_class.required_nodes:
            if not required.execution:
                continue
            broken = ~_holds(nodes, required.selector, slots)
            for pod, slot in zip(pods[broken].tolist(), slots[broken].tolist(), strict=True):
                unmet = {"unmet": _why_unmet(required.selector, nodes.labels[slot] or {})}
                cause = Cause(AFFINITY, unmet, required.path, execution=True, worded="{unmet}")
                yield RuleViolation.of_pod(cls.name, cause, cluster, pod, NODE)


def _holds(nodes: NodeTable, selector: NodeTerms, slots: IndexArray) -> BoolArray:
    if len(slots) > _FEW:
        return nodes.matching_terms(selector, slots)
    holds = [selector.matches(nodes.labels[s] or {}, nodes.names[s] or "") for s in slots.tolist()]
    return np.array(holds, dtype=np.bool_)


def _by_name(selector: NodeTerms) -> bool:
    """Whether all that a selector takes are nodes that it names."""
    return all(term.fields or any(r.key == HOSTNAME for r in term.labels) for term in selector.terms)


def _unmet(selector: NodeTerms, labels: Mapping[str, str]) -> list[Requirement]:
    """What a node lacks of a selector with just one term; where there are several, any of them would do."""
    if len(selector.terms) != 1:
        return []
    return [requirement for requirement in selector.terms[0].labels if not requirement.matches(labels)]


def _why_unmet(selector: NodeTerms, labels: Mapping[str, str]) -> str:
    """What a node that has these labels lacks, label by label."""
    if unmet := _unmet(selector, labels):
        return "; ".join(f"{r}, the node has {found_label(labels, r.key)}" for r in unmet)
    found = found_labels(selector, labels)
    return f"{selector}, the node has {found}" if found else str(selector)


def _wanted(field: str, requirement: Requirement, labels: Mapping[str, str]) -> dict[str, str]:
    return {"field": field, "wanted": str(requirement), "found": found_label(labels, requirement.key)}


def _named_nodes(selector: NodeSelector) -> frozenset[str] | None:
    """The node names a required selector allows, None if some alternative leaves the name open."""
    if not selector.node_selector_terms:
        return None
    allowed: frozenset[str] = frozenset()
    for term in selector.node_selector_terms:
        fields = (term and term.match_fields) or ()
        named = [f for f in fields if f.key == NODE_NAME_FIELD and f.operator == "In"]
        if not named:
            return None
        allowed |= frozenset.intersection(*(frozenset(f.values or ()) for f in named))
    return allowed


# --- one pod and one node by their objects alone --------------------------------------------------
# For callers without a cluster in columns: the DaemonSet controller, and a kubelet.


def admission(pod: Pod, node: Node, gates: FeatureGates) -> RuleVerdict | None:
    """Why a kubelet does not take the pod, None if it does."""
    required = NodeRequirements(pod, gates)
    if required.hold_when_placed(node) and required.hold_during_execution(node):
        return None
    return RuleVerdict(NodeAffinityRule.name, UNRESOLVABLE, (AFFINITY.sentence,))


class NodeRequirements:
    """What a pod itself requires of its node, read once."""

    def __init__(self, pod: Pod, gates: FeatureGates) -> None:
        self._selector = selector_from_labels(pod.spec.node_selector)
        self._readable = True
        try:
            stated = stated_affinity(pod, gates)
        except AnnotationError:
            self._readable = False
            in_spec = enabled_affinity(pod.spec.affinity, gates)
            stated = () if in_spec is None else ((IN_SPEC, in_spec),)
        required = required_nodes(stated)
        self._when_placed = [each.selector for each in required if not each.execution]
        self._during_execution = [each.selector for each in required if each.execution]

    def hold_when_placed(self, node: Node) -> bool:
        """Whether those hold that are looked at when a pod is placed and not any more when it runs."""
        return self._selector.matches(node.metadata.labels or {}) and _hold(self._when_placed, node)

    def hold_during_execution(self, node: Node) -> bool:
        """Whether those hold that must hold while the pod runs; not, if they cannot be read."""
        return self._readable and _hold(self._during_execution, node)


def _hold(selectors: Iterable[NodeTerms], node: Node) -> bool:
    labels, name = node.metadata.labels or {}, node.metadata.name or ""
    return all(selector.matches(labels, name) for selector in selectors)
