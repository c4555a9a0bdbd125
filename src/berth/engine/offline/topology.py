"""Where the pods of a snapshot stand: zones, nodes, and how even each spread constraint is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from berth.engine.placement.plan import plan_for
from berth.engine.rules.pod_topology_spread import PodTopologySpread
from berth.engine.rules.pod_topology_spread.constraints import HARD, SOFT, Constraint
from berth.engine.state.options import ZONE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from berth.engine.offline.simulation import Simulation
    from berth.engine.offline.snapshot import Entry
    from berth.engine.state.cluster import Cluster
    from berth.engine.state.pod_class import PodClass


@dataclass(frozen=True, slots=True)
class PodOnNode:
    entry: Entry
    placed: bool  # by the simulation; False if it ran before


@dataclass(frozen=True, slots=True)
class NodeDomain:
    name: str
    pods: list[PodOnNode] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ZoneDomain:
    """The nodes of a zone; `name` is None for nodes without a zone label."""

    name: str | None
    nodes: list[NodeDomain] = field(default_factory=list)

    @property
    def pods(self) -> int:
        return sum(len(node.pods) for node in self.nodes)

    @property
    def placed(self) -> int:
        return sum(pod.placed for node in self.nodes for pod in node.pods)


@dataclass(frozen=True, slots=True)
class Spread:
    """How even the pods of one constraint are.

    Attributes:
        counts: Domain -> matching pods, over the domains the constraint counts.
        minimum: What the skew is measured from; 0 while there are fewer domains than `minDomains`.
    """

    namespace: str
    owner: str
    path: str
    topology_key: str
    selector: str
    when_unsatisfiable: str
    max_skew: int
    counts: dict[str, int]
    minimum: int

    @property
    def skew(self) -> int:
        return max(self.counts.values(), default=0) - self.minimum

    @property
    def ok(self) -> bool:
        return self.skew <= self.max_skew


def domains(simulation: Simulation, namespace: str | None = None) -> list[ZoneDomain]:
    """Zones with their nodes and pods, those of one namespace if it is given.

    Zones and nodes are in order of their names, nodes without a zone last.
    """
    snapshot = simulation.snapshot
    nodes = {name: NodeDomain(name) for name in snapshot.nodes}
    for entry in snapshot.running:
        if namespace not in (None, entry.namespace):
            continue
        if (node := nodes.get(entry.pod.spec.node_name or "")) is not None:
            node.pods.append(PodOnNode(entry, placed=False))
    for placement in simulation.placements:
        if namespace in (None, placement.entry.namespace):
            nodes[placement.node].pods.append(PodOnNode(placement.entry, placed=True))
    zones: dict[str | None, ZoneDomain] = {}
    for name in sorted(nodes):
        zone = (snapshot.nodes[name].metadata.labels or {}).get(ZONE)
        zones.setdefault(zone, ZoneDomain(zone)).nodes.append(nodes[name])
    return [zones[name] for name in sorted(zones, key=lambda zone: (zone is None, zone or ""))]


def spreads(simulation: Simulation) -> list[Spread]:
    """Every constraint that pods of the snapshot state, once a workload."""
    return spreads_of(simulation.snapshot.cluster, simulation.snapshot.pods)


def spreads_of(cluster: Cluster, entries: Iterable[Entry]) -> list[Spread]:
    """The same for some pods."""
    found: dict[tuple[str, str, str, Constraint], Spread] = {}
    seen: set[tuple[PodClass, str]] = set()
    counts: dict[PodClass, list[_Counted]] = {}
    for entry in entries:
        if not entry.pod.spec.topology_spread_constraints or entry.gates:
            continue
        pod_class, owner = cluster.class_of(entry.pod), entry.owner or f"Pod/{entry.name}"
        if (pod_class, owner) in seen or not pod_class.spread_constraints:
            continue
        seen.add((pod_class, owner))
        if pod_class not in counts:
            counts[pod_class] = list(_counted(cluster, pod_class))
        for counted in counts[pod_class]:
            key = (entry.namespace, owner, counted.when, counted.constraint)
            if key not in found:
                found[key] = _spread(entry.namespace, owner, counted)
    return list(found.values())


class _Counted(NamedTuple):
    when: str
    constraint: Constraint
    counts: dict[str, int]
    minimum: int


def _spread(namespace: str, owner: str, counted: _Counted) -> Spread:
    constraint = counted.constraint
    return Spread(
        namespace=namespace,
        owner=owner,
        path=constraint.path,
        topology_key=constraint.topology_key,
        selector=str(constraint.selector),
        when_unsatisfiable=counted.when,
        max_skew=constraint.max_skew,
        counts=counted.counts,
        minimum=counted.minimum,
    )


def _counted(cluster: Cluster, pod_class: PodClass) -> Iterator[_Counted]:
    for rule in plan_for(cluster, pod_class).topology_rules:
        if not isinstance(rule, PodTopologySpread):
            continue
        for hard in rule.hard:
            counts = _by_domain(cluster, hard.constraint.topology_key, hard.eligible, hard.counter.counts)
            yield _Counted(HARD, hard.constraint, counts, hard.minimum)
        for soft in rule.soft:
            per_node = soft.counter.counts[1:] if soft.per_node else None
            counts = _by_domain(
                cluster, soft.constraint.topology_key, soft.eligible, soft.counter.counts, per_node
            )
            minimum = min(counts.values(), default=0) if len(counts) >= soft.constraint.min_domains else 0
            yield _Counted(SOFT, soft.constraint, counts, minimum)


def _by_domain(
    cluster: Cluster,
    key: str,
    eligible: np.ndarray[tuple[int], np.dtype[np.bool_]],
    counts: np.ndarray[tuple[int], np.dtype[np.int32]],
    per_node: np.ndarray[tuple[int], np.dtype[np.int32]] | None = None,
) -> dict[str, int]:
    """Domain -> count, for domains with an eligible node, in order of their names."""
    column = cluster.nodes.column(key)
    slots = np.flatnonzero(eligible)
    found = column.ids[slots]
    by_domain = counts if per_node is None else np.bincount(found, weights=per_node[slots])
    names = {domain: column.values[domain] for domain in np.unique(found).tolist()}
    totals = {name: int(by_domain[domain]) for domain, name in names.items() if name is not None}
    return dict(sorted(totals.items()))
