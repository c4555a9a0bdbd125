"""Clusters and bindings kept in step with events, and the question where a binding should go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from berth.engine.state.columns import BoolArray, Int64Array
from berth.fleet.placement.assignment import assign
from berth.fleet.rules import PEER_RULES, RULES
from berth.fleet.rules.base import ClusterVerdict, PlacementQuery
from berth.fleet.rules.workload_rules import founding
from berth.fleet.selection.ranking import ClusterSelection
from berth.fleet.selection.select import select
from berth.fleet.state.clusters import Clusters
from berth.fleet.state.errors import NO_CLUSTER_FIT, PlacementError
from berth.fleet.state.index import BindingIndex, BindingPlaces, IndexedWorkload
from berth.fleet.state.options import FleetOptions
from berth.fleet.state.strategy import reschedule_required
from berth.fleet.state.terms import NO_RULES, TermError, WorkloadRule, derived_groups, groups_of, rules_of
from berth.kube.affinity.annotations import AnnotationError
from berth.kube.affinity.workload_annotations import annotated_affinity, effective_placement
from berth.kube.karmada import Binding, Placement, TargetCluster, leaving_clusters
from berth.kube.objects import Key
from berth.kube.well_known import SCHEDULER_ERROR

# --- deciding one binding -------------------------------------------------------------------------
# The steps of a decision: feasible clusters, the selection among them, and replicas.

# How many of the peers in the way are named.
_NAMED = 3


@dataclass(slots=True)
class PlacementAttempt:
    """One try to place a binding: with its only cluster affinity, or with one term of several.

    Attributes:
        feasible: The clusters no rule refuses.
        verdicts: What each rule refuses, in the order of the rules.
        score: Slot -> its score; None if none was computed.
        selection: The selected clusters; None if none were feasible, or none could be selected.
        targets: The clusters with their replicas; None if it failed, and then `error` says why.
        founding: Affinity rules of which no peer is placed yet.
    """

    affinity_name: str
    feasible: BoolArray
    verdicts: list[tuple[str, ClusterVerdict]]
    score: Int64Array | None = None
    selection: ClusterSelection | None = None
    targets: list[TargetCluster] | None = None
    error: PlacementError | None = None
    founding: list[WorkloadRule] = field(default_factory=list)

    def reasons(self, slot: int) -> list[str]:
        """Why a cluster is refused: one reason for each rule that refuses it."""
        first = dict(reversed([*self.refusals(slot)]))
        return [verdict.why(slot) for verdict in reversed(first.values())]

    def refusals(self, slot: int) -> Iterator[tuple[str, ClusterVerdict]]:
        """The rules that refuse a cluster, with their verdicts."""
        return ((rule, verdict) for rule, verdict in self.verdicts if verdict.refused[slot])


@dataclass(slots=True)
class PlacementDecision:
    """What is to become of a binding; `attempts` are the terms tried, in order, until one succeeded."""

    attempts: list[PlacementAttempt]

    @property
    def decisive(self) -> PlacementAttempt:
        """The attempt that succeeded, or else the first one."""
        return self.attempts[-1 if self.attempts[-1].error is None else 0]

    @property
    def targets(self) -> list[TargetCluster] | None:
        return self.decisive.targets

    @property
    def error(self) -> PlacementError | None:
        return self.decisive.error

    def kept(self, binding: Binding, clusters: Clusters, options: FleetOptions) -> list[TargetCluster]:
        """The clusters that a binding keeps though it could not be placed.

        For want of room it keeps all.  If every cluster is refused it keeps those that only other workloads
        speak against, and none in Karmada's way: what cluster affinity no longer matches is left.
        """
        targets = list(binding.spec.clusters or ())
        if self.error is None or self.error.reason != NO_CLUSTER_FIT:
            return targets
        if not options.keep_when_unfit:
            return []
        return [target for target in targets if self._may_stay(clusters, clusters.slot_of.get(target.name))]

    def _may_stay(self, clusters: Clusters, slot: int | None) -> bool:
        if slot is None or not clusters.exists[slot]:
            return True  # whatever cleans up after a deleted cluster needs to see what was there
        return any(all(rule in PEER_RULES for rule, _ in attempt.refusals(slot)) for attempt in self.attempts)


def decide(query: PlacementQuery) -> PlacementDecision:
    """Try the placement, or the terms of its cluster affinities from the one observed last."""
    attempts: list[PlacementAttempt] = []
    for name in _affinity_names(query):
        attempts.append(_attempt(replace(query, affinity_name=name)))
        if attempts[-1].error is None:
            break
    return PlacementDecision(attempts)


def _affinity_names(query: PlacementQuery) -> list[str]:
    observed = query.binding.status.scheduler_observing_affinity_name or ""
    names = [term.affinity_name or "" for term in query.placement.cluster_affinities or ()]
    if not names:
        return [observed]
    if observed and observed in names and not reschedule_required(query.binding):
        return names[names.index(observed) :]
    return names


def _attempt(query: PlacementQuery) -> PlacementAttempt:
    verdicts = [(rule.name, verdict) for rule in RULES for verdict in rule.verdicts(query)]
    feasible = query.clusters.schedulable
    for _, verdict in verdicts:
        feasible &= ~verdict.refused
    attempt = PlacementAttempt(query.affinity_name, feasible, verdicts)
    if not feasible.any():
        attempt.error = PlacementError(NO_CLUSTER_FIT, _no_cluster(query.clusters, attempt))
        return attempt
    attempt.score = _score(query)
    try:
        attempt.selection = select(
            query.clusters, feasible, attempt.score, query.binding, query.affinity_name, query.options
        )
        attempt.targets = assign(attempt.selection, query.binding, query.affinity_name, query.options)
        attempt.founding = founding(query)
    except PlacementError as error:
        attempt.error = error
    return attempt


def _score(query: PlacementQuery) -> Int64Array:
    total = np.zeros(query.clusters.size, dtype=np.int64)
    for rule in RULES:
        score = rule.score(query)
        if score is not None:
            total += score
    return total


def _no_cluster(clusters: Clusters, attempt: PlacementAttempt) -> str:
    """A message that counts the refused clusters by reason, and names a few peers that are the cause."""
    slots = [int(slot) for slot in np.flatnonzero(clusters.schedulable)]
    counts: Counter[str] = Counter()
    peers: dict[str, dict[str, None]] = {}
    for slot in slots:
        verdict = next(verdict for _, verdict in attempt.verdicts if verdict.refused[slot])
        reason = verdict.reason(slot)
        counts[reason] += 1
        named = peers.setdefault(reason, {})
        if verdict.peer is not None and len(named) <= _NAMED:
            named[verdict.peer(slot)] = None
    said = sorted(f"{number} {reason}{_some(peers[reason])}" for reason, number in counts.items())
    return f"0/{clusters.number} clusters are available: {', '.join(said or ['no cluster exists'])}."


def _some(names: Iterable[str]) -> str:
    known = [name for name in names if name]
    more = ", …" if len(known) > _NAMED else ""
    return f" ({', '.join(known[:_NAMED])}{more})" if known else ""


# --- the fleet ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FleetBinding:
    """A binding as the fleet knows it.

    Attributes:
        placement: Its placement, with the rules of the annotations added.
        problem: Why its rules cannot be followed; None if they can.
    """

    binding: Binding
    placement: Placement
    entry: IndexedWorkload
    problem: str | None = None


class Fleet:
    """All clusters and bindings, for one thread; of namespaces only the index needs to know."""

    def __init__(self, options: FleetOptions | None = None) -> None:
        self.options = options or FleetOptions()
        self.clusters = Clusters()
        self.index = BindingIndex(self.options.indexed_keys)
        self._bindings: dict[Key, FleetBinding] = {}

    # --- events -------------------------------------------------------------------

    def set_binding(
        self,
        key: Key,
        binding: Binding,
        labels: Mapping[str, str] | None = None,
        annotations: Iterable[Mapping[str, str] | None] = (),
    ) -> FleetBinding:
        """A binding has come or changed.

        Args:
            labels: Those of the workload, as far as the binding does not carry them itself.
            annotations: Those of the workload and its policy, which may have rules, too.
        """
        all_labels = {**(binding.metadata.labels or {}), **(labels or {})}
        groups = groups_of(binding)
        if not groups and not self.options.compat:
            groups = derived_groups(binding.spec.placement, all_labels)
        placement, rules, problem = binding.spec.placement or Placement(), NO_RULES, None
        try:
            said = [annotated_affinity(a) for a in (binding.metadata.annotations, *annotations)]
            placement = effective_placement(placement, *said) or placement
            rules = rules_of(placement, key[0], all_labels, groups, self.options)
        except (TermError, AnnotationError) as error:
            problem = str(error)
        entry = self.index.set(key, all_labels, groups, rules, self._places(binding))
        self._bindings[key] = FleetBinding(binding, placement, entry, problem)
        return self._bindings[key]

    def remove_binding(self, key: Key) -> None:
        self.index.remove(key)
        self._bindings.pop(key, None)

    def _places(self, binding: Binding) -> BindingPlaces:
        slot = self.clusters.slot
        targets = tuple(dict.fromkeys(slot(t.name) for t in binding.spec.clusters or ()))
        leaving = tuple(dict.fromkeys(map(slot, leaving_clusters(binding))))
        if not self.options.count_evicting:
            return targets, targets, leaving
        return targets or leaving, tuple(dict.fromkeys(targets + leaving)), leaving

    # --- questions ----------------------------------------------------------------

    def known(self, key: Key) -> FleetBinding:
        """The binding, which there must be, with its rules as they are understood."""
        return self._bindings[key]

    def decide(
        self, key: Key, incomparable: frozenset[str] = frozenset(), *, unknown: str | None = None
    ) -> PlacementDecision:
        """Where the binding should go now.

        Args:
            incomparable: Groups of which it is not known which copy of a member is newer.
            unknown: What it would take to follow its rules and is not known, in words.
        """
        known = self._bindings[key]
        problem = known.problem or unknown
        if problem is None:
            return decide(self._query(known, incomparable))
        error = PlacementError(SCHEDULER_ERROR, problem)
        return PlacementDecision([PlacementAttempt("", self.clusters.mask(()), [], error=error)])

    def founds(self, key: Key, rule: WorkloadRule) -> bool:
        """Whether the binding would be the first to be placed of those that one of its rules is about."""
        known = self._bindings.get(key)
        return known is not None and rule in founding(self._query(known))

    def violations(self, key: Key) -> list[str]:
        """What is broken where the binding is placed now, in words."""
        query = self._query(self._bindings[key])
        return [text for rule in RULES for text in rule.violated(query)]

    def _query(self, known: FleetBinding, incomparable: frozenset[str] = frozenset()) -> PlacementQuery:
        targets = [self.clusters.slot(target.name) for target in known.binding.spec.clusters or ()]
        return PlacementQuery(
            clusters=self.clusters,
            index=self.index,
            options=self.options,
            binding=known.binding,
            placement=known.placement,
            entry=known.entry,
            targets=self.clusters.mask(targets),
            incomparable=incomparable,
        )
