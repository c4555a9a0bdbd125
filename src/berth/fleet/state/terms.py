"""A workload's rules about other workloads: three ways to write them, one kind of term.

* Karmada's own: ``spec.workloadAffinityGroups`` of the binding.  A group is a label that only
  bindings of the group have (`AFFINITY_GROUP`, `ANTI_AFFINITY_GROUP`, names no label can have), so
  that a group is selected like anything else.
* Option 1 of proposal 521: a label selector and label keys whose values the peers share.
* Option 2: ``affinityEnabled``, with the keys taken from the scheduler's flags.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from berth.fleet.state.options import FleetOptions
from berth.kube.karmada import (
    TOPOLOGY_PREFIX,
    Binding,
    Placement,
    WorkloadAntiAffinity,
    WorkloadTerm,
)
from berth.kube.selectors import NOTHING, Selector, parse_label_selector, selector_from_labels

AFFINITY_GROUP = "=affinity"
ANTI_AFFINITY_GROUP = "=anti-affinity"

CLUSTER, ZONE, REGION, PROVIDER = "cluster", "zone", "region", "provider"


class TermError(ValueError):
    """A rule that cannot be followed; says which, and what to do."""


@dataclass(frozen=True, slots=True)
class WorkloadRule:
    """Peers that a workload belongs with, or must be kept from.

    Attributes:
        selector: Which workloads are peers.
        namespaces: Where they are looked for, besides those that `namespace_selector` selects.
        topology: What is shared or not: a cluster, its zone, region or provider, or a label of it.
        everyone: A domain will do only if every placed peer is there, not just one of them.
        group: The group as Karmada writes it, ``key=value``; None for the proposal's terms.
        weight: Of a preference; 0 for a requirement.
        idle: Why it can never select a workload; empty if it can.
    """

    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector | None = None
    topology: str = CLUSTER
    everyone: bool = False
    group: str | None = None
    weight: int = 0
    idle: str = ""

    def __str__(self) -> str:
        if self.group is not None:
            return f"group {self.group}"
        where = "" if self.topology == CLUSTER else f" by {self.topology}"
        return f"workloads {self.selector}{where}"


@dataclass(frozen=True, slots=True)
class WorkloadRules:
    """All of a workload's rules about others; the last two are preferences."""

    affinity: tuple[WorkloadRule, ...] = ()
    anti_affinity: tuple[WorkloadRule, ...] = ()
    preferred_affinity: tuple[WorkloadRule, ...] = ()
    preferred_anti_affinity: tuple[WorkloadRule, ...] = ()

    @property
    def all(self) -> tuple[WorkloadRule, ...]:
        return self.affinity + self.anti_affinity + self.preferred_affinity + self.preferred_anti_affinity


NO_RULES = WorkloadRules()
_NONE = WorkloadAntiAffinity()


def groups_of(binding: Binding) -> dict[str, str]:
    """The groups of a binding, as the labels the index has them under."""
    groups = binding.spec.workload_affinity_groups
    if groups is None:
        return {}
    named = ((AFFINITY_GROUP, groups.affinity_group), (ANTI_AFFINITY_GROUP, groups.anti_affinity_group))
    return {label: group for label, group in named if group}


def derived_groups(placement: Placement | None, labels: Mapping[str, str]) -> dict[str, str]:
    """The groups Karmada would have written, had its gate been on where bindings are made."""
    rules = placement.workload_affinity if placement is not None else None
    if rules is None:
        return {}
    named = ((AFFINITY_GROUP, rules.affinity), (ANTI_AFFINITY_GROUP, rules.anti_affinity))
    keys = ((label, term.group_by_label_key) for label, term in named if term is not None)
    return {label: f"{key}={labels[key]}" for label, key in keys if key and key in labels}


