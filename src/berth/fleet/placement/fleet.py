"""Clusters and bindings kept in step with events, and the question where a binding should go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from berth.fleet.placement.decision import PlacementAttempt, PlacementDecision, decide
from berth.fleet.rules import RULES
from berth.fleet.rules.base import PlacementQuery
from berth.fleet.rules.workload_affinity import founding
from berth.fleet.state.clusters import Clusters
from berth.fleet.state.errors import PlacementError
from berth.fleet.state.index import BindingIndex, IndexedWorkload, Places
from berth.fleet.state.options import FleetOptions
from berth.fleet.state.terms import NO_RULES, TermError, WorkloadRule, derived_groups, groups_of, rules_of
from berth.kube.affinity.annotations import AnnotationError
from berth.kube.affinity.workload_annotations import annotated_affinity, effective_placement
from berth.kube.karmada import Binding, Cluster, Placement
from berth.kube.objects import Key
from berth.kube.well_known import SCHEDULER_ERROR


@dataclass(frozen=True, slots=True)
class FleetBinding:
    """A binding as the fleet knows it.

    Attributes:
        placement: With the rules of the annotations.
        problem: Why its rules cannot be followed; None if they can.
    """

    binding: Binding
    placement: Placement
    entry: IndexedWorkload
    problem: str | None = None


class Fleet:
    """All clusters and bindings, for one thread."""

    def __init__(self, options: FleetOptions | None = None) -> None:
        self.options = options or FleetOptions()
        self.clusters = Clusters()
        self.index = BindingIndex(self.options.indexed_keys)
        self._bindings: dict[Key, FleetBinding] = {}

    # --- events -------------------------------------------------------------------

    def set_cluster(self, cluster: Cluster) -> None:
        self.clusters.set(cluster)

    def remove_cluster(self, name: str) -> None:
        self.clusters.remove(name)

    def set_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        self.index.set_namespace(name, labels)

    def set_binding(
        self,
        key: Key,
        binding: Binding,
        labels: Mapping[str, str] | None = None,
        annotations: Iterable[Mapping[str, str] | None] = (),
    ) -> FleetBinding:
        """A binding has come or changed.

        Args:
            key: Its namespace and name.
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

    def _places(self, binding: Binding) -> Places:
        slot = self.clusters.slot
        targets = tuple(dict.fromkeys(slot(t.name) for t in binding.spec.clusters or ()))
        tasks = binding.spec.graceful_eviction_tasks or ()
        leaving = tuple(dict.fromkeys(slot(t.from_cluster) for t in tasks if t.from_cluster))
        if not self.options.count_evicting:
            return targets, targets, leaving
        return targets or leaving, tuple(dict.fromkeys(targets + leaving)), leaving

    # --- questions ----------------------------------------------------------------

    def known(self, key: Key) -> FleetBinding:
        """The binding with its rules as they are understood.

        Raises:
            KeyError: there is no such binding.
        """
        return self._bindings[key]

    def decide(
        self, key: Key, incomparable: frozenset[str] = frozenset(), *, unknown: str | None = None
    ) -> PlacementDecision:
        """Where the binding should go now.

        Args:
            key: Its namespace and name.
            incomparable: Groups of which it is not known which copy of a member is newer.
            unknown: What it would take to follow its rules and is not known, in words.

        Raises:
            KeyError: there is no such binding.
        """
        known = self._bindings[key]
        query = self._query(known, incomparable)
        problem = known.problem or unknown
        if problem is not None:
            error = PlacementError(SCHEDULER_ERROR, problem)
            failed = PlacementAttempt("", self.clusters.mask(()), [], error=error)
            return PlacementDecision([failed], failed)
        return decide(query)

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
            self.clusters,
            self.index,
            self.options,
            known.binding,
            known.placement,
            known.entry,
            self.clusters.mask(targets),
            incomparable=incomparable,
        )
