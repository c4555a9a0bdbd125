"""Fleets for people and programs: where everything goes, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from berth.cli.output.documents import document_of, fields
from berth.cli.output.tables import NONE, Terminal, indented, table
from berth.fleet.offline.explanation import (
    DOES_NOT_FIT,
    ClusterExplanation,
    FleetExplanation,
    FleetRelaxation,
    spelled,
)
from berth.fleet.offline.simulation import PLACED, STAYS, SUSPENDED, FleetSimulation, FleetWorkload
from berth.kube.karmada import TargetCluster
from berth.kube.objects import Document
from berth.kube.text.words import count, first_of

# --- documents ------------------------------------------------------------------------------------
# The stable objects behind `berth fleet … -o json`; docs/output.md describes them.


def simulation_document(simulation: FleetSimulation, shown: Iterable[FleetWorkload]) -> Document:
    states = [workload.state for workload in simulation.workloads]
    content: Document = {
        "summary": {
            "clusters": simulation.fleet.clusters.number,
            "workloads": len(states),
            "placed": states.count(PLACED),
            "stayed": states.count(STAYS),
            "unplaced": len(simulation.unplaced),
        },
        "workloads": [_workload(workload) for workload in shown],
    }
    return document_of("FleetSimulation", content, simulation.notes, simulation.warnings)


def _workload(workload: FleetWorkload) -> Document:
    decision = workload.decision
    error = decision.error if decision is not None else None
    resource = workload.binding.spec.resource
    return {
        "namespace": workload.key[0] or None,
        "binding": workload.key[1],
        "resource": {"apiVersion": resource.api_version, "kind": resource.kind, "name": resource.name},
        "policy": workload.policy,
        "priority": workload.priority,
        "state": workload.state,
        "replicas": workload.binding.spec.replicas,
        "clusters": _targets(workload.targets),
        "affinityName": (decision.decisive.affinity_name or None) if decision is not None else None,
        "reason": error.reason if error is not None else None,
        "message": error.message if error is not None else None,
    }


def _targets(targets: Iterable[TargetCluster]) -> list[Document]:
    return [fields(target, "name", "replicas") for target in targets]


def explanation_document(
    explanation: FleetExplanation, notes: Iterable[str], warnings: Iterable[str] = ()
) -> Document:
    workload = explanation.workload
    decision = workload.decision
    content: Document = {
        **{name: _workload(workload)[name] for name in ("namespace", "binding", "resource", "policy")},
        "state": explanation.state,
        "reason": explanation.reason,
        "message": explanation.message,
        "current": _targets(workload.binding.spec.clusters or ()),
        "decided": _targets(decision.targets or ()) if decision is not None else [],
        "attempts": [{"affinityName": name or None, "message": text} for name, text in explanation.attempts],
        "broken": list(explanation.broken),
        "clusters": [_cluster(cluster) for cluster in explanation.clusters],
        "relaxations": [_relaxation(relaxation) for relaxation in explanation.relaxations],
    }
    return document_of("FleetExplanation", content, notes, warnings)


def _cluster(cluster: ClusterExplanation) -> Document:
    return {
        **fields(cluster, "name", "region"),
        "zones": list(cluster.zones),
        **fields(cluster, "feasible", "selected", "replicas", "current", "score", "room"),
        "rejections": [fields(verdict, "rule", "reason") for verdict in cluster.verdicts],
    }


def _relaxation(relaxation: FleetRelaxation) -> Document:
    said = fields(relaxation, "sentence", "change")
    return {**said, "clusters": list(relaxation.clusters), "feasible": relaxation.fits}


# Up to here every workload and cluster has a row; beyond, `-o wide` shows them.
_ROWS_LISTED = 100
_CLUSTERS_LISTED = 40
_NAMES_LISTED = 8
_REFUSED_LISTED = 3


# --- simulations -----------------------------------------------------------------------------------


def simulation_report(
    simulation: FleetSimulation, shown: list[FleetWorkload], term: Terminal
) -> Iterator[str]:
    listed = shown if term.wide else shown[:_ROWS_LISTED]
    if listed:
        yield _workloads(listed, term)
        if len(listed) < len(shown):
            yield f"(the first {len(listed)} of {len(shown)} workloads; -o wide lists every one)"
        yield ""
    yield _map(simulation, shown, term)
    if any(workload.state == PLACED for workload in shown):
        yield "(+ placed now)"
    yield ""
    yield from _conclusion(shown, term)


def _workloads(workloads: Iterable[FleetWorkload], term: Terminal) -> str:
    headers = ["NAMESPACE", "WORKLOAD", "REPLICAS", "CLUSTERS"]
    if term.wide:
        headers[2:2] = ["BINDING", "POLICY", "PRIORITY"]
    rows: list[list[object]] = []
    for workload in workloads:
        row: list[object] = [workload.key[0], workload.title, workload.binding.spec.replicas or "-"]
        if term.wide:
            row[2:2] = [workload.key[1], workload.policy, workload.priority]
        rows.append([*row, _where(workload)])
    return table(headers, rows, term, lambda cell: "red" if cell == NONE else None)


def _where(workload: FleetWorkload) -> str | None:
    placed = spelled(workload.targets, bare=not workload.binding.spec.replicas)
    return f"{placed} (as before)" if placed and workload.state != PLACED else placed


def _map(simulation: FleetSimulation, shown: list[FleetWorkload], term: Terminal) -> str:
    """Every cluster with what is on it; + was placed now."""
    clusters = simulation.fleet.clusters
    on: dict[str, list[str]] = {clusters.names[slot]: [] for slot in np.flatnonzero(clusters.exists).tolist()}
    for workload in shown:
        mark = "+" if workload.state == PLACED else ""
        for target in workload.targets:
            on.setdefault(target.name, []).append(f"{mark}{workload.title}")
    rows = []
    for name, titles in list(on.items())[: None if term.wide else _CLUSTERS_LISTED]:
        slot = clusters.slot_of.get(name)
        view = clusters.views[slot] if slot is not None else None
        listed = term.first_of(titles, _NAMES_LISTED)
        rows.append([name, view.spec.region if view is not None else None, listed])
    sheet = table(["CLUSTER", "REGION", "WORKLOADS"], rows, term)
    if len(rows) < len(on):
        sheet += f"\n({len(rows)} of {len(on)} clusters; -o wide lists every one)"
    return sheet


def _conclusion(shown: list[FleetWorkload], term: Terminal) -> Iterator[str]:
    good = [workload for workload in shown if workload.state in (PLACED, STAYS)]
    total = count(len(shown), "workload")
    if len(good) == len(shown):
        yield term.styled(f"All of {total} placed." if shown else "There is nothing to place.", "green")
        return
    yield term.styled(f"{len(good)} of {total} placed. Not placed:", "red")
    for workload in shown:
        if workload.state not in (PLACED, STAYS):
            yield indented(f"{workload.name}: {_why(workload)}", "  ", term)


def _why(workload: FleetWorkload) -> str:
    if workload.state == SUSPENDED:
        return "its scheduling is suspended (spec.suspension.scheduling)"
    error = workload.decision.error if workload.decision is not None else None
    return error.message if error is not None else ""


# --- explanations ----------------------------------------------------------------------------------


def explanation_report(explanation: FleetExplanation, term: Terminal) -> Iterator[str]:
    workload = explanation.workload
    good = explanation.reason is None and explanation.state not in (SUSPENDED, DOES_NOT_FIT)
    by = f", by {workload.policy}" if workload.policy else ""
    yield term.title(f"Binding {workload.name} ({workload.title}{by})")
    yield indented(term.styled(explanation.message, "green" if good else "red"), "", term)
    if len(explanation.attempts) > 1:
        for name, message in explanation.attempts:
            yield indented(f"affinity {name}: {message or 'this one was taken'}", "  ", term)
    fits = [cluster for cluster in explanation.clusters if cluster.feasible]
    refused = [cluster for cluster in explanation.clusters if cluster.verdicts]
    if fits:
        yield ""
        yield _fits(fits, term)
    if refused:
        yield ""
        yield _refused(refused, term)
    if explanation.broken:
        yield ""
        yield term.title("Broken now:")
        yield from (indented(text, "  - ", term) for text in explanation.broken)
    if explanation.reason is not None:
        yield ""
        if explanation.relaxations:
            yield term.title("What would help:")
            yield from (indented(relaxation.sentence, "  - ", term) for relaxation in explanation.relaxations)
        else:
            yield "No single change that Berth knows to try would help."


def _fits(clusters: list[ClusterExplanation], term: Terminal) -> str:
    listed = clusters if term.wide else clusters[:_CLUSTERS_LISTED]
    headers = ["CLUSTER", "REGION", "SCORE", "ROOM", "SELECTED", "REPLICAS"]
    rows: list[list[object]] = [
        [
            cluster.name,
            cluster.region,
            cluster.score,
            "any" if cluster.room is None else cluster.room,
            cluster.selected,
            cluster.replicas,
        ]
        for cluster in listed
    ]
    sheet = table(headers, rows, term, lambda cell: "green" if cell == "yes" else None)
    if len(listed) < len(clusters):
        sheet += f"\n({len(listed)} of {len(clusters)} clusters that fit; -o wide lists every one)"
    return sheet


def _refused(clusters: list[ClusterExplanation], term: Terminal) -> str:
    headers = ("CLUSTER", "REGION", "RULE", "WHY")
    if term.wide or len(clusters) <= _CLUSTERS_LISTED:
        rows = [row for cluster in clusters for row in _rows(cluster.name, cluster)]
        return table(headers, rows, term)
    groups: dict[tuple[object, ...], list[ClusterExplanation]] = {}
    for cluster in clusters:
        groups.setdefault(cluster.verdicts, []).append(cluster)
    rows = []
    for members in sorted(groups.values(), key=len, reverse=True):
        rows += _rows(first_of([cluster.name for cluster in members], _REFUSED_LISTED), members[0])
    return table(headers, rows, term) + f"\n({count(len(clusters), 'cluster')}; -o wide lists every one)"


def _rows(name: str, cluster: ClusterExplanation) -> Iterator[tuple[str | None, ...]]:
    head: tuple[str | None, ...] = (name, cluster.region)
    for verdict in cluster.verdicts:
        yield (*head, verdict.rule, verdict.reason)
        head = ("-", "-")
