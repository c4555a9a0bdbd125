"""A simulation for people: who went where, the map of domains, and how even things are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from berth.cli.output.documents import shown_spreads
from berth.cli.output.tables import NONE, YES_OR_NO, Terminal, first_rows, indented, table
from berth.engine.offline.scheduling.placements import PodPlacement
from berth.engine.offline.simulation import Simulation, UnplacedPod
from berth.engine.offline.topology import NodeDomain, PodOnNode, Spread, ZoneDomain, domains
from berth.engine.rules.changes import short
from berth.kube.text.words import count

# Up to here every pod has a row and every node a line; beyond, `-o wide` shows them.
_ROWS_LISTED = 100
_NODES_LISTED = 40
_PODS_LISTED = 8
_DOMAINS_LISTED = 8

Report = Iterator[str]


def report(simulation: Simulation, term: Terminal) -> Report:
    for section in (_placements, _map, _spreads, _preempted):
        if lines := list(section(simulation, term)):
            yield from lines
            yield ""
    yield from _conclusion(simulation, term)


def _preempted(simulation: Simulation, term: Terminal) -> Report:
    rows = [
        (
            victim.entry.namespace,
            victim.entry.name,
            victim.node,
            preemptor.key,
            (simulation.node_of(victim.entry.key) or "nowhere") if victim.replacement else "not made again",
        )
        for victim, preemptor in simulation.preemptions()
    ]
    if rows:
        headers = ("NAMESPACE", "PREEMPTED", "NODE", "FOR", "REPLACEMENT")
        style = {"nowhere": "red", "not made again": "red"}.get
        yield first_rows(headers, rows, term, style, most=_ROWS_LISTED, of="pods")


# --- pods --------------------------------------------------------------------------------


def _placements(simulation: Simulation, term: Terminal) -> Report:
    pods: list[PodPlacement | UnplacedPod] = [*simulation.placements, *simulation.unplaced]
    if not pods:
        return
    if not term.wide and len(pods) > _ROWS_LISTED:
        yield _by_owner(simulation, pods, term)
        return
    headers = ["NAMESPACE", "POD", "NODE", "ZONE", "SCORE", *(["PRIORITY"] if term.wide else []), "OWNER"]
    rows: list[list[object]] = []
    for item in pods:
        entry = item.entry
        where: list[object] = [None, None, None]
        if isinstance(item, PodPlacement):
            where = [item.node, simulation.snapshot.zone_of(item.node), item.score]
        more = [entry.priority] if term.wide else []
        rows.append([entry.namespace, entry.name, *where, *more, entry.owner])
    yield table(headers, rows, term, lambda cell: "red" if cell == NONE else None)


def _by_owner(simulation: Simulation, pods: list[PodPlacement | UnplacedPod], term: Terminal) -> str:
    groups: dict[tuple[str, str], list[PodPlacement | UnplacedPod]] = {}
    for item in pods:
        key = (item.entry.namespace, item.entry.workload)
        groups.setdefault(key, []).append(item)
    rows = []
    for (namespace, owner), items in groups.items():
        placed = [item for item in items if isinstance(item, PodPlacement)]
        zones = Counter(simulation.snapshot.zone_of(placement.node) or NONE for placement in placed)
        nodes = len({placement.node for placement in placed})
        rows.append(
            (namespace, owner, len(items), len(placed), nodes, _per_domain(dict(sorted(zones.items()))))
        )
    return table(("NAMESPACE", "OWNER", "PODS", "PLACED", "NODES", "PODS PER ZONE"), rows, term)


# --- domains ----------------------------------------------------------------------------------


def _map(simulation: Simulation, term: Terminal) -> Report:
    zones = domains(simulation, simulation.namespace)
    nodes = sum(len(zone.nodes) for zone in zones)
    if not term.wide and nodes > _NODES_LISTED:
        yield _zone_table(zones, term)
        yield f"({nodes} nodes; -o wide lists every one)"
        return
    width = max((len(node.name) for zone in zones for node in zone.nodes), default=0)
    for zone in zones:
        inside = f"{count(len(zone.nodes), 'node')}, {count(zone.pods, 'pod')}"
        yield f"{term.title(f'ZONE {zone.name or NONE}')}   {inside}"
        for node in zone.nodes:
            pods = ", ".join(_pods(node, wide=term.wide)) or NONE
            yield indented(pods, f"  {node.name.ljust(width)}   ", term)
    if any(zone.placed for zone in zones):
        yield "(+ placed now)"


def _pods(node: NodeDomain, *, wide: bool) -> Iterable[str]:
    if wide or len(node.pods) <= _PODS_LISTED:
        return [_named(pod) for pod in node.pods]
    groups = Counter(f"{'+' if pod.placed else ''}{pod.entry.owner or pod.entry.name}" for pod in node.pods)
    return [f"{name} x{number}" if number > 1 else name for name, number in groups.items()]


def _named(pod: PodOnNode) -> str:
    name = pod.entry.name if pod.entry.namespace == "default" else pod.entry.key
    return f"+{name}" if pod.placed else name


def _zone_table(zones: list[ZoneDomain], term: Terminal) -> str:
    rows = []
    for zone in zones:
        sizes = sorted(len(node.pods) for node in zone.nodes)
        middle = sizes[len(sizes) // 2]
        empty = sizes.count(0)
        rows.append(
            (zone.name, len(sizes), zone.pods, zone.placed, empty, f"{sizes[0]} / {middle} / {sizes[-1]}")
        )
    headers = ("ZONE", "NODES", "PODS", "PLACED NOW", "EMPTY NODES", "PODS A NODE (LEAST / MEDIAN / MOST)")
    return table(headers, rows, term)


# --- spreading --------------------------------------------------------------------------------------


def _spreads(simulation: Simulation, term: Terminal) -> Report:
    if found := shown_spreads(simulation):
        yield spread_table(found, term)


def spread_table(spreads: list[Spread], term: Terminal) -> str:
    rows = [
        (
            spread.namespace,
            spread.owner,
            short(spread.topology_key) if not term.wide else spread.topology_key,
            "hard" if spread.hard else "soft",
            spread.skew,
            spread.max_skew,
            spread.ok,
            _per_domain(spread.counts, wide=term.wide),
        )
        for spread in spreads
    ]
    headers = ("NAMESPACE", "OWNER", "SPREAD OVER", "KIND", "SKEW", "MAX", "OK", "PODS PER DOMAIN")
    return table(headers, rows, term, YES_OR_NO)


def _per_domain(counts: dict[str, int], *, wide: bool = False) -> str:
    if not wide and len(counts) > _DOMAINS_LISTED:
        sizes = Counter(counts.values())
        return ", ".join(
            f"{number} with {size}" for size, number in sorted(sizes.items(), reverse=True)[:_DOMAINS_LISTED]
        )
    return ", ".join(f"{name} {number}" for name, number in counts.items())


# --- the end -----------------------------------------------------------------------------------------


def _conclusion(simulation: Simulation, term: Terminal) -> Report:
    total = len(simulation.placements) + len(simulation.unplaced)
    if not total:
        where = f" in namespace {simulation.namespace}" if simulation.namespace else ""
        yield f"There is no pending pod{where} to place."
        return
    if not simulation.unplaced:
        yield term.styled("The pod was placed." if total == 1 else f"All {total} pods were placed.", "green")
        return
    yield f"{len(simulation.placements)} of {count(total, 'pod')} placed. {term.styled('Not placed:', 'red')}"
    groups: dict[tuple[str, str | None, str], list[UnplacedPod]] = {}
    for unplaced in simulation.unplaced:
        entry = unplaced.entry
        groups.setdefault((entry.namespace, entry.owner or entry.name, unplaced.message), []).append(unplaced)
    for (_, owner, message), members in groups.items():
        first = members[0].entry.key
        who = first if len(members) == 1 else f"{first} and {len(members) - 1} more of {owner}"
        yield indented(f"{who}: {message}", "  ", term)
