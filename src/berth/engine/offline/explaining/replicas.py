"""How many more replicas of a workload would find a node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from msgspec import structs

from berth.engine.offline.scheduling.placements import GroupSite, PodPlacement
from berth.engine.offline.scheduling.preemption import unbound
from berth.engine.offline.simulation import Simulation, group_failure
from berth.engine.offline.snapshot import Entry, Snapshot
from berth.engine.placement.group_placement import NoNode
from berth.kube.amounts.integers import integer
from berth.kube.manifests.manifest import Progress
from berth.kube.objects import ObjectMeta, Pod, Workload
from berth.kube.pods import is_terminating
from berth.kube.workloads.pod_templates import stateful_claims, with_claims

MOST_REPLICAS = 1000


@dataclass(frozen=True, slots=True)
class FurtherReplicas:
    """How many replicas fit beyond those that have a node or found one; `most` says that it may be more.

    Attributes:
        message: kube-scheduler's sentence about the next one; empty if it was not asked.
        pods, waiting: How many pods the workload has, and how many of them find no node.
    """

    count: int
    message: str = ""
    pods: int = 0
    waiting: int = 0

    @property
    def most(self) -> bool:
        return self.count >= MOST_REPLICAS


@dataclass(frozen=True, slots=True)
class FilledCluster:
    """A cluster with as many further replicas as fit.

    `following` is the one that finds no node, and `stops` why; None if nobody asked about so many.
    """

    placed: list[PodPlacement]
    following: Entry
    stops: NoNode | None


# --- filling -------------------------------------------------------------------------------------------


@contextmanager
def filled(
    snapshot: Snapshot, like: Entry, most: int, progress: Progress | None = None
) -> Iterator[FilledCluster]:
    """Add pods like one of a workload until none fits, at most so many; they are there while this lasts."""
    cluster, volumes = snapshot.cluster, snapshot.reader.volumes
    made = _further_ones(snapshot, like, volumes.stateful_set_of(like.pod))
    site = GroupSite(cluster)
    placed: list[PodPlacement] = []
    claims: list[ObjectMeta] = []
    try:
        while True:
            entry = made(len(placed))
            claims += (claim.metadata for claim in volumes.make_claims(entry.pod))
            found = site.place(entry) if len(placed) < most else None
            if not isinstance(found, PodPlacement):
                break
            site.count(found)
            placed.append(found)
            if progress is not None:
                progress(len(placed), most)
        yield FilledCluster(placed, entry, found)
    finally:
        for placement in reversed(placed):
            site.take_back(placement)
        for claim in claims:
            cluster.volumes.remove_claim(claim.namespace or "default", claim.name or "")


def _further_ones(snapshot: Snapshot, like: Entry, view: Workload | None) -> Callable[[int], Entry]:
    """Makes the next pods of a workload, by their number; those of a StatefulSet have claims of their own."""
    like = replace(like, pod=unbound(like.pod))

    def named(name: str, pod: Pod = like.pod) -> Entry:
        return replace(like, pod=structs.replace(pod, metadata=structs.replace(pod.metadata, name=name)))

    if view is None:
        return lambda number: named(f"{like.name} and {number + 1} more")  # no pod can be called that
    mine = snapshot.pods_of(like.owner or "", like.namespace)
    base = view.metadata.name or ""
    ordinals = (integer(pod.name.rpartition("-")[2], 32, least=0) for pod in mine)
    first = (view.spec.ordinals.start if view.spec.ordinals else None) or 0
    begin = max((ordinal + 1 for ordinal in ordinals if ordinal is not None), default=first)

    def following(number: int) -> Entry:
        name = f"{base}-{begin + number}"
        return named(name, with_claims(like.pod, stateful_claims(view, name)))

    return following


# --- of a pod that is explained ------------------------------------------------------------------------


def further_replicas(simulation: Simulation, entry: Entry) -> FurtherReplicas | None:
    """How many pods like this one fit on the cluster as it is.

    None for pods that nobody would place: they are gated, another scheduler's, a DaemonSet's, or of a group
    that has too few or too little room.  The cluster is left as it was.
    """
    snapshot = simulation.snapshot
    if entry.is_daemon or not snapshot.nodes:
        return None
    if simulation.held_back(entry) is not None or group_failure(simulation, entry) is not None:
        return None
    mine = snapshot.pods_of(entry.owner or "", entry.namespace)
    pods = {pod.key for pod in mine if not is_terminating(pod.pod)}
    waiting = pods & {unplaced.entry.key for unplaced in simulation.unplaced}
    with filled(snapshot, entry, MOST_REPLICAS) as found:
        if found.stops is not None and found.stops.failed:
            return None
        message = found.stops.message if found.stops else ""
        return FurtherReplicas(len(found.placed), message, len(pods), len(waiting))
