"""What can be asked of a world beside what changes do to it: losing each domain, and how many replicas fit.

All on one engine cluster.  For a domain that is lost, nodes are taken out with their pods, what is made for
these is placed, and everything is undone again: the N+1 table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import msgspec

from berth.engine.offline.explaining.reasons import UnplacedReasons, Workloads
from berth.engine.offline.explaining.replicas import FilledCluster, filled
from berth.engine.offline.explanation import explain
from berth.engine.offline.scheduling.placements import GroupCounts
from berth.engine.offline.scheduling.preemption import PreemptionRoom, replacement
from berth.engine.offline.simulation import QueuePlacer, Simulation
from berth.engine.offline.snapshot import Entry
from berth.engine.offline.what_if import workloads
from berth.engine.offline.what_if.changes import NODE_KEY, WELL_KNOWN, WhatIfError
from berth.engine.offline.what_if.lookup import domains_of, is_pod, pod_of, workload_of
from berth.engine.offline.what_if.world import ChangingWorld
from berth.engine.offline.workloads import DAEMON_SET, replicas_of
from berth.kube.manifests.manifest import Progress
from berth.kube.pods import is_terminating

# Nodes that a preemption chooses from, lowest victims first; whether it helps does not depend on it.
_CANDIDATES = 20
# Rows whose reasons are told as data: each takes a look at all nodes.
_MOST_DETAILED = 100
# Beyond this the answer is "at least": nobody adds so many replicas at once.
MOST = 20_000


class DomainLoss(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the loss of one domain would do.

    Attributes:
        pods: Those on its nodes that do not belong to a node.
        moved: How many of them find another node.
        unplaced: The pods that find none, victims of preemption among them.
        lost: The pods that nobody makes again.
        preempted: How many others have to make room.
        message: Why most of the unplaced find no node.
        details: The same as data, for the first rows that cannot be lost.
    """

    domain: str
    nodes: int
    pods: int
    moved: int
    unplaced: list[str]
    lost: list[str]
    preempted: int
    message: str | None
    details: list[dict[str, Any]]

    @property
    def ok(self) -> bool:
        return not self.unplaced and not self.lost