def rules_of(
    placement: Placement,
    namespace: str,
    labels: Mapping[str, str],
    groups: Mapping[str, str],
    options: FleetOptions,
) -> WorkloadRules:
    """The rules of a workload with these labels.

    Raises:
        TermError: a term needs keys that were not configured.
    """
    here = frozenset((namespace,))
    grouped = {label: (_group_rule(label, group, here),) for label, group in groups.items()}
    near = _Compiler(here, labels, options.affinity_label_keys, "--affinity-label-keys")
    apart = _Compiler(here, labels, options.anti_affinity_label_keys, "--anti-affinity-label-keys")
    with_ = placement.workload_affinity or _NONE
    against = placement.workload_anti_affinity or _NONE
    return WorkloadRules(
        grouped.get(AFFINITY_GROUP, ()) + near.required(with_),
        grouped.get(ANTI_AFFINITY_GROUP, ()) + apart.required(against),
        near.preferred(with_),
        apart.preferred(against),
    )


def _group_rule(label: str, group: str, namespaces: frozenset[str]) -> WorkloadRule:
    selector = selector_from_labels({label: group})
    return WorkloadRule(selector, namespaces, everyone=label == AFFINITY_GROUP, group=group)


@dataclass(frozen=True, slots=True)
class _Compiler:
    """Compiles the terms of proposal 521 of one workload, all of affinity or all of anti-affinity."""

    here: frozenset[str]
    labels: Mapping[str, str]
    keys: tuple[str, ...]
    flag: str

    def required(self, rules: WorkloadAntiAffinity) -> tuple[WorkloadRule, ...]:
        terms = rules.required_during_scheduling_ignored_during_execution or ()
        return self._rules((term, 0) for term in terms)

    def preferred(self, rules: WorkloadAntiAffinity) -> tuple[WorkloadRule, ...]:
        weighted = rules.preferred_during_scheduling_ignored_during_execution or ()
        return self._rules((each.workload_affinity_term, each.weight or 0) for each in weighted)

    def _rules(self, terms: Iterable[tuple[WorkloadTerm | None, int]]) -> tuple[WorkloadRule, ...]:
        used = ((term, weight) for term, weight in terms if term and term.affinity_enabled is not False)
        return tuple(self._rule(term, weight) for term, weight in used)

    def _rule(self, term: WorkloadTerm, weight: int) -> WorkloadRule:
        selector = self._same_keys() if term.affinity_enabled else self._selector(term)
        selected = parse_label_selector(term.namespace_selector) if term.namespace_selector else None
        here = frozenset() if selected is not None else self.here
        namespaces = frozenset(term.namespaces) if term.namespaces else here
        topology = topology_of(term.topology_key)
        idle = self._idle(term) if selector.nothing else ""
        return WorkloadRule(selector, namespaces, selected, topology, weight=weight, idle=idle)

    def _idle(self, term: WorkloadTerm) -> str:
        if not term.affinity_enabled and term.label_selector is None:
            return "it has no labelSelector"
        keys = self.keys if term.affinity_enabled else term.match_label_keys or ()
        return lacks_labels(*(key for key in keys if key not in self.labels))

    def _selector(self, term: WorkloadTerm) -> Selector:
        """The selector of a term; a term on a label that the workload lacks selects nothing."""
        shared = term.match_label_keys or ()
        if any(key not in self.labels for key in shared):
            return NOTHING
        equal = selector_from_labels({key: self.labels[key] for key in shared})
        return parse_label_selector(term.label_selector).also(equal.requirements)

    def _same_keys(self) -> Selector:
        if not self.keys:
            message = f"affinityEnabled is set, but the scheduler has no {self.flag} to compare workloads by"
            raise TermError(message)
        shared = {key: self.labels[key] for key in self.keys if key in self.labels}
        return selector_from_labels(shared) if shared else NOTHING


def lacks_labels(*keys: str) -> str:
    return f"the workload has no label {' or '.join(keys)}"


def topology_of(key: str | None) -> str:
    """A topology key as the index knows it: the four properties of a cluster, or one of its labels."""
    if not key:
        return CLUSTER
    name = key.removeprefix(TOPOLOGY_PREFIX)
    return name if name in (CLUSTER, ZONE, REGION, PROVIDER) else key
