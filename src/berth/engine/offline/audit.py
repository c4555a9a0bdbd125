"""What is wrong with the pods that run: the rules they break now, uneven spreading, and who would be evicted.

A pod breaks a rule if the rule would refuse its own node, were the pod placed there now (see
`berth.engine.execution.violations`).  Pods that are being deleted are left alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from berth.engine.execution import rebalancing
from berth.engine.execution.eviction_ceiling import (
    Ceiling,
    Halt,
    counted_halts,
    is_replaced,
    measured,
    released_domains,
    stopping,
)
from berth.engine.execution.eviction_set import PodToEvict, eviction_set, replacement_nodes
from berth.engine.execution.rebalancing import Move, Rebalance
from berth.engine.execution.removal_order import counted_selectors, has_order
from berth.engine.execution.violations import all_violations, placement_violations
from berth.engine.offline.budgets import AllowedDisruptions, DisruptionBudget, budgets_of, may_be_ready
from berth.engine.offline.snapshot import Entry, Snapshot, WorkloadManifests
from berth.engine.offline.topology import Spread, spreads_of
from berth.engine.offline.workloads import replicas_of
from berth.engine.rules import AUDITED_RULES, RULES
from berth.engine.rules.verdicts import RuleViolation
from berth.engine.state.cluster import Cluster
from berth.kube.manifests.manifest import Progress
from berth.kube.objects import Namespace, Workload
from berth.kube.ownership import controller_of
from berth.kube.pods import is_terminating
from berth.kube.times import seconds_of
from berth.kube.well_known import KEEP_SPREAD, REBALANCE, RELEASE_ANNOTATION, SYSTEM_NAMESPACE

_EVICTING_RULES = tuple(rule.name for rule in RULES if rule.evicts)


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod that the controllers would evict.

    Attributes:
        violations: What its going heals: rules of its own, or of others.
        replacement_node: Where its replacement would go, None if it fits nowhere.
        stopped_by: The budgets that do not allow it now.
        halt: The domain is halted, since too many would go.
        one_by_one: It goes all the same when it is its turn, since its replacement has a node.
    """

    entry: Entry
    violations: tuple[RuleViolation, ...]
    replacement_node: str | None
    stopped_by: tuple[DisruptionBudget, ...]
    halt: Halt | None = None
    one_by_one: bool = False

    @property
    def halted(self) -> bool:
        """Whether it stays until a halt is over."""
        return self.halt is not None and not self.one_by_one


@dataclass(frozen=True, slots=True)
class WorkloadMoves:
    """What would be moved of one uneven workload.

    Attributes:
        turns: Which of all moves of an audit each of them is, from 1: the workloads take turns.
        stays_because: Why there are no more though it is still uneven; None if it is not.
        stopped_by: The budgets that allow no move now.
    """

    namespace: str
    owner: str
    moves: tuple[Move, ...]
    stays_because: str | None
    stopped_by: tuple[DisruptionBudget, ...] = ()
    turns: tuple[int, ...] = ()


@dataclass
class Audit:
    """What an audit of a snapshot found.

    Attributes:
        violations: In the order of the pods, then of the rules.
        spreads: Every constraint that running pods state.
        evictions: In the order in which they would be made, as far as budgets and halts allow.
        halts: Where too many would go at once.
        faulty: Pods whose affinity annotation is not valid: nobody enforces its rules.
        rebalancing: What would be moved, if that was asked for.
    """

    snapshot: Snapshot
    violations: list[RuleViolation] = field(default_factory=list)
    spreads: list[Spread] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    budgets: list[DisruptionBudget] = field(default_factory=list)
    halts: list[Halt] = field(default_factory=list)
    faulty: list[Entry] = field(default_factory=list)
    rebalancing: list[WorkloadMoves] | None = None

    @property
    def clean(self) -> bool:
        """Whether every hard rule holds."""
        uneven = any(spread.hard and not spread.ok for spread in self.spreads)
        return not uneven and not any(violation.hard for violation in self.violations)

    @cached_property
    def entries(self) -> dict[str, Entry]:
        """The running pods by name, ``namespace/name``."""
        return {entry.key: entry for entry in self.snapshot.running}

    def only(self, namespace: str | None = None, rules: Iterable[str] = ()) -> Audit:
        """The part about one namespace, and about some rules; without rules, about all."""
        rules = frozenset(rules) or frozenset(AUDITED_RULES)

        def wanted(found: str) -> bool:
            return namespace in (None, found)

        evictions = [
            eviction
            for eviction in self.evictions
            if wanted(eviction.entry.namespace) and not rules.isdisjoint(v.rule for v in eviction.violations)
        ]
        halting = {eviction.halt for eviction in evictions}
        return Audit(
            self.snapshot,
            [v for v in self.violations if wanted(self.entries[v.pod].namespace) and v.rule in rules],
            [s for s in self.spreads if wanted(s.namespace) and s.rule in rules],
            evictions,
            [b for b in self.budgets if wanted(b.namespace)],
            [halt for halt in self.halts if halt in halting],
            [e for e in self.faulty if wanted(e.namespace)] if not rules.isdisjoint(_EVICTING_RULES) else [],
            None if self.rebalancing is None else [w for w in self.rebalancing if wanted(w.namespace)],
        )


