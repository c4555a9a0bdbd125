"""How many further replicas of a workload fit, and what stops the next one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from berth.engine.offline.explaining.reasons import Refusals, Workloads, refusal_documents
from berth.engine.offline.explaining.replicas import FilledCluster, filled
from berth.engine.offline.explanation import explain
from berth.engine.offline.simulation import Simulation, UnplacedPod
from berth.engine.offline.snapshot import Entry, Progress
from berth.engine.offline.what_if.changes import WhatIfError
from berth.engine.offline.what_if.selecting import is_pod, pod_of, workload_of
from berth.engine.offline.what_if.workloads import (
    SCALABLE,
    expanded,
    living,
    made,
    missing,
    replicas_of,
    with_replicas,
)
from berth.engine.offline.what_if.world import ChangingWorld
from berth.engine.offline.workloads import DAEMON_SET
from berth.kube.well_known import UNSCHEDULABLE

# Beyond this it is "at least": nobody scales by so much at once.
MOST = 20_000
_KINDS = (*SCALABLE, "Job", "CronJob", DAEMON_SET)


class FittingReplicas(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer.

    Attributes:
        replicas: How many the workload has, with a node or without.
        fitting: How many more find a node, without making anybody go.
        more: There may be more: the search ended.
        nodes, zones: Where they go.
        stops: Why the next one finds none.
        help: The smallest change that would give it one.
        details: What stops it, as data.
    """

    sentence: str
    ok: bool
    workload: str
    replicas: int
    fitting: int
    more: bool
    nodes: dict[str, int]
    zones: dict[str, int]
    stops: str | None
    help: str | None
    details: list[dict[str, Any]]


def fit(world: ChangingWorld, workload: str, progress: Progress | None = None) -> FittingReplicas:
    """Add replicas one by one until none fits; the world is left as it was.

    Raises:
        WhatIfError: there is no such workload.
    """
    asked = _asked(world, workload)
    waiting = [world.unplaced[entry.key] for entry in asked.pods if entry.key in world.unplaced]
    with filled(world.snapshot, asked.like, 0 if waiting else MOST, progress) as found:
        placed, stops = found.placed, waiting[0].message if waiting else found.stops
        help_, details = _help(world, found) if stops is not None else (None, [])
    nodes = Counter(placement.node for placement in placed)
    zones: Counter[str] = Counter()
    for node, number in nodes.items():
        zone = world.snapshot.zone_of(node)
        zones.update({} if zone is None else {zone: number})
    return FittingReplicas(
        sentence=_sentence(asked.named, len(placed), len(waiting), stops),
        ok=bool(placed),
        workload=asked.title,
        replicas=len(asked.pods),
        fitting=len(placed),
        more=stops is None,
        nodes=dict(nodes),
        zones=dict(sorted(zones.items())),
        stops=stops,
        help=help_,
        details=details,
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked about: the workload with its pods, and what a further one is like."""

    title: str
    pods: list[Entry]
    like: Entry

    @property
    def named(self) -> tuple[str, str]:
        """What one more of it is called, and what it is of."""
        return (
            ("pod", f"like {self.title}")
            if self.title.startswith("Pod/")
            else ("replica", f"of {self.title}")
        )


def _asked(world: ChangingWorld, text: str) -> _Asked:
    if is_pod(text):
        entry = pod_of(world.on | world.waiting, world.snapshot, text, world.namespace)
        waits = entry.key in world.waiting
        return _Asked(f"Pod/{entry.name}", [entry] if waits else [], replace(entry, daemon_of=None))
    manifest = workload_of(world.snapshot, text, world.namespace, _KINDS)
    title = f"{manifest.kind}/{manifest.name}"
    if manifest.kind == DAEMON_SET:
        raise WhatIfError(
            f"{title} has one pod on every node it is for, and no replicas; --add gives it more"
        )
    mine = living(world, manifest)
    if manifest.kind in SCALABLE:
        more = with_replicas(manifest, max(len(mine), replicas_of(manifest)) + 1)
        found = missing(world, more)
    else:
        found = [*mine, *made(world, manifest, expanded([manifest]))]
    if not found:
        raise WhatIfError(f"{manifest.title} makes no further pod that could be tried")
    return _Asked(title, mine, found[0])


def _help(world: ChangingWorld, found: FilledCluster) -> tuple[str | None, list[dict[str, Any]]]:
    """What would help the first that does not fit, beside those that do, and its reasons as data."""
    simulation = Simulation(world.snapshot, list(found.placed), setup=world.setup)
    relaxations = explain(simulation, found.following).relaxations
    refusals = Refusals(simulation).of(UnplacedPod(found.following, UNSCHEDULABLE, ""))
    details = refusal_documents(refusals, Workloads(world.entries.values()))
    return relaxations[0].sentence if relaxations else None, details


def _sentence(named: tuple[str, str], number: int, waiting: int, stops: str | None) -> str:
    noun, of = named
    if waiting:
        verb = "has" if waiting == 1 else "have"
        those = f"{waiting} of those it has already {verb}" if noun == "replica" else "it has itself"
        return f"no further {noun} {of} fits: {those} no node."
    if stops is None:
        return f"at least {number} further {noun}s {of} fit."
    words = f"{noun}s {of} fit" if number > 1 else f"{noun} {of} fits"
    return f"{number or 'no'} further {words}; the next finds no node: {stops.rstrip('.')}."
