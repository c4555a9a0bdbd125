"""Where the pods of a snapshot stand: zones, nodes, and the domains of every constraint they have.

A constraint is shown with what it means: domains that count although no pod of the workload could go there,
nodes that are left out, and where a rule is broken.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from heapq import nsmallest

import msgspec
import numpy as np

from berth.engine.offline.simulation import Simulation
from berth.engine.offline.snapshot import Entry, Snapshot
from berth.engine.placement.plan import plan_for
from berth.engine.rules.verdicts import ANTI_AFFINITY, ConstraintCounts
from berth.engine.state.cluster import Cluster
from berth.engine.state.columns import BoolArray, IndexArray
from berth.engine.state.pod_class import OwnedTerm, PodClass

SPREAD = "spread"
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
        if namespace not in (None, entry.namespace) or entry.key in preempted:
            continue
        if (node := nodes.get(entry.node)) is not None:
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
    """One domain of a constraint.

    Attributes:
        pods: How many pods count there.
        nodes: How many nodes it has.
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
    """Nodes that a constraint does not count, and why."""

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
    cluster = snapshot.cluster
    living = snapshot.living
    workloads: dict[tuple[str, str], list[Entry]] = {}
    for entry in living:
        workloads.setdefault((entry.namespace, entry.workload), []).append(entry)
    judge = _Judge(cluster)
    found = [judge.spread(spread, workloads) for spread in spreads_of(cluster, living)]
    for (namespace, owner), entries in workloads.items():
        found += judge.apart(namespace, owner, entries)
    return sorted(found, key=lambda each: (each.ok, not each.hard, each.limit - each.skew))


class _Judge:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._live: IndexArray = np.flatnonzero([name is not None for name in cluster.nodes.names])
        self._usable: dict[tuple[PodClass, str], BoolArray] = {}

    def spread(self, spread: Spread, workloads: dict[tuple[str, str], list[Entry]]) -> ConstraintDomains:
        entry = workloads[spread.namespace, spread.owner][0]
        usable = self._usable_nodes(self._cluster.class_of(entry.pod), spread.rule)
        counts, most = spread.counts, spread.minimum + spread.max_skew
        broken = {name for name, number in counts.items() if number > most}
        return ConstraintDomains(
            kind=SPREAD,
            namespace=spread.namespace,
            owner=spread.owner,
            path=spread.path,
            topology_key=spread.topology_key,
            selector=spread.selector,
            hard=spread.hard,
            limit=spread.max_skew,
            skew=spread.skew,
            ok=spread.ok,
            domains=self._domains(spread.topology_key, counts, usable, broken),
            all_domains=len(counts),
            left_out=[self._named(slots, why) for why, slots in spread.left_out().items()],
        )

    def apart(self, namespace: str, owner: str, entries: list[Entry]) -> Iterator[ConstraintDomains]:
        """The anti-affinity of a workload, required and preferred, whose pods share their terms."""
        cluster = self._cluster
        pod_class = cluster.class_of(entries[0].pod)
        terms = [
            *pod_class.required_anti_affinity,
            *(owned for owned in pod_class.preferred if owned.weight < 0),
        ]
        if not terms:
            return
        own = np.array([cluster.pods.index[entry.key] for entry in entries], dtype=np.intp)
        for owned in terms:
            counts, broken = self._counted(owned, own)
            usable = self._usable_nodes(pod_class, "")
            bare = self._live[cluster.nodes.column(owned.topology_key).ids[self._live] == 0]
            most = max((counts[name] for name in broken), default=0)
            yield ConstraintDomains(
                kind=ANTI_AFFINITY,
                namespace=namespace,
                owner=owner,
                path=owned.path,
                topology_key=owned.topology_key,
                selector=str(owned.term.selector),
                hard=not owned.weight,
                limit=1,
                skew=most if broken else min(1, max(counts.values(), default=0)),
                ok=not broken,
                domains=self._domains(owned.topology_key, counts, usable, broken),
                all_domains=len(counts),
                left_out=[self._named(bare, f"no label {owned.topology_key}")] if len(bare) else [],
            )

    def _counted(self, owned: OwnedTerm, own: IndexArray) -> tuple[dict[str, int], set[str]]:
        """Pods that the term selects, by domain, and the domains where one is with a pod of the workload."""
        cluster, column = self._cluster, self._cluster.nodes.column(owned.topology_key)
        selected = cluster.pods_selected(owned.term)
        size = len(column.values)
        of_all = np.bincount(column.ids[cluster.pods.node[selected]], minlength=size)
        of_own = np.bincount(column.ids[cluster.pods.node[own]], minlength=size)
        both = np.intersect1d(selected, own)
        of_both = np.bincount(column.ids[cluster.pods.node[both]], minlength=size)
        clash = (of_own > 0) & (of_all - (of_both > 0) > 0)
        named = [(i, column.values[i] or "") for i in np.unique(column.ids[self._live]).tolist() if i]
        return {name: int(of_all[i]) for i, name in named}, {name for i, name in named if clash[i]}

    def _usable_nodes(self, pod_class: PodClass, without: str) -> BoolArray:
        """Which nodes no rule but `without` refuses."""
        key = (pod_class, without)
        if key not in self._usable:
            plan = plan_for(self._cluster, pod_class)
            fine = np.zeros(len(self._cluster.nodes.names), dtype=np.bool_)
            fine[self._live] = True
            for rule in plan.node_rules:
                if rule.filters and rule.static and rule.name != without:
                    fine[self._live] &= rule.feasible(self._live)
            self._usable[key] = fine
        return self._usable[key]

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