def audit(
    snapshot: Snapshot,
    progress: Progress | None = None,
    ceiling: Ceiling | None = None,
    rebalance: Rebalance | None = None,
) -> Audit:
    """Judge the running pods of a snapshot; `progress` is told how many were, and of how many.

    `ceiling` says when the controllers would stop; by default as they do if nobody tells them otherwise.
    `rebalance` is what workloads may be moved for that say nothing themselves; None not to ask.
    """
    cluster = snapshot.cluster
    living = snapshot.living
    executed = all_violations(cluster)
    broken = _reconciled(placement_violations(cluster, [entry.key for entry in living], progress), executed)
    budgets = budgets_of(snapshot)
    to_evict = _to_evict(cluster, living, executed)
    ceiling = ceiling or Ceiling()
    halts = _halts(snapshot, to_evict, ceiling)
    evictions = list(_evictions(cluster, to_evict, halts, budgets, ceiling))
    return Audit(
        snapshot,
        [violation for entry in living for violation in broken.get(entry.key, ())],
        spreads_of(cluster, living),
        evictions,
        budgets,
        list(halts.by_domain.values()),
        [entry for entry in living if entry.fault is not None and not entry.is_mirror],
        None if rebalance is None else rebalanced(snapshot, living, budgets, rebalance),
    )


def _reconciled(
    placed: dict[str, list[RuleViolation]], executed: list[RuleViolation]
) -> dict[str, list[RuleViolation]]:
    """The rules that would refuse pods where they are, with those marked that the controllers find broken.

    When a pod is placed, its required affinity terms are judged together: one peer must match them all.
    While it runs, only those of them count that must hold then, so that such a term may hold by itself.
    """
    broken = {(violation.pod, violation.path): violation for violation in executed}
    found: dict[str, list[RuleViolation]] = {}
    for pod, violations in placed.items():
        found[pod] = [
            violation
            if violation.of_peer or violation.rule not in _EVICTING_RULES
            else replace(
                violation, because=replace(violation.because, execution=(pod, violation.path) in broken)
            )
            for violation in violations
        ]
    known = {(pod, violation.path) for pod, violations in placed.items() for violation in violations}
    for (pod, path), violation in broken.items():
        if (pod, path) not in known:
            found.setdefault(pod, []).append(violation)
    return found


# --- who would go -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Halts:
    """Where evictions are halted; `domain_of` a node is empty if it is in none."""

    by_domain: dict[str, Halt]
    domain_of: dict[str, str]

    def of(self, node: str) -> Halt | None:
        return stopping(self.by_domain, self.domain_of.get(node, ""))

    def count(self, movable: Collection[str], halted: Iterable[Entry]) -> None:
        """Say of every halt how many go all the same, and how many stay."""
        one_by_one: Counter[str] = Counter()
        staying: Counter[str] = Counter()
        for entry in halted:
            domain = self.domain_of.get(entry.node, "")
            (one_by_one if entry.key in movable else staying)[domain] += 1
        self.by_domain.update(counted_halts(self.by_domain, one_by_one, staying))


