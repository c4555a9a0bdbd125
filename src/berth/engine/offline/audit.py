"""What is wrong with the pods that run: the rules they break now, uneven spreading, and who would be evicted.

A pod breaks a rule if the rule would refuse its own node, were the pod placed there now (see
`berth.engine.offline.violations`).  Pods of one class on one node are alike, so the rules are asked about a
class and all its nodes at once, with one such pod imagined gone from each; only where one is refused,
the pods are looked at one by one.  Pods that are being deleted are left alone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from berth.engine.execution.eviction_ceiling import (
    RELEASE_ANNOTATION,
    Ceiling,
    Halt,
    measured,
    released_domains,
    stopping,
)
from berth.engine.execution.eviction_set import PodToEvict, eviction_set
from berth.engine.execution.replacements import replacement_nodes
from berth.engine.execution.violations import NODE, Violation, all_violations
from berth.engine.offline.budgets import AllowedDisruptions, DisruptionBudget, budgets_of
from berth.engine.offline.topology import Spread, spreads_of
from berth.engine.rules import AUDITED_RULES, RULES, filtering_rules
from berth.engine.rules.base import NodeRule, Rule, TopologyRule
from berth.engine.rules.verdicts import RuleViolation
from berth.engine.state.hypothetical_removal import HypotheticalRemoval, RemovablePods
from berth.kube.objects import Namespace
from berth.kube.pods import is_terminating
from berth.kube.times import seconds_of
from berth.kube.well_known import MIRROR_POD, SYSTEM_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from berth.engine.offline.snapshot import Entry, Progress, Snapshot
    from berth.engine.state.arrays import IndexArray
    from berth.engine.state.cluster import Cluster
    from berth.engine.state.pod_class import PodClass

# These keep newcomers away and say nothing about the pods that were there before.
_FOR_NEWCOMERS = frozenset(rule.name for rule in RULES if rule.for_newcomers)
_EVICTING_RULES = tuple(rule.name for rule in RULES if rule.evicts)


@dataclass(frozen=True, slots=True)
class AuditViolation:
    """A rule that a running pod breaks where it runs."""

    entry: Entry
    node: str
    finding: RuleViolation

    @property
    def hard(self) -> bool:
        """False for a cordon or a NoSchedule taint, which running pods need not mind."""
        return self.finding.execution or self.finding.rule not in _FOR_NEWCOMERS


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod that the controllers would evict.

    Attributes:
        violations: What its going heals: rules of its own, or of others.
        lands_on: Where its replacement would go, None if it fits nowhere.
        stopped_by: The budgets that do not allow it now.
        halt: Nobody is evicted there, since too many would go.
    """

    entry: Entry
    node: str
    violations: tuple[Violation, ...]
    lands_on: str | None
    stopped_by: tuple[DisruptionBudget, ...]
    halt: Halt | None = None

    @property
    def held_back(self) -> bool:
        return self.halt is not None or bool(self.stopped_by)


