"""What every rule about clusters answers: which it refuses and why, its scores, and what is broken."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from berth.engine.state.columns import BoolArray, Int64Array
from berth.fleet.state.clusters import Clusters
from berth.fleet.state.index import BindingIndex, IndexedWorkload
from berth.fleet.state.options import FleetOptions
from berth.kube.karmada import Binding, MemberCluster, Placement
from berth.kube.taints import NO_EXECUTE, untolerated

MAX_SCORE = 100


class ClusterVerdict(NamedTuple):
    """The clusters that a rule refuses, and for each of them why.

    Attributes:
        reason: Slot -> why it is refused.
        peer: Slot -> the name of a workload that is the cause; None if none is, or none is to be named.
    """

    refused: BoolArray
    reason: Callable[[int], str]
    peer: Callable[[int], str] | None = None

    def why(self, slot: int) -> str:
        peer = self.peer(slot) if self.peer is not None else ""
        return f"{self.reason(slot)} ({peer})" if peer else self.reason(slot)


@dataclass
class PlacementQuery:
    """Where may this binding go, with the clusters of one affinity term?

    Attributes:
        placement: The binding's placement, with the rules of its annotations.
        entry: The binding in the index.
        targets: The clusters it has now.
        affinity_name: The term of ``clusterAffinities`` that is tried; empty if there are none.
        incomparable: Groups of which some member has two copies that cannot be told older from newer.
    """

    clusters: Clusters
    index: BindingIndex
    options: FleetOptions
    binding: Binding
    placement: Placement
    entry: IndexedWorkload
    targets: BoolArray
    affinity_name: str = ""
    incomparable: frozenset[str] = frozenset()

    @cached_property
    def failed(self) -> BoolArray:
        """Clusters where this binding cannot stay: gone, being deleted, or with a taint against it."""
        tolerations = tuple(self.placement.cluster_tolerations or ())
        driven = self.where(
            ("no-execute", tolerations),
            lambda view: any(
                taint.effect == NO_EXECUTE for taint in untolerated(tolerations, view.spec.taints or ())
            ),
        )
        return ~self.clusters.schedulable | driven | self.clusters.mask(self.entry.leaving)

    def where(self, key: Hashable, holds: Callable[[MemberCluster], bool]) -> BoolArray:
        """The existing clusters of which something holds; by the key it is remembered until one changes."""
        clusters = self.clusters
        return clusters.remembered(
            key, lambda: clusters.mask(s for s, view in enumerate(clusters.views) if view and holds(view))
        )

    def against(self, key: Hashable, why: Callable[[MemberCluster], str | None]) -> ClusterVerdict:
        """Refuses the clusters that there is a reason against; it is remembered as by `where`."""
        refused, views = self.where(key, lambda view: why(view) is not None), self.clusters.views
        return ClusterVerdict(refused, lambda slot: ((view := views[slot]) and why(view)) or "")

    def placed_on(self) -> Iterator[tuple[str, MemberCluster]]:
        """The clusters that the binding has now, as far as they exist."""
        for target in self.binding.spec.clusters or ():
            slot = self.clusters.slot_of.get(target.name)
            view = self.clusters.views[slot] if slot is not None else None
            if view is not None:
                yield target.name, view


class ClusterRule:
    """Base of the rules; a method that a rule does not override means that it has nothing to say."""

    name = ""

    def verdicts(self, query: PlacementQuery) -> Iterable[ClusterVerdict]:  # noqa: ARG002
        """Clusters the rule refuses."""
        return ()

    def score(self, query: PlacementQuery) -> Int64Array | None:  # noqa: ARG002
        """How much the rule is for each cluster, 0 to `MAX_SCORE`; None where all are the same to it."""
        return None

    def violated(self, query: PlacementQuery) -> Iterable[str]:  # noqa: ARG002
        """What is broken where the binding is placed now, in words."""
        return ()