def _to_evict(
    cluster: Cluster, entries: list[Entry], executed: list[RuleViolation]
) -> list[tuple[Entry, PodToEvict]]:
    by_key = {entry.key: entry for entry in entries if not entry.is_mirror}
    violations = [violation for violation in executed if violation.pod in by_key]
    found = eviction_set(
        cluster,
        violations,
        started=lambda key: (key in by_key and seconds_of(by_key[key].created)) or 0.0,
        staying={e.key for e in entries} - by_key.keys(),
    )
    return [(by_key[evicted.pod], evicted) for evicted in found if evicted.pod in by_key]


def _halts(snapshot: Snapshot, to_evict: list[tuple[Entry, PodToEvict]], ceiling: Ceiling) -> _Halts:
    key = ceiling.domain_key
    domain_of = {name: (node.metadata.labels or {}).get(key, "") for name, node in snapshot.nodes.items()}

    def counted(entries: Iterable[Entry]) -> Counter[str]:
        return Counter(domain_of.get(entry.node, "") for entry in entries)

    running = counted(entry for entry in snapshot.running if not is_terminating(entry.pod))
    found = measured(counted(entry for entry, _ in to_evict), running)
    return _Halts(ceiling.exceeded(found, _released(snapshot)), domain_of)


def _released(snapshot: Snapshot) -> frozenset[str]:
    for manifest in snapshot.manifests:
        if isinstance(manifest.object, Namespace) and manifest.name == SYSTEM_NAMESPACE:
            return released_domains((manifest.object.metadata.annotations or {}).get(RELEASE_ANNOTATION))
    return frozenset()


def _evictions(
    cluster: Cluster,
    to_evict: list[tuple[Entry, PodToEvict]],
    halts: _Halts,
    budgets: list[DisruptionBudget],
    ceiling: Ceiling,
) -> Iterator[Eviction]:
    """In order: those of halted domains after the others, and last who would fit nowhere."""
    free = [each for each in to_evict if halts.of(each[0].node) is None]
    halted = [each for each in to_evict if halts.of(each[0].node) is not None]
    # Those of halted domains that nobody replaces do not go: the others find them where they are.
    halted.sort(key=lambda each: not is_replaced(each[0].pod.metadata))
    targets = replacement_nodes(cluster, [evicted for _, evicted in (*free, *halted)])
    for some in (free, halted):
        some.sort(key=lambda each: targets.get(each[0].key) is None)
    movable = {e.key for e, _ in halted if ceiling.allows(e.pod.metadata, targets.get(e.key))}
    halts.count(movable, [entry for entry, _ in halted])
    allowed = AllowedDisruptions(budgets)
    for entry, evicted in (*free, *halted):
        yield Eviction(
            entry,
            evicted.violations,
            targets.get(entry.key),
            allowed.evict(entry),
            halts.of(entry.node),
            entry.key in movable,
        )


# --- who would move -----------------------------------------------------------------------


def wanted_moves(snapshot: Snapshot) -> list[WorkloadMoves]:
    """What would be moved of the workloads that say that they may be."""
    asking = any(
        REBALANCE in (manifest.object.metadata.annotations or {})
        for manifest in snapshot.manifests
        if manifest.object is not None
    )
    if not asking:
        return []
    return rebalanced(snapshot, snapshot.living, budgets_of(snapshot), Rebalance())


def rebalanced(
    snapshot: Snapshot, living: Sequence[Entry], budgets: Sequence[DisruptionBudget], default: Rebalance
) -> list[WorkloadMoves]:
    """What the controllers would move of every ReplicaSet that is uneven, and may be moved."""
    groups, owners = _groups(snapshot, living), snapshot.by_owner
    rest = _Rest(owners, living)
    movable: list[tuple[Entry, rebalancing.MovableGroup]] = []
    found: list[WorkloadMoves] = []
    for key, members in groups.items():
        entry = members[-1]
        how = _how(owners, key, entry, default)
        if how.policy is rebalancing.RebalancePolicy.OFF:
            continue
        witnesses = _witnesses(snapshot, entry, groups)
        group = rebalancing.MovableGroup(tuple(each.key for each in members), witnesses, how)
        refusal = rest.missing(key, members)
        stopped = tuple(b for b in budgets if b.protects(entry) and not b.allowed)
        if refusal or stopped:
            if rebalancing.plan_moves(snapshot.cluster, [group], 1)[0]:
                why = refusal or "budget"
                found.append(WorkloadMoves(entry.namespace, entry.owner or "", (), why, stopped))
            continue
        movable.append((entry, group))
    moves, ends = rebalancing.plan_moves(snapshot.cluster, [group for _, group in movable])
    for (entry, group), end in zip(movable, ends, strict=True):
        turns = tuple(turn for turn, move in enumerate(moves, start=1) if move.pod in group.pods)
        own = tuple(moves[turn - 1] for turn in turns)
        if own or end is not None:
            found.append(WorkloadMoves(entry.namespace, entry.owner or "", own, end, turns=turns))
    return found