@dataclass(slots=True)
class Audit:
    """What an audit of a snapshot found.

    Attributes:
        violations: In the order of the pods, then of the rules.
        spreads: Every constraint that running pods state.
        evictions: In the order in which they would be made, as far as budgets and halts allow.
        halts: Where too many would go at once.
        faulty: Pods whose affinity annotation is not valid: nobody enforces its rules.
    """

    snapshot: Snapshot
    violations: list[AuditViolation] = field(default_factory=list)
    spreads: list[Spread] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    budgets: list[DisruptionBudget] = field(default_factory=list)
    halts: list[Halt] = field(default_factory=list)
    faulty: list[Entry] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether every hard rule holds."""
        uneven = any(spread.hard and not spread.ok for spread in self.spreads)
        return not uneven and not any(violation.hard for violation in self.violations)

    def only(self, namespace: str | None = None, rules: Iterable[str] = ()) -> Audit:
        """The part about one namespace, and about some rules; without rules, about all."""
        rules = frozenset(rules) or frozenset(AUDITED_RULES)

        def wanted(found: str) -> bool:
            return namespace in (None, found)

        evictions = [
            eviction
            for eviction in self.evictions
            if wanted(eviction.entry.namespace) and not rules.isdisjoint(_rules_of(eviction))
        ]
        halting = {eviction.halt for eviction in evictions}
        return Audit(
            self.snapshot,
            [v for v in self.violations if wanted(v.entry.namespace) and v.finding.rule in rules],
            [s for s in self.spreads if wanted(s.namespace) and s.rule in rules],
            evictions,
            [b for b in self.budgets if wanted(b.namespace)],
            [halt for halt in self.halts if halt in halting],
            [e for e in self.faulty if wanted(e.namespace)] if not rules.isdisjoint(_EVICTING_RULES) else [],
        )


def _rules_of(eviction: Eviction) -> set[str]:
    return {_EVICTING_RULES[violation.kind != NODE] for violation in eviction.violations}


def audit(snapshot: Snapshot, progress: Progress | None = None, ceiling: Ceiling | None = None) -> Audit:
    """Judge the running pods of a snapshot; `progress` is told how many were, and of how many.

    `ceiling` says when the controllers would stop; by default as they do if nobody tells them otherwise.
    """
    cluster = snapshot.cluster
    living = [entry for entry in snapshot.running if _counts(cluster, entry)]
    budgets = budgets_of(snapshot)
    to_evict = _to_evict(cluster, living)
    halts = _halts(snapshot, to_evict, ceiling or Ceiling())
    return Audit(
        snapshot,
        list(_violations(cluster, living, progress)),
        spreads_of(cluster, living),
        list(_evictions(cluster, to_evict, halts, budgets)),
        budgets,
        list(halts.by_domain.values()),
        [entry for entry in living if entry.fault is not None and not _is_mirror(entry)],
    )


def _is_mirror(entry: Entry) -> bool:
    return MIRROR_POD in (entry.pod.metadata.annotations or {})


def _counts(cluster: Cluster, entry: Entry) -> bool:
    return not is_terminating(entry.pod) and (entry.pod.spec.node_name or "") in cluster.nodes.slot_of


# --- who breaks what ----------------------------------------------------------------------


def _violations(
    cluster: Cluster, entries: list[Entry], progress: Progress | None
) -> Iterator[AuditViolation]:
    groups: dict[PodClass, dict[int, list[str]]] = {}
    for entry in entries:
        known = cluster.find_pod(entry.key)
        if known is not None:
            slot = cluster.nodes.slot_of[known[1]]
            groups.setdefault(known[0], {}).setdefault(slot, []).append(entry.key)
    findings: dict[str, list[RuleViolation]] = {}
    done = 0
    for pod_class, members in groups.items():
        findings.update(_of_class(cluster, pod_class, members))
        done += sum(map(len, members.values()))
        if progress is not None:
            progress(done, len(entries))
    for entry in entries:
        for finding in findings.get(entry.key, ()):
            yield AuditViolation(entry, entry.pod.spec.node_name or "", finding)


def _of_class(
    cluster: Cluster, pod_class: PodClass, members: dict[int, list[str]]
) -> Iterator[tuple[str, list[RuleViolation]]]:
    """What the pods of a class break; `members` are their keys by the slots they run on."""
    rules = filtering_rules(cluster, pod_class)
    # Taking the pod of a class of its own (a DaemonSet's) out is faster than imagining it gone.
    doubted = _refused(cluster, rules, members) if len(members) > 1 else dict.fromkeys(members, rules)
    for slot, refusing in doubted.items():
        # What the node object alone decides is the same for all pods of the class.
        shared = {rule.name: list(rule.violations(slot)) for rule in refusing if _is_static(rule)}
        for key in members[slot]:
            if len(shared) == len(refusing):
                yield key, [finding for found in shared.values() for finding in found]
                continue
            with cluster.without(key):
                found = [shared[r.name] if _is_static(r) else list(r.violations(slot)) for r in refusing]
            yield key, [finding for part in found for finding in part]
    for rule in rules:
        if isinstance(rule, TopologyRule):
            rule.release()


def _refused(cluster: Cluster, rules: list[Rule], members: dict[int, list[str]]) -> dict[int, list[Rule]]:
    """The slots on which the pods of a class break rules."""
    slots: IndexArray = np.fromiter(members, dtype=np.intp, count=len(members))
    pods: IndexArray = np.array([cluster.pods.index[keys[0]] for keys in members.values()], dtype=np.intp)
    gone = HypotheticalRemoval(RemovablePods(cluster, pods), np.ones(len(pods), dtype=np.bool_))
    found: dict[int, list[Rule]] = {}
    for rule in rules:
        refused = {slot for verdict in rule.verdicts(slots, gone) for slot in verdict.slots.tolist()}
        for slot in sorted(refused):
            found.setdefault(slot, []).append(rule)
    return found


def _is_static(rule: Rule) -> bool:
    return isinstance(rule, NodeRule) and rule.static


# --- who would go -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Halts:
    """Where evictions are halted.

    Attributes:
        domain_of: Node -> the domain it is in, empty if in none.
    """

    by_domain: dict[str, Halt]
    domain_of: dict[str, str]

    def of(self, node: str) -> Halt | None:
        return stopping(self.by_domain, self.domain_of.get(node, ""))


def _to_evict(cluster: Cluster, entries: list[Entry]) -> list[tuple[Entry, PodToEvict]]:
    # A mirror pod is a kubelet's own: evicting it would not make it go.
    by_key = {entry.key: entry for entry in entries if not _is_mirror(entry)}
    violations = [violation for violation in all_violations(cluster) if violation.pod in by_key]
    found = eviction_set(
        cluster,
        violations,
        started=lambda key: _created(by_key[key]) if key in by_key else 0.0,
        staying={e.key for e in entries} - by_key.keys(),
    )
    return [(by_key[evicted.pod], evicted) for evicted in found if evicted.pod in by_key]


def _created(entry: Entry) -> float:
    return seconds_of(entry.pod.metadata.creation_timestamp) or 0.0


def _halts(snapshot: Snapshot, to_evict: list[tuple[Entry, PodToEvict]], ceiling: Ceiling) -> _Halts:
    key = ceiling.domain_key
    domain_of = {name: (node.metadata.labels or {}).get(key, "") for name, node in snapshot.nodes.items()}

    def counted(entries: Iterable[Entry]) -> Counter[str]:
        return Counter(domain_of.get(entry.pod.spec.node_name or "", "") for entry in entries)

    running = counted(entry for entry in snapshot.running if not is_terminating(entry.pod))
    found = measured(counted(entry for entry, _ in to_evict), running)
    return _Halts(ceiling.exceeded(found, _released(snapshot)), domain_of)


def _released(snapshot: Snapshot) -> frozenset[str]:
    for manifest in snapshot.manifests:
        if isinstance(manifest.object, Namespace) and manifest.name == SYSTEM_NAMESPACE:
            return released_domains((manifest.object.metadata.annotations or {}).get(RELEASE_ANNOTATION))
    return frozenset()


def _evictions(
    cluster: Cluster, to_evict: list[tuple[Entry, PodToEvict]], halts: _Halts, budgets: list[DisruptionBudget]
) -> Iterator[Eviction]:
    """In order: those that are halted after those that are not, and last who would fit nowhere."""
    halted = {entry.key: halts.of(entry.pod.spec.node_name or "") for entry, _ in to_evict}
    to_evict = sorted(to_evict, key=lambda each: halted[each[0].key] is not None)
    targets = replacement_nodes(cluster, [evicted for _, evicted in to_evict])
    to_evict.sort(key=lambda each: (halted[each[0].key] is not None, targets.get(each[0].key) is None))
    allowed = AllowedDisruptions(budgets)
    for entry, evicted in to_evict:
        yield Eviction(
            entry,
            entry.pod.spec.node_name or "",
            evicted.violations,
            targets.get(entry.key),
            allowed.evict(entry),
            halted[entry.key],
        )
