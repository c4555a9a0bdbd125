"""Where the pods of a snapshot stand: zones, nodes, and the domains of every constraint they have.

A constraint is shown with what it means: domains that count although no pod of the workload could go there,
nodes that are left out, and where a rule is broken.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, fields
from heapq import nsmallest

import msgspec
import numpy as np

from berth.engine.offline.simulation import Simulation
from berth.engine.offline.snapshot import Entry, Snapshot
from berth.engine.placement.plan import plan_for
from berth.engine.rules import TOPOLOGY_RULES
from berth.engine.rules.verdicts import ConstraintCounts, PeersKeptAway
from berth.engine.state.cluster import Cluster
from berth.engine.state.columns import BoolArray, IndexArray
from berth.engine.state.pod_class import PodClass

_MOST_DOMAINS = 200  # of one constraint that are told one by one
_MOST_NAMES = 50


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread(ConstraintCounts):
    """How even the pods are that one constraint of a workload is about."""

    namespace: str
    owner: str


def domains(simulation: Simulation, namespace: str | None = None) -> list[ZoneDomain]:
    """Zones with their nodes and pods, those of one namespace if it is given.

    Zones and nodes are in order of their names, nodes without a zone last.
    """
    snapshot = simulation.snapshot
    nodes = {name: NodeDomain(name) for name in snapshot.nodes}
    preempted = {victim.entry.key for victim, _ in simulation.preemptions()}
    for entry in snapshot.running:
        shown = namespace in (None, entry.namespace) and entry.key not in preempted
        if shown and (node := nodes.get(entry.node)) is not None:
            node.pods.append(PodOnNode(entry, placed=False))
    for placement in simulation.placements:
        if namespace in (None, placement.entry.namespace):
            nodes[placement.node].pods.append(PodOnNode(placement.entry, placed=True))
    zones: dict[str | None, ZoneDomain] = {}
    for name in sorted(nodes):
        zone = snapshot.zone_of(name)
        zones.setdefault(zone, ZoneDomain(zone)).nodes.append(nodes[name])
    return [zones[name] for name in sorted(zones, key=lambda zone: (zone is None, zone or ""))]


def spreads(simulation: Simulation) -> list[Spread]:
    """Every constraint that pods of the snapshot state, once a workload."""
    return spreads_of(simulation.snapshot.cluster, simulation.snapshot.pods)


def spreads_of(cluster: Cluster, entries: Iterable[Entry]) -> list[Spread]:
    """The same for some pods."""
    found: dict[tuple[str, str, str, Hashable], Spread] = {}
    seen: set[tuple[PodClass, str]] = set()
    counts: dict[PodClass, list[ConstraintCounts]] = {}
    for entry in entries:
        if not entry.pod.spec.topology_spread_constraints or entry.gates:
            continue
        pod_class, owner = cluster.class_of(entry.pod), entry.workload
        if (pod_class, owner) in seen or not pod_class.spread_constraints:
            continue
        seen.add((pod_class, owner))
        if pod_class not in counts:
            rules = plan_for(cluster, pod_class).topology_rules
            counts[pod_class] = [counted for rule in rules for counted in rule.constraint_counts()]
        for counted in counts[pod_class]:
            key = (entry.namespace, owner, counted.when_unsatisfiable, counted.constraint)
            if key not in found:
                found[key] = Spread(
                    namespace=entry.namespace,
                    owner=owner,
                    **{f.name: getattr(counted, f.name) for f in fields(counted)},
                )
    return list(found.values())


# --- constraints, domain by domain -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DomainCount:
    """One domain of a constraint, with how many pods count there.

    Attributes:
        usable: Whether a pod of the workload could go to one of its nodes, this rule aside.
        broken: Whether a pod is there that should not be.
    """

    name: str
    pods: int
    nodes: int
    usable: bool
    broken: bool


@dataclass(frozen=True, slots=True)
class UncountedNodes:
    nodes: int
    names: list[str]
    why: str


class ConstraintDomains(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A constraint of a workload, and its domains.

    Attributes:
        kind: SPREAD or ANTI_AFFINITY.
        limit: The most a domain may be above the emptiest (spread), or hold (anti-affinity).
        skew: What is measured against the limit.
        domains: Those with most pods first; of many, only the first.
        all_domains: How many there are.
    """

    kind: str
    namespace: str
    owner: str
    path: str
    topology_key: str
    selector: str
    hard: bool
    limit: int
    skew: int
    ok: bool
    domains: list[DomainCount]
    all_domains: int
    left_out: list[UncountedNodes]


