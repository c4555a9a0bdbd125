"""Node selectors and node affinity: which nodes a pod may use, and would rather use.

`nodeSelector` and every required selector must hold (both variants; they differ only in what
happens when they stop holding), and so must the profile's `addedAffinity`.  The terms of one
selector are alternatives.  See the node-affinity design document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from berth.engine.rules.base import NodeRule
from berth.engine.rules.node_affinity import clues, execution, relax
from berth.engine.rules.node_affinity.matching import (
    REASON_POD,
    found_label,
    has_required,
    match_required,
    match_term,
    match_terms,
)
from berth.engine.rules.relaxing import Change, Question
from berth.engine.rules.verdicts import (
    ERROR,
    PROCEED,
    SKIPPED,
    UNRESOLVABLE,
    RuleVerdict,
    RuleViolation,
    StepStatus,
)
from berth.engine.state.arrays import BoolArray, IndexArray, IntArray, Slots
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import ClusterEvent, NodeUpdated
from berth.engine.state.pod_class import PodClass
from berth.kube import objects
from berth.kube.selectors import (
    NodeTerms,
    Requirement,
    aggregate,
    parse_node_selector,
    parse_preferred_terms,
)
from berth.kube.well_known import NODE_NAME_FIELD

REASON_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT = "pod affinity terms conflict"


class NodeAffinity(NodeRule):
    name = "NodeAffinity"
    evicts = True
    names_nodes = True
    relax_rank = 6
    scaling = True

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        super().__init__(cluster, pod_class)
        added = pod_class.options.added_affinity or objects.NodeAffinity()
        self._enforced = [
            selector
            for selector in (
                parse_node_selector(added.required_during_scheduling_ignored_during_execution),
                parse_node_selector(added.required_during_scheduling_required_during_execution),
            )
            if selector is not None
        ]
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
        if errors:
            self.prescore = StepStatus(ERROR, (aggregate(errors),))
        else:
            self.prescore = PROCEED if self.scores else SKIPPED

    def clues(self, question: Question) -> Iterable[str]:
        return clues.clues(question)

    @classmethod
    def relaxations(cls, question: Question) -> Iterable[Change]:
        return relax.relaxations(question)

    @classmethod
    def wanted_labels(cls, question: Question) -> Iterable[tuple[str, str]]:
        return relax.wanted_labels(question)

    def _prefilter(self) -> StepStatus:
        """Narrow to named nodes where every alternative names its node."""
        allowed: frozenset[str] | None = None
        for required in self.pod_class.required_nodes:
            named = _named_nodes(required.source)
            if named is not None:
                allowed = named if allowed is None else allowed & named
        if allowed is None:
            return PROCEED
        if not allowed:
            return StepStatus(UNRESOLVABLE, (REASON_CONFLICT,))
        return StepStatus(node_names=tuple(sorted(allowed)))

    def feasible(self, slots: Slots) -> BoolArray:
        matches = match_required(self.nodes, self.pod_class, slots)
        for enforced in self._enforced:
            matches &= match_terms(self.nodes, enforced, slots)
        return matches

    def admits(self, slot: int) -> bool:
        return self._matches(self.nodes.labels[slot] or {}, self.nodes.names[slot] or "")

    def _matches(self, labels: Mapping[str, str], name: str) -> bool:
        return has_required(self.pod_class, labels, name) and all(
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
            total += weighted.weight * match_term(self.nodes, weighted.term, slots)
        return total

    def verdict(self, slot: int) -> RuleVerdict | None:
        found = list(self.violations(slot))
        if not found:
            return None
        reason = found[0].reason
        # Upstream looks at the pod's own rules only if the profile's hold.
        causes = [found[0]] if reason == REASON_ENFORCED else found
        return RuleVerdict(self.name, UNRESOLVABLE, (reason,), tuple(violation.cause for violation in causes))

    def violations(self, slot: int) -> Iterable[RuleViolation]:
        at = np.array([slot], dtype=np.intp)
        for enforced in self._enforced:
            if not match_terms(self.nodes, enforced, at)[0]:
                yield RuleViolation(self.name, REASON_ENFORCED, f"addedAffinity wants {enforced}")
        yield from self._unmet(slot)

    @classmethod
    def execution_violations(
        cls, cluster: Cluster, pod_class: PodClass, pods: IndexArray
    ) -> Iterable[RuleViolation]:
        return execution.violations(cls.name, cluster, pod_class, pods)

    def _unmet(self, slot: int) -> Iterable[RuleViolation]:
        labels, name = self.nodes.labels[slot] or {}, self.nodes.names[slot] or ""
        selector = self.pod_class.node_selector
        if selector is not None:
            for requirement in sorted(selector.requirements, key=str):
                if not requirement.matches(labels):
                    key = requirement.key
                    cause = f"nodeSelector wants {requirement}, the node has {found_label(labels, key)}"
                    yield RuleViolation(self.name, REASON_POD, cause, f"spec.nodeSelector[{key}]")
        for required in self.pod_class.required_nodes:
            if required.selector.matches(labels, name):
                continue
            wanted = [
                f"{r}, the node has {found_label(labels, r.key)}"
                for r in _first_unmet(required.selector, labels)
            ]
            detail = wanted[0] if len(wanted) == 1 else str(required.selector)
            cause = f"{required.path.rpartition('.')[2]} wants {detail}"
            yield RuleViolation(self.name, REASON_POD, cause, required.path, required.execution)


def _first_unmet(selector: NodeTerms, labels: dict[str, str]) -> list[Requirement]:
    """The requirement to name when there is just one candidate, so that the sentence can be precise."""
    unmet = [r for term in selector.terms for r in term.labels if not r.matches(labels)]
    return unmet if len(selector.terms) == 1 else []


def _named_nodes(selector: objects.NodeSelector) -> frozenset[str] | None:
    """The node names a required selector allows, None if some alternative leaves the name open."""
    if not selector.node_selector_terms:
        return None
    allowed: frozenset[str] = frozenset()
    for term in selector.node_selector_terms:
        named: frozenset[str] | None = None
        for field in (term and term.match_fields) or ():
            if field.key == NODE_NAME_FIELD and field.operator == "In":
                values = frozenset(field.values or ())
                named = values if named is None else named & values
        if named is None:
            return None
        allowed |= named
    return allowed