class EveryLoss(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One row a domain; `waiting` pods had no node to begin with and are left out."""

    sentence: str
    ok: bool
    key: str
    rows: list[DomainLoss]
    waiting: int


def lose_each(world: ChangingWorld, key: str, progress: Progress | None = None) -> EveryLoss:
    """Lose every domain of a label by itself; `zone`, `region` and `node` are understood.

    Raises:
        WhatIfError: no node has the label.
    """
    name, key = key, WELL_KNOWN.get(key, key)
    domains = domains_of(world.snapshot, key)
    losses = _Losses(world)
    rows = []
    for done, (value, names) in enumerate(domains.items()):
        if progress is not None:
            progress(done, len(domains))
        rows.append(losses.of(value, names))
    return EveryLoss(
        sentence=_said_of_losses(name, rows),
        ok=all(row.ok for row in rows),
        key=key,
        rows=rows,
        waiting=len(world.waiting),
    )


def _said_of_losses(key: str, rows: list[DomainLoss]) -> str:
    noun = key if key in WELL_KNOWN or key == NODE_KEY else f"{key} domain"
    bad = [row for row in rows if not row.ok]
    if not rows:
        return f"there is no {noun} to lose."
    if not bad:
        which = f"each of the {len(rows)} {noun}s" if len(rows) > 1 else f"the only {noun}"
        return f"{which} can be lost: all its pods land elsewhere."
    worst = max(bad, key=lambda row: len(row.unplaced) + len(row.lost))
    counts = ((len(worst.unplaced), "without a node"), (len(worst.lost), "lost"))
    pods = ", ".join(f"{n} pod{'s' if n > 1 else ''} {what}" for n, what in counts if n)
    return f"{len(bad)} of {len(rows)} {noun}s cannot be lost, the worst is {worst.domain}: {pods}."


class _Losses:
    def __init__(self, world: ChangingWorld) -> None:
        self._world = world
        self._on: dict[str, list[tuple[int, Entry]]] = {}
        for number, entry in enumerate(world.on.values()):
            self._on.setdefault(entry.node, []).append((number, entry))
        self._detailed = 0
        self._workloads = Workloads(world.entries.values())
        self._books = GroupCounts(world.snapshot)
        self._room = PreemptionRoom(world.snapshot, world.setup.preempting, _CANDIDATES)

    def of(self, domain: str, names: list[str]) -> DomainLoss:
        numbered = [each for name in names for each in self._on.get(name, ())]
        there = [entry for _, entry in sorted(numbered, key=lambda each: each[0])]
        books = self._books.copy()
        waiting, lost = [], []
        for entry in there:
            books.count(entry, -1)
            anew = replacement(entry)
            if anew is not None:
                waiting.append(anew)
            elif not (entry.is_daemon or entry.is_mirror or is_terminating(entry.pod)):
                lost.append(entry.key)
        self._room.forget()
        with self._without(there, names):
            simulation = self._placed(waiting, books)
            hit = {entry.key for entry in waiting}
            preempted = [victim for victim, _ in simulation.preemptions()]
            messages = Counter(unplaced.message for unplaced in simulation.unplaced)
            message = messages.most_common(1)[0][0] if messages else None
            found = DomainLoss(
                domain=domain,
                nodes=len(names),
                pods=len(waiting) + len(lost),
                moved=sum(placement.entry.key in hit for placement in simulation.placements),
                unplaced=[unplaced.entry.key for unplaced in simulation.unplaced],
                lost=lost + [victim.entry.key for victim in preempted if victim.replacement is None],
                preempted=len(preempted),
                message=message,
                details=self._details(simulation, message),
            )
            simulation.rewind()
        return found

    def _details(self, simulation: Simulation, message: str | None) -> list[dict[str, Any]]:
        if message is None or self._detailed >= _MOST_DETAILED:
            return []
        self._detailed += 1
        one = next(unplaced for unplaced in simulation.unplaced if unplaced.message == message)
        return UnplacedReasons(simulation, self._workloads).documents(one.entry)

    def _placed(self, waiting: list[Entry], books: GroupCounts) -> Simulation:
        simulation = Simulation(self._world.snapshot, setup=self._world.setup)
        waiting.sort(key=lambda entry: entry.turn)
        return QueuePlacer(simulation, books=books, room=self._room).run(waiting)

    @contextmanager
    def _without(self, there: list[Entry], names: list[str]) -> Iterator[None]:
        snapshot, cluster = self._world.snapshot, self._world.cluster
        promises = {entry.key: cluster.volumes.promised(entry.key) for entry in there}
        nodes = {name: snapshot.nodes[name] for name in names}
        with cluster.without(*(entry.key for entry in there)), cluster.without_nodes(nodes):
            for key, promise in promises.items():
                if promise is not None:
                    cluster.volumes.forget(key)
            yield
        for key, promise in promises.items():
            if promise is not None:
                cluster.volumes.assume(key, *promise)


# --- how many further replicas of a workload fit, and what stops the next one --------------------------


class FittingReplicas(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many more replicas of a workload find a node, and what stops the next one.

    Attributes:
        replicas: How many the workload has, with a node or without.
        fitting: How many more find a node, without making anybody go.
        more: Whether there may be more, because the search ended early.
        nodes, zones: Where they go.
        stops: Why the next one finds none, and `details`, the same as data.
        help: The smallest change that would give it one.
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
        berth.engine.offline.lookup.NotFoundError: there is no such workload.
        WhatIfError: it has no replicas.
    """
    title, pods, like = _asked(world, workload)
    waiting = [world.unplaced[entry.key] for entry in pods if entry.key in world.unplaced]
    with filled(world.snapshot, like, 0 if waiting else MOST, progress) as found:
        placed, stops = found.placed, waiting[0] if waiting else found.stops
        message = stops.message if stops is not None else None
        help_, details = _help(world, found) if stops is not None else (None, [])
    nodes = Counter(placement.node for placement in placed)
    zones: Counter[str] = Counter()
    for node, number in nodes.items():
        zone = world.snapshot.zone_of(node)
        zones.update({} if zone is None else {zone: number})
    return FittingReplicas(
        sentence=_said_of_fitting(title, len(placed), len(waiting), message),
        ok=bool(placed),
        workload=title,
        replicas=len(pods),
        fitting=len(placed),
        more=message is None,
        nodes=dict(nodes),
        zones=dict(sorted(zones.items())),
        stops=message,
        help=help_,
        details=details,
    )


def _asked(world: ChangingWorld, text: str) -> tuple[str, list[Entry], Entry]:
    """What is asked about, the workload and its pods, and what a further one is like."""
    if is_pod(text):
        entry = pod_of(world, text, world.on | world.waiting)
        waits = entry.key in world.waiting
        return f"Pod/{entry.name}", [entry] if waits else [], replace(entry, daemon_of=None)
    manifest = workload_of(world, text, workloads.MAKING_PODS)
    title = f"{manifest.kind}/{manifest.name}"
    if manifest.kind == DAEMON_SET:
        pods = "one pod on every node it is for, and no replicas"
        raise WhatIfError(f"{title} has {pods}; --add gives it more")
    mine = workloads.living(world, manifest)
    if manifest.kind in workloads.SCALABLE:
        more = workloads.with_replicas(manifest, max(len(mine), replicas_of(manifest)) + 1)
        found = workloads.missing(world, more)
    else:
        found = [*mine, *workloads.made(world, manifest, workloads.expanded([manifest]))]
    if not found:
        raise WhatIfError(f"{manifest.title} makes no further pod that could be tried")
    return title, mine, found[0]


def _help(world: ChangingWorld, found: FilledCluster) -> tuple[str | None, list[dict[str, Any]]]:
    """What would help the first that does not fit, beside those that do, and its reasons as data."""
    simulation = Simulation(world.snapshot, list(found.placed), setup=world.setup)
    relaxations = explain(simulation, found.following).relaxations
    details = UnplacedReasons(simulation, Workloads(world.entries.values())).documents(found.following)
    return relaxations[0].sentence if relaxations else None, details


def _said_of_fitting(title: str, number: int, waiting: int, stops: str | None) -> str:
    noun, of = ("pod", f"like {title}") if title.startswith("Pod/") else ("replica", f"of {title}")
    if waiting:
        verb = "has" if waiting == 1 else "have"
        those = f"{waiting} of those it has already {verb}" if noun == "replica" else "it has itself"
        return f"no further {noun} {of} fits: {those} no node."
    if stops is None:
        return f"at least {number} further {noun}s {of} fit."
    words = f"{noun}s {of} fit" if number > 1 else f"{noun} {of} fits"
    return f"{number or 'no'} further {words}; the next finds no node: {stops.rstrip('.')}."
