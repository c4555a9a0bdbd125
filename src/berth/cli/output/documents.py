"""The stable objects behind `-o json` and `-o yaml`; docs/output.md describes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache

import click
import msgspec
import yaml

from berth.cli.output.tables import Terminal, terminal
from berth.engine.execution.eviction_ceiling import Halt
from berth.engine.offline.audit import Audit, Eviction, WorkloadMoves
from berth.engine.offline.budgets import DisruptionBudget
from berth.engine.offline.explaining.nodes import NodeVerdict, Wait
from berth.engine.offline.explaining.reasons import (
    UnplacedReasons,
    Workloads,
    group_document,
    verdict_document,
    violation_document,
)
from berth.engine.offline.explaining.replicas import FurtherReplicas
from berth.engine.offline.explanation import Explanation
from berth.engine.offline.relaxations import Relaxation
from berth.engine.offline.scheduling.placements import Victim
from berth.engine.offline.simulation import Simulation
from berth.engine.offline.snapshot import Entry, Snapshot
from berth.engine.offline.topology import Spread, ZoneDomain, domains, spreads
from berth.engine.placement.preemption import Preemption
from berth.kube.objects import Document
from berth.kube.well_known import BERTH_API_VERSION


def present(form: str, document: Callable[[], Document], report: Callable[[Terminal], Iterable[str]]) -> None:
    """Show a result in the form that was asked for: a document for programs, or lines for people.

    `report` takes the terminal.
    """
    if form in ("json", "yaml"):
        write = as_json if form == "json" else as_yaml
        click.echo(write(document()), nl=form == "json")
        return
    term = terminal(wide=form == "wide")
    for line in report(term):
        click.echo(line, color=term.color)


def as_json(document: Document) -> str:
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def as_yaml(document: Document) -> str:
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(document, Dumper=dumper, sort_keys=False, allow_unicode=True, width=1000)
    return text


def document_of(kind: str, content: Document, notes: Iterable[str], warnings: Iterable[str] = ()) -> Document:
    """A document of a kind, with the notes and warnings about the input."""
    head = {"apiVersion": BERTH_API_VERSION, "kind": kind}
    return {**head, **content, "notes": list(notes), "warnings": list(warnings)}


def _document(kind: str, content: Document, snapshot: Snapshot) -> Document:
    assumed = snapshot.daemon_namespaces
    more = {} if assumed is None else {"daemonNamespaces": assumed}
    return {**document_of(kind, content, snapshot.notes, snapshot.warnings), **more}


def fields(item: object, *names: str) -> Document:
    """Some attributes of an object, under their names in JSON."""
    return {wire: getattr(item, name) for name, wire in _on_the_wire(names)}


@cache
def _on_the_wire(names: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(name, re.sub("_([a-z])", lambda found: found[1].upper(), name)) for name in names]


def what_if_document(kind: str, found: msgspec.Struct, snapshot: Snapshot) -> Document:
    return document_of(kind, msgspec.to_builtins(found), snapshot.notes, snapshot.warnings)


def shown_spreads(simulation: Simulation) -> list[Spread]:
    """The spread constraints of the namespace that is shown, or all."""
    return [each for each in spreads(simulation) if simulation.namespace in (None, each.namespace)]


def simulation_document(simulation: Simulation) -> Document:
    snapshot = simulation.snapshot
    reasons = UnplacedReasons(simulation, Workloads(snapshot.pods))
    content: Document = {
        "summary": {
            "nodes": len(snapshot.nodes),
            "running": len(snapshot.running),
            "pending": len(simulation.placements) + len(simulation.unplaced),
            "placed": len(simulation.placements),
            "unplaced": len(simulation.unplaced),
        },
        "placements": [
            {
                **placement.entry.named,
                "node": placement.node,
                "zone": snapshot.zone_of(placement.node),
                "score": placement.score,
                "priority": placement.entry.priority,
            }
            for placement in simulation.placements
        ],
        "unplaced": [
            {
                **unplaced.entry.named,
                "reason": unplaced.reason,
                "message": unplaced.message,
                "priority": unplaced.entry.priority,
                "noPreemption": unplaced.preemption or None,
                "details": reasons.documents(unplaced.entry),
            }
            for unplaced in simulation.unplaced
        ],
        "preempted": [
            _preempted(simulation, victim, preemptor) for victim, preemptor in simulation.preemptions()
        ],
        "domains": [_zone(zone) for zone in domains(simulation, simulation.namespace)],
        "spread": [_spread(spread) for spread in shown_spreads(simulation)],
    }
    return _document("Simulation", content, snapshot)


def _preempted(simulation: Simulation, victim: Victim, preemptor: Entry) -> Document:
    return {
        **victim.entry.named,
        "node": victim.node,
        "priority": victim.entry.priority,
        "by": preemptor.key,
        "replaced": victim.replacement is not None,
        "landsOn": simulation.node_of(victim.entry.key),
    }


def _zone(zone: ZoneDomain) -> Document:
    nodes = [
        {
            "name": node.name,
            "pods": [
                {"namespace": pod.entry.namespace, "name": pod.entry.name, "placed": pod.placed}
                for pod in node.pods
            ],
        }
        for node in zone.nodes
    ]
    return {"zone": zone.name, "pods": zone.pods, "placed": zone.placed, "nodes": nodes}


def _spread(spread: Spread) -> Document:
    told = ("namespace", "owner", "path", "topology_key", "when_unsatisfiable", "selector")
    return fields(spread, *told, "counts", "minimum", "skew", "max_skew", "ok")


def explanation_document(explanation: Explanation, snapshot: Snapshot) -> Document:
    workloads = explanation.workloads
    content: Document = {
        **explanation.entry.named,
        "state": explanation.state,
        "node": explanation.node,
        "message": explanation.message,
        "schedulingGates": explanation.entry.gates,
        "broken": [verdict_document(verdict, workloads) for verdict in explanation.broken],
        "decision": explanation.decision,
        "nodes": [
            {**_node(node, workloads), "groupPods": explanation.beside[node.name]}
            for node in explanation.nodes
        ],
        "groups": [group_document(group, workloads) for group in explanation.groups],
        "groupPods": explanation.beside.total(),
        "queue": msgspec.to_builtins(explanation.queue),
        "waitsFor": [_wait(wait) for wait in explanation.waits],
        "furtherReplicas": _further(explanation.further),
        "clues": explanation.clues,
        "preemption": _preemption(explanation.preemption),
        "noPreemption": explanation.no_preemption or None,
        "relaxations": [_relaxation(relaxation) for relaxation in explanation.relaxations],
    }
    return _document("Explanation", content, snapshot)


def _node(node: NodeVerdict, workloads: Workloads) -> Document:
    return {
        **fields(node, "name", "zone", "feasible", "total"),
        "rejections": [verdict_document(verdict, workloads) for verdict in node.verdicts],
        "scores": [fields(s, "rule", "raw", "normalized", "weight", "weighted") for s in node.scores],
    }


def _wait(wait: Wait) -> Document:
    return {
        "sentence": wait.sentence,
        "codes": list(wait.codes),
        "events": list(wait.events),
        "nodes": len(wait.nodes),
    }


def _further(found: FurtherReplicas | None) -> Document | None:
    if found is None:
        return None
    return {
        "count": found.count,
        "orMore": found.most,
        "message": found.message or None,
        "pods": found.pods,
        "waiting": found.waiting,
    }


def _preemption(found: Preemption | None) -> Document | None:
    if found is None:
        return None
    return {"node": found.node, "victims": list(found.victims), "againstBudgets": found.violations}


def _relaxation(relaxation: Relaxation) -> Document:
    changes = [fields(change, "kind", "object", "path", "value") for change in relaxation.changes]
    return {"sentence": relaxation.sentence, "changes": changes, "nodes": relaxation.nodes}


def audit_document(audit: Audit) -> Document:
    snapshot = audit.snapshot
    workloads = Workloads(snapshot.pods)
    content: Document = {
        "summary": {
            "clean": audit.clean,
            "nodes": len(snapshot.nodes),
            "running": len(snapshot.running),
            "broken": len({violation.pod for violation in audit.violations if violation.hard}),
            "uneven": sum(not spread.ok for spread in audit.spreads),
            "evictions": len(audit.evictions),
            "stopped": sum(bool(eviction.stopped_by) for eviction in audit.evictions),
            "halted": sum(eviction.halted for eviction in audit.evictions),
            "invalidAnnotations": len(audit.faulty),
        },
        "violations": [
            violation_document(audit.entries[found.pod], found, workloads) for found in audit.violations
        ],
        "spread": [_spread(spread) for spread in audit.spreads],
        "evictions": [_eviction(eviction) for eviction in audit.evictions],
        "halts": [_halt(halt) for halt in audit.halts],
        "budgets": [_budget(budget) for budget in audit.budgets],
        **_rebalancing(audit.rebalancing),
        "invalidAnnotations": [
            {**entry.named, "node": entry.pod.spec.node_name, "why": entry.fault} for entry in audit.faulty
        ],
    }
    return _document("Audit", content, snapshot)


def _rebalancing(workloads: list[WorkloadMoves] | None) -> Document:
    """The moves, if `--rebalance` asked for them."""
    if workloads is None:
        return {}
    return {
        "rebalancing": [
            {
                **fields(workload, "namespace", "owner"),
                "refusal": workload.stays_because,
                "stoppedBy": [budget.name for budget in workload.stopped_by],
                "moves": [
                    {
                        "turn": turn,
                        "pod": move.pod.partition("/")[2],
                        "node": move.node,
                        "landsOn": move.replacement_node,
                        "why": move.why,
                        "before": fields(move.before, "hard", "soft"),
                        "after": fields(move.after, "hard", "soft"),
                    }
                    for turn, move in zip(workload.turns, workload.moves, strict=True)
                ],
            }
            for workload in workloads
        ]
    }


def _eviction(eviction: Eviction) -> Document:
    return {
        **eviction.entry.named,
        "node": eviction.entry.node,
        "landsOn": eviction.replacement_node,
        "stoppedBy": [budget.name for budget in eviction.stopped_by],
        "haltedIn": eviction.halt.domain if eviction.halt else None,
        "oneByOne": eviction.one_by_one,
        "breaches": [
            {
                **fields(violation, "pod", "kind", "rule"),
                "code": violation.because.code,
                **fields(violation, "path", "cause"),
                "topology": list(violation.topology) if violation.topology else None,
                "peers": list(violation.peers),
            }
            for violation in eviction.violations
        ],
    }


def _halt(halt: Halt) -> Document:
    share, fate = round(halt.share, 4), {"moving": halt.one_by_one, "staying": halt.staying}
    return {**fields(halt, "domain", "going", "running"), "share": share, **fate}


def _budget(budget: DisruptionBudget) -> Document:
    counted = fields(budget, "pods", "healthy", "desired", "allowed", "computed")
    return {**fields(budget, "namespace", "name"), "selector": str(budget.selector), **counted}
