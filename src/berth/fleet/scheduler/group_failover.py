"""Groups that move together: who follows whom, and what is left gracefully for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from berth.engine.state.pod_class import Term
from berth.fleet.placement.fleet import Fleet
from berth.fleet.state.index import HOME, LEAVING, IndexedWorkload
from berth.kube.karmada import Binding, TargetCluster
from berth.kube.objects import Key


def left_behind(fleet: Fleet, key: Key, binding: Binding, targets: Iterable[TargetCluster]) -> list[str]:
    """Clusters a binding leaves only because others of its group had to."""
    entry = fleet.index.get(key)
    if entry is None or not fleet.options.group_failover:
        return []
    fled = {slot for term in _groups(fleet, entry) for slot in fleet.index.counts(term, LEAVING).by_slot}
    kept = {target.name for target in targets}
    lost = [target.name for target in binding.spec.clusters or () if target.name not in kept]
    slot_of = fleet.clusters.slot_of
    return [name for name in lost if slot_of[name] in fled and slot_of[name] not in entry.leaving]


def companions(fleet: Fleet, key: Key) -> tuple[Key, ...]:
    """Who has to follow once this binding, which had to leave a cluster, has found another."""
    entry = fleet.index.get(key)
    if entry is None or not entry.leaving or not fleet.options.group_failover:
        return ()
    left = set(entry.leaving)
    return tuple(
        peer.key
        for term in _groups(fleet, entry)
        for peer in fleet.index.selected(term)
        if peer is not entry and left.intersection(peer.places[HOME])
    )


def _groups(fleet: Fleet, entry: IndexedWorkload) -> Iterator[Term]:
    return (fleet.index.term(rule) for rule in entry.rules.affinity if rule.everyone)
