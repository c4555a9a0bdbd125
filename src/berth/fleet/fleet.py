"""Clusters and bindings kept in step with events, and the question where a binding should go."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from berth.fleet.clusters import Clusters
from berth.fleet.errors import SCHEDULER_ERROR, PlacementError
from berth.fleet.index import BindingIndex, Entry, Places
from berth.fleet.options import Options
from berth.fleet.placing import Attempt, Decision, decide
from berth.fleet.rules import RULES
from berth.fleet.rules.base import Ask
from berth.fleet.rules.workload_affinity import founding
from berth.fleet.terms import NO_RULES, TermError, derived_groups, groups_of, rules_of
from berth.kube.annotations import AnnotationError
from berth.kube.karmada import Placement
from berth.kube.workload_annotations import annotated_affinity, effective_placement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from berth.fleet.terms import WorkloadRule
    from berth.kube.karmada import Binding, Cluster

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Held:
    """A binding as the fleet knows it.

    Attributes:
        placement: With the rules of the annotations.
        problem: Why its rules cannot be followed; None if they can.
    """

    binding: Binding
    placement: Placement
    entry: Entry
    problem: str | None = None


class Fleet:
    """All clusters and bindings.

    Every method may be called from any thread: a change is seen wholly or not at all.
    """

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or Options()
        self.clusters = Clusters()
        self.index = BindingIndex(self.options.indexed_keys)
        self._held: dict[Key, Held] = {}
        self._lock = threading.RLock()

    # --- events -------------------------------------------------------------------

    def set_cluster(self, cluster: Cluster) -> None:
        with self._lock:
            self.clusters.set(cluster)

    def remove_cluster(self, name: str) -> None:
        with self._lock:
            self.clusters.remove(name)

    def set_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        with self._lock:
            self.index.set_namespace(name, labels)

    def set_binding(
        self,
        key: Key,
        binding: Binding,
        labels: Mapping[str, str] | None = None,
        annotations: Iterable[Mapping[str, str] | None] = (),
    ) -> Held:
        """A binding has come or changed.

        Args:
            key: Its namespace and name.
            labels: Those of the workload, as far as the binding does not carry them itself.
            annotations: Those of the workload and its policy, which may have rules, too.
        """
        with self._lock:
            known = {**(binding.metadata.labels or {}), **(labels or {})}
            groups = groups_of(binding)
            if not groups and not self.options.compat:
                groups = derived_groups(binding.spec.placement, known)
            placement, rules, problem = binding.spec.placement or Placement(), NO_RULES, None
            try:
                said = [annotated_affinity(a) for a in (binding.metadata.annotations, *annotations)]
                placement = effective_placement(placement, *said) or placement
                rules = rules_of(placement, key[0], known, groups, self.options)
            except (TermError, AnnotationError) as error:
                problem = str(error)
            entry = self.index.set(key, known, groups, rules, self._places(binding))
            held = self._held[key] = Held(binding, placement, entry, problem)
            return held

    def remove_binding(self, key: Key) -> None:
        with self._lock:
            self.index.remove(key)
            self._held.pop(key, None)

    def _places(self, binding: Binding) -> Places:
        slot = self.clusters.slot
        targets = tuple(dict.fromkeys(slot(t.name) for t in binding.spec.clusters or ()))
        tasks = binding.spec.graceful_eviction_tasks or ()
        leaving = tuple(dict.fromkeys(slot(t.from_cluster) for t in tasks if t.from_cluster))
        if not self.options.count_evicting:
            return targets, targets, leaving
        return targets or leaving, tuple(dict.fromkeys(targets + leaving)), leaving

    # --- questions ----------------------------------------------------------------

    def __contains__(self, key: Key) -> bool:
        return key in self._held

    def binding(self, key: Key) -> Binding | None:
        held = self._held.get(key)
        return held.binding if held is not None else None

    def held(self, key: Key) -> Held:
        """The binding with its rules as they are understood.

        Raises:
            KeyError: there is no such binding.
        """
        return self._held[key]

    def decide(self, key: Key, incomparable: frozenset[str] = frozenset()) -> Decision:
        """Where the binding should go now.

        Raises:
            KeyError: there is no such binding.
        """
        with self._lock:
            held = self._held[key]
            ask = self._ask(held, incomparable)
            if held.problem is not None:
                nowhere = np.zeros(self.clusters.size, dtype=np.bool_)
                error = PlacementError(SCHEDULER_ERROR, held.problem)
                failed = Attempt("", nowhere, [], error=error)
                return Decision([failed], failed)
            return decide(ask)

    def founds(self, key: Key, rule: WorkloadRule) -> bool:
        """Whether the binding would be the first to be placed of those that one of its rules is about."""
        with self._lock:
            held = self._held.get(key)
            return held is not None and rule in founding(self._ask(held))

    def violations(self, key: Key) -> list[str]:
        """What is broken where the binding is placed now, in words."""
        with self._lock:
            ask = self._ask(self._held[key])
            return [text for rule in RULES for text in rule.violated(ask)]

    def _ask(self, held: Held, incomparable: frozenset[str] = frozenset()) -> Ask:
        targets = np.zeros(self.clusters.size, dtype=np.bool_)
        targets[[self.clusters.slot(t.name) for t in held.binding.spec.clusters or ()]] = True
        return Ask(
            self.clusters,
            self.index,
            self.options,
            held.binding,
            held.placement,
            held.entry,
            targets,
            incomparable=incomparable,
        )
