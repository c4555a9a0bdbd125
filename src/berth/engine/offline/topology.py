"""Where the pods of a snapshot stand: zones, nodes, and how even each spread constraint is."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, fields

from berth.engine.offline.simulation import Simulation
from berth.engine.offline.snapshot import Entry
from berth.engine.placement.plan import plan_for
from berth.engine.rules.verdicts import ConstraintCounts
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