def _groups(snapshot: Snapshot, living: Sequence[Entry]) -> dict[tuple[str, str], list[Entry]]:
    """The pods of every ReplicaSet that spreads them, oldest first."""
    found: dict[tuple[str, str], list[Entry]] = {}
    for entry in living:
        owner, counted = controller_of(entry.pod.metadata), snapshot.cluster.find_pod(entry.key)
        if owner is not None and owner.kind == "ReplicaSet" and counted is not None and has_order(counted[0]):
            found.setdefault((entry.namespace, owner.name or ""), []).append(entry)
    for members in found.values():
        members.sort(key=lambda entry: (entry.created or "", entry.key))
    return dict(sorted(found.items()))


def _witnesses(
    snapshot: Snapshot, entry: Entry, groups: dict[tuple[str, str], list[Entry]]
) -> tuple[str, ...]:
    labels, found = entry.pod.metadata.labels or {}, [entry.key]
    for (namespace, _), members in groups.items():
        counted = snapshot.cluster.find_pod(members[-1].key)
        if namespace != entry.namespace or counted is None or members[-1] is entry:
            continue
        if any(selector.matches(labels) for selector in counted_selectors(counted[0])):
            found.append(members[-1].key)
    return tuple(found)


def _how(owners: WorkloadManifests, key: tuple[str, str], entry: Entry, default: Rebalance) -> Rebalance:
    """As its workload says, or else its ReplicaSet."""
    namespace, replica_set = key
    names = (entry.owner or "", f"ReplicaSet/{replica_set}")
    manifest = next(filter(None, (owners.get((namespace, name)) for name in names)), None)
    view = manifest.object if manifest is not None else None
    annotations = (view.metadata.annotations if view is not None else None) or {}
    if annotations.get(KEEP_SPREAD) == "false":
        return Rebalance()
    return rebalancing.rebalance_of(annotations, default)


class _Rest:
    """Which ReplicaSets are not to be disturbed; what the manifests do not say is as it should be."""

    def __init__(self, owners: WorkloadManifests, living: Sequence[Entry]) -> None:
        self._owners = owners
        self._revisions: dict[tuple[str, str], set[str]] = {}
        for manifest in owners.values():
            view = manifest.object
            if manifest.kind == "ReplicaSet" and isinstance(view, Workload) and view.spec.replicas != 0:
                owner = controller_of(view.metadata)
                whole = f"{owner.kind}/{owner.name}" if owner is not None else f"ReplicaSet/{manifest.name}"
                self._revisions.setdefault((manifest.namespace or "", whole), set()).add(manifest.name)
        for entry in living:
            if (owner := controller_of(entry.pod.metadata)) is not None:
                self._revisions.setdefault((entry.namespace, entry.owner or ""), set()).add(owner.name or "")

    def missing(self, key: tuple[str, str], members: Sequence[Entry]) -> str:
        """What has to be waited for, empty for nothing."""
        namespace, name = key
        whole, number = (namespace, members[-1].owner or ""), len(members)
        if replicas_of(self._owners.get((namespace, f"ReplicaSet/{name}")), number) != number:
            return rebalancing.SCALING
        alone = self._revisions.get(whole, {name}) == {name}
        if not alone or replicas_of(self._owners.get(whole), number) != number:
            return rebalancing.ROLLING_OUT
        return "" if all(may_be_ready(entry.pod) for entry in members) else rebalancing.NOT_READY