def constraint_domains(snapshot: Snapshot) -> list[ConstraintDomains]:
    """The constraints of running pods, the broken ones first, then the hard ones."""
    cluster, living = snapshot.cluster, snapshot.living
    workloads: dict[tuple[str, str], list[Entry]] = {}
    for entry in living:
        workloads.setdefault((entry.namespace, entry.workload), []).append(entry)
    usability = _Usability(cluster)
    found = [
        usability.told(spread, workloads[spread.namespace, spread.owner][0])
        for spread in spreads_of(cluster, living)
    ]
    for entries in workloads.values():
        pods = np.array([cluster.pods.index[entry.key] for entry in entries], dtype=np.intp)
        for rule in TOPOLOGY_RULES:
            found += [usability.told(each, entries[0]) for each in rule.peers_kept_away(cluster, pods)]
    return sorted(found, key=lambda each: (each.ok, not each.hard, each.limit - each.skew))


class _Usability:
    """What rules count, told with the domains that pods could use."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._live: IndexArray = np.flatnonzero([name is not None for name in cluster.nodes.names])
        self._usable: dict[PodClass, BoolArray] = {}

    def told(self, counted: ConstraintCounts | PeersKeptAway, entry: Entry) -> ConstraintDomains:
        """A constraint of the workload that a pod belongs to."""
        usable, broken = self._usable_nodes(self._cluster.class_of(entry.pod)), counted.broken
        return ConstraintDomains(
            kind=counted.kind,
            namespace=entry.namespace,
            owner=entry.workload,
            path=counted.path,
            topology_key=counted.topology_key,
            selector=counted.selector,
            hard=counted.hard,
            limit=counted.limit,
            skew=counted.skew,
            ok=not broken,
            domains=self._domains(counted.topology_key, counted.counts, usable, broken),
            all_domains=len(counted.counts),
            left_out=[self._named(slots, why) for why, slots in counted.left_out().items()],
        )

    def _usable_nodes(self, pod_class: PodClass) -> BoolArray:
        """Which nodes no rule refuses for what they are."""
        if pod_class not in self._usable:
            plan = plan_for(self._cluster, pod_class)
            fine = np.zeros(len(self._cluster.nodes.names), dtype=np.bool_)
            fine[self._live] = True
            for rule in plan.node_rules:
                if rule.filters and rule.static:
                    fine[self._live] &= rule.feasible(self._live)
            self._usable[pod_class] = fine
        return self._usable[pod_class]

    def _domains(
        self, key: str, counts: dict[str, int], usable: BoolArray, broken: set[str]
    ) -> list[DomainCount]:
        column = self._cluster.nodes.column(key)
        size = len(column.values)
        nodes = np.bincount(column.ids[self._live], minlength=size)
        open_to = np.bincount(column.ids[np.flatnonzero(usable)], minlength=size)
        number = {name: i for i, name in enumerate(column.values) if name is not None}
        shown = nsmallest(_MOST_DOMAINS, counts, key=lambda name: (name not in broken, -counts[name], name))
        return [
            DomainCount(name, counts[name], int(nodes[i]), bool(open_to[i]), name in broken)
            for name, i in ((name, number[name]) for name in shown)
        ]

    def _named(self, slots: IndexArray, why: str) -> UncountedNodes:
        names = self._cluster.nodes.names
        return UncountedNodes(len(slots), [names[slot] or "" for slot in slots[:_MOST_NAMES].tolist()], why)
