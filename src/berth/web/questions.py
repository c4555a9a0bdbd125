"""What the page asks of a snapshot, as documents. Those that a command prints are the command's own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from msgspec import to_builtins

from berth.engine.offline.audit import WorkloadMoves, wanted_moves
from berth.engine.offline.explanation import Explanation, explain
from berth.engine.offline.lookup import find
from berth.engine.offline.simulation import Simulation, UnplacedPod, simulate
from berth.engine.offline.snapshot import Entry, Snapshot
from berth.engine.offline.topology import ConstraintDomains, constraint_domains
from berth.kube.objects import RawObject
from berth.kube.well_known import BERTH_API_VERSION
from berth.live.listing import Listing

_AVAILABLE = "nodes are available: "
_COUNTED = re.compile(r"(?:^|, )(\d+) ")
_MOST_PODS = 50  # of one workload that are named

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandDocuments:
    """How the commands write what they find; the page shows the same."""

    explanation: Callable[[Explanation, Snapshot], Document]
    audit: Callable[[Snapshot], Document]
    simulation: Callable[[Snapshot], Document]
    fleet: Callable[[Listing, bool], Document]  # and whether its bindings are made by controllers
    what_if: Callable[[Snapshot, RawObject], Document] | None = None


def constraints(snapshot: Snapshot) -> Document:
    """Every constraint with its domains, the broken ones first."""
    planned = {(each.namespace, each.owner): each for each in wanted_moves(snapshot)}
    found = [
        _constraint(each, planned.get((each.namespace, each.owner))) for each in constraint_domains(snapshot)
    ]
    return {"apiVersion": BERTH_API_VERSION, "kind": "Constraints", "constraints": found}


def _constraint(found: ConstraintDomains, planned: WorkloadMoves | None) -> Document:
    moves = planned.moves if planned is not None else ()
    return {
        **to_builtins(found),
        "moves": [{"pod": move.pod, "node": move.node, "landsOn": move.landing} for move in moves],
        "staysBecause": planned.refusal if planned is not None else None,
    }


def pending(snapshot: Snapshot) -> Document:
    """The pods without a node, by the reason why, then by workload."""
    simulation = simulate(snapshot)
    turns = {entry.key: turn for turn, entry in enumerate(snapshot.pending, start=1)}
    reasons: dict[tuple[str, frozenset[str]], list[UnplacedPod]] = {}
    for unplaced in simulation.unplaced:
        key = (unplaced.reason, frozenset(_refusals(unplaced.message)))
        reasons.setdefault(key, []).append(unplaced)
    groups = [
        {
            "reason": reason,
            "title": title(those[0].message),
            "message": those[0].message,
            "messages": len({each.message for each in those}),
            "pods": len(those),
            "workloads": _by_workload((each.entry for each in those), turns),
        }
        for (reason, _), those in reasons.items()
    ]
    return {
        "apiVersion": BERTH_API_VERSION,
        "kind": "Pending",
        "pods": len(snapshot.pending),
        "groups": sorted(groups, key=lambda group: -int(str(group["pods"]))),
        "placeable": [
            {
                "namespace": p.entry.namespace,
                "name": p.entry.name,
                "workload": p.entry.workload,
                "node": p.node,
            }
            for p in simulation.placements[:_MOST_PODS]
        ],
        "placeablePods": len(simulation.placements),
    }


def _refusals(message: str) -> dict[str, int]:
    """Why nodes refuse, and how many of them: what the scheduler's sentence counts up; else the sentence."""
    said = message.partition(" preemption: ")[0].partition(_AVAILABLE)[2]
    counted = _COUNTED.split(said.rstrip("."))
    return dict(zip(counted[2::2], map(int, counted[1::2]), strict=True)) or {message: 0}


def title(message: str) -> str:
    """The same without figures, what most nodes say first: pods that wait for the same read alike."""
    found = _refusals(message)
    first, *rest = sorted(found, key=lambda why: -found[why])
    return ", ".join(
        (first.replace("node(s)", "nodes", 1), *(each.removeprefix("node(s) ") for each in rest))
    )


def _by_workload(entries: Iterable[Entry], turns: dict[str, int]) -> list[Document]:
    found: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        found.setdefault((entry.namespace, entry.workload), []).append(entry)
    return [
        {
            "namespace": namespace,
            "workload": workload,
            "count": len(those),
            "pods": [{"name": each.name, "turn": turns[each.key]} for each in those[:_MOST_PODS]],
        }
        for (namespace, workload), those in found.items()
    ]


def explanation(snapshot: Snapshot, namespace: str, name: str, documents: CommandDocuments) -> Document:
    """Why a pod is where it is, or nowhere.

    Raises:
        berth.engine.offline.lookup.NotFoundError: there is no such pod; the message lists near names.
    """
    simulation: Simulation = simulate(snapshot)
    entry = find(simulation, name, namespace)
    return documents.explanation(explain(simulation, entry), simulation.snapshot)
