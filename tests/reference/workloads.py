"""Which clusters the rules between workloads allow, by looking at every other workload each time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from berth.kube.karmada import (
    Binding,
    MemberCluster,
    WorkloadAntiAffinity,
    WorkloadTerm,
    leaving_clusters,
)
from berth.kube.selectors import parse_label_selector


@dataclass(frozen=True)
class Fleet:
    """Attributes:
    evicting_counts: Whoever is being evicted from a cluster is still there.
    """

    clusters: Mapping[str, MemberCluster]
    bindings: Mapping[tuple[str, str], Binding]
    evicting_counts: bool = True


def allows(fleet: Fleet, key: tuple[str, str], cluster: str) -> bool:
    """Whether the binding may be put on a cluster where it is not yet."""
    binding = fleet.bindings[key]
    others = {k: b for k, b in fleet.bindings.items() if k != key}
    return (
        _group_allows(fleet, binding, others, cluster)
        and _anti_group_allows(fleet, binding, others, cluster)
        and all(_near(fleet, key, term, cluster) for term in _required(_affinity(binding)))
        and not any(
            _meets(fleet, binding, key, peer_key, term)
            and _shared(fleet, term, _present(fleet, peer), cluster)
            for term in _required(_anti(binding))
            for peer_key, peer in others.items()
        )
        and not any(
            _meets(fleet, peer, peer_key, key, term) and _shared(fleet, term, _present(fleet, peer), cluster)
            for peer_key, peer in others.items()
            for term in _required(_anti(peer))
        )
    )


def _group_allows(
    fleet: Fleet, binding: Binding, others: Mapping[tuple[str, str], Binding], cluster: str
) -> bool:
    return all(
        cluster in _home(fleet, peer)
        for peer in others.values()
        if _same(binding, peer, "affinity_group") and _home(fleet, peer)
    )


def _anti_group_allows(
    fleet: Fleet, binding: Binding, others: Mapping[tuple[str, str], Binding], cluster: str
) -> bool:
    return not any(
        cluster in _present(fleet, peer)
        for peer in others.values()
        if _same(binding, peer, "anti_affinity_group")
    )


def _same(a: Binding, b: Binding, kind: str) -> bool:
    mine = getattr(a.spec.workload_affinity_groups, kind, None)
    other = getattr(b.spec.workload_affinity_groups, kind, None)
    return bool(mine) and mine == other and a.metadata.namespace == b.metadata.namespace


def _near(fleet: Fleet, key: tuple[str, str], term: WorkloadTerm, cluster: str) -> bool:
    binding = fleet.bindings[key]
    met = [
        peer
        for peer_key, peer in fleet.bindings.items()
        if peer_key != key and _meets(fleet, binding, key, peer_key, term) and _home(fleet, peer)
    ]
    if not met and _meets(fleet, binding, key, key, term):
        return True
    return any(_shared(fleet, term, _home(fleet, peer), cluster) for peer in met)


def _meets(
    fleet: Fleet, owner: Binding, owner_key: tuple[str, str], peer_key: tuple[str, str], term: WorkloadTerm
) -> bool:
    """Whether a term that `owner` declares selects the peer."""
    peer = fleet.bindings[peer_key]
    namespaces = term.namespaces or [owner_key[0]]
    mine, theirs = owner.metadata.labels or {}, peer.metadata.labels or {}
    return (
        peer_key[0] in namespaces
        and parse_label_selector(term.label_selector).matches(theirs)
        and all(k in mine and mine[k] == theirs.get(k) for k in term.match_label_keys or ())
    )


def _shared(fleet: Fleet, term: WorkloadTerm, places: Iterable[str], cluster: str) -> bool:
    here = set(_domains(fleet, term, cluster))
    return any(here.intersection(_domains(fleet, term, place)) for place in places)


def _domains(fleet: Fleet, term: WorkloadTerm, name: str) -> Iterator[str]:
    key = term.topology_key or "cluster"
    if key == "cluster":
        yield name
        return
    cluster = fleet.clusters.get(name)
    if cluster is None:
        return
    if key == "zone":
        yield from cluster.spec.zones or ()
    elif key in ("region", "provider"):
        value = getattr(cluster.spec, key)
        if value:
            yield value
    elif key in (cluster.metadata.labels or {}):
        yield (cluster.metadata.labels or {})[key]


def _targets(binding: Binding) -> set[str]:
    return {target.name for target in binding.spec.clusters or ()}


def _home(fleet: Fleet, binding: Binding) -> set[str]:
    """Where a workload is for those that want to be with it."""
    return _targets(binding) or _present(fleet, binding)


def _present(fleet: Fleet, binding: Binding) -> set[str]:
    return _targets(binding) | set(leaving_clusters(binding) if fleet.evicting_counts else ())


def _affinity(binding: Binding) -> WorkloadAntiAffinity | None:
    return binding.spec.placement.workload_affinity if binding.spec.placement else None


def _anti(binding: Binding) -> WorkloadAntiAffinity | None:
    return binding.spec.placement.workload_anti_affinity if binding.spec.placement else None


def _required(rules: WorkloadAntiAffinity | None) -> list[WorkloadTerm]:
    return (rules.required_during_scheduling_ignored_during_execution or []) if rules else []
