"""A what-if from beginning to end: the world as it is, the changes in order, and the world afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import msgspec

from berth.engine.offline.lookup import NotFoundError
from berth.engine.offline.snapshot import read
from berth.engine.offline.what_if import changes as change_kinds
from berth.engine.offline.what_if import objects, workloads
from berth.engine.offline.what_if.changes import ClusterChange, WhatIfError
from berth.engine.offline.what_if.comparison import compare, observe
from berth.engine.offline.what_if.lookup import pod_of
from berth.engine.offline.what_if.outcome import Measures, WhatIfOutcome
from berth.engine.offline.what_if.world import ChangingWorld, WorldLog
from berth.kube.manifests.manifest import Progress
from berth.kube.objects import Pod
from berth.kube.pods import is_terminating
from berth.kube.text.words import count


def settle(world: ChangingWorld, progress: Progress | None = None) -> None:
    """Let the scheduler place what waits already: that is where every what-if begins."""
    world.schedule(progress)
    world.log = WorldLog()


def what_if(
    world: ChangingWorld, changes: Iterable[ClusterChange], progress: Progress | None = None
) -> WhatIfOutcome:
    """Make changes to a world that is settled, and say what became of it.

    Raises:
        WhatIfError: a change cannot be made.
    """
    changes = list(changes)
    before = observe(world)
    world.log = WorldLog()
    make(world, changes, progress)
    return compare(world, before, observe(world), changes)


def make(world: ChangingWorld, changes: Iterable[ClusterChange], progress: Progress | None = None) -> None:
    """Make changes in their order.

    Raises:
        WhatIfError: one of them cannot be made.
    """
    changes = list(changes)
    for number, change in enumerate(changes):
        if progress is not None:
            progress(number, len(changes))
        world.log.change += 1
        try:
            _MAKERS[type(change)](world, change)
        except (WhatIfError, NotFoundError) as error:
            raise WhatIfError(f"{change.place}: {error}" if change.place else str(error)) from None
        world.schedule()


def _evict(world: ChangingWorld, change: change_kinds.PodEviction) -> None:
    entry = pod_of(world, change.pod, world.on)
    if entry.is_mirror:
        world.leave_behind(entry, "mirror pod: its kubelet runs it again at once")
        return
    objects.evict_in_rounds(world, [entry])


def _replace_all(world: ChangingWorld, _: change_kinds.FullReplacement) -> None:
    """Take every pod off its node that is not tied to it; all wait then, the oldest first."""
    for entry in list(world.on.values()):
        tied = entry.is_mirror or entry.is_daemon or is_terminating(entry.pod)
        if not tied and entry.node in world.snapshot.nodes:
            world.lift(entry)


def _configure(world: ChangingWorld, change: change_kinds.ConfigurationChange) -> None:
    """Judge by other options from now on: the cluster is taken in again, as it is."""
    setup = world.setup = change.setup
    snapshot = world.snapshot
    everyone = world.on | world.waiting
    manifests = [manifest for manifest in snapshot.manifests if not isinstance(manifest.object, Pod)]
    pods = [entry.as_manifest for entry in everyone.values()]
    promises = {key: snapshot.cluster.volumes.promised(key) for key in world.on}
    known_storage = snapshot.cluster.volumes.known
    origin = replace(snapshot.origin, controlled=True, whole_storage=known_storage)
    taken = read([*manifests, *pods], setup.options, None, origin, profiles=setup.profiles)
    taken.cluster.owners = snapshot.cluster.owners  # those made up for Deployments are in no manifest
    snapshot.cluster = taken.cluster
    for node in snapshot.nodes.values():
        snapshot.cluster.add_node(node)  # with what was done to it meanwhile
    for name in set(taken.nodes) - set(snapshot.nodes):
        snapshot.cluster.remove_node(name)
    for key, promise in promises.items():
        if promise is not None:
            snapshot.cluster.volumes.assume(key, *promise)


_MAKERS: dict[type[Any], Callable[[ChangingWorld, Any], None]] = {
    change_kinds.NodeDrain: objects.drain,
    change_kinds.NodeLoss: objects.lose,
    change_kinds.NodeCordon: objects.cordon,
    change_kinds.NodeLabelChange: objects.label,
    change_kinds.NodeTaintChange: objects.taint,
    change_kinds.NodeAddition: objects.add,
    change_kinds.WorkloadScaling: workloads.scale,
    change_kinds.WorkloadRollout: workloads.rollout,
    change_kinds.ObjectApplication: objects.apply,
    change_kinds.ObjectDeletion: objects.delete,
    change_kinds.PodEviction: _evict,
    change_kinds.FullReplacement: _replace_all,
    change_kinds.ConfigurationChange: _configure,
}


# --- the same pods both ways: two configurations, or two plans, side by side -----------------------------


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One way, A or B; `what` says which that is."""

    name: str
    what: str
    sentence: str
    ok: bool
    measures: Measures


class DifferingPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod and its node on either side; None: it has none, or is not there."""

    pod: str
    a: str | None
    b: str | None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """`ok`: all is well both ways."""

    sentence: str
    ok: bool
    a: Side
    b: Side
    differing: list[DifferingPod]


def versus(
    a: tuple[str, ChangingWorld, Iterable[ClusterChange]],
    b: tuple[str, ChangingWorld, Iterable[ClusterChange]],
) -> Comparison:
    """Run two what-ifs on worlds that are settled and equal in all but what is compared.

    Raises:
        WhatIfError: a change cannot be made.
    """
    sides = []
    for name, (what, world, changes) in zip(("A", "B"), (a, b), strict=True):
        found = what_if(world, changes)
        sides.append(
            Side(name=name, what=what, sentence=found.sentence, ok=found.ok, measures=found.measures)
        )
    nodes = [{key: e.pod.spec.node_name for key, e in world.on.items()} for _, world, _ in (a, b)]
    differing = [
        DifferingPod(pod=key, a=nodes[0].get(key), b=nodes[1].get(key))
        for key in sorted({*nodes[0], *nodes[1]})
        if nodes[0].get(key) != nodes[1].get(key)
    ]
    return Comparison(
        sentence=_sentence(sides[0], sides[1], len(differing)),
        ok=all(side.ok for side in sides),
        a=sides[0],
        b=sides[1],
        differing=differing,
    )


def _sentence(a: Side, b: Side, differing: int) -> str:
    if a.measures.unplaced != b.measures.unplaced:
        better, worse = sorted((a, b), key=lambda side: side.measures.unplaced)
        pods = count(worse.measures.unplaced - better.measures.unplaced, "fewer pod")
        return f"{better.name} leaves {pods} without a node than {worse.name}."
    if not differing:
        return "both ways every pod has the same node."
    pods = f"{differing} pod{'s have' if differing > 1 else ' has'} another node"
    if a.measures.worst_skew != b.measures.worst_skew:
        better = min((a, b), key=lambda side: side.measures.worst_skew)
        return f"{pods}; {better.name} is more even (worst skew {better.measures.worst_skew})."
    if a.measures.nodes_used != b.measures.nodes_used:
        better = min((a, b), key=lambda side: side.measures.nodes_used)
        return f"{pods}; {better.name} uses fewer nodes ({better.measures.nodes_used})."
    return f"{pods}, as many are placed, as even and on as many nodes."
