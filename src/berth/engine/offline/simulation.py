"""Placing every pending pod of a snapshot as a scheduler does: queue, groups, preemption; and taking it back.

The highest priority goes first.  A pod that finds no node preempts pods of lower priority where that
helps, and the pods that are made for these wait in the queue.  A pod that still has no node is tried
again once others were placed, since a peer that it needs may have come meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import heappop, heappush
from itertools import count

import numpy as np

from berth.engine.offline.scheduling.placements import (
    GroupCounts,
    GroupFailure,
    GroupSite,
    PodPlacement,
    Victim,
    count_on,
    group_key,
    refused_on,
    take_off,
)
from berth.engine.offline.scheduling.preemption import PreemptionRoom, replacement
from berth.engine.offline.scheduling.setup import SchedulerSetup
from berth.engine.offline.snapshot import Entry, Snapshot, SnapshotReader
from berth.engine.offline.snapshot_volumes import lacks_claims
from berth.engine.offline.workloads import unpinned
from berth.engine.placement.evaluation import NO_NODES, fit_error, fit_error_on
from berth.engine.placement.plan import Plan, SchedulingError, plan_for
from berth.engine.placement.preemption import Preemption
from berth.engine.state.cluster import Cluster
from berth.engine.state.identity import has_own_claims
from berth.engine.state.pod_class import PodClass
from berth.kube.manifests.manifest import Progress
from berth.kube.objects import Pod
from berth.kube.pods import GATED_MEMBERS, GroupKey
from berth.kube.well_known import SCHEDULER_ERROR, SCHEDULING_GATED, SCHEDULING_GATED_MESSAGE, UNSCHEDULABLE

# Why a pod is not placed: it waits for a scheduler that is none of ours.
OTHER_SCHEDULER = "OtherScheduler"
# Says what put a node before the next.
_Sentence = Callable[[Plan, int], str]


@dataclass(frozen=True, slots=True)
class UnplacedPod:
    """A pod that found no node, with kube-scheduler's message.

    Attributes:
        reason: One of the PodScheduled condition, or `OTHER_SCHEDULER`.
        preemption: Why making room does not help either, in kube-scheduler's words; empty if nobody tried.
    """

    entry: Entry
    reason: str
    message: str
    preemption: str = ""


@dataclass(slots=True)
class Simulation:
    """What became of the pending pods; the snapshot's cluster holds the result.

    Attributes:
        placements: In the order in which they were made; those of pods that replace a victim, too.
        unplaced: In queue order; replacements of victims, too.
        setup: Whose pods were placed, and how; others wait for their schedulers.
        failed_groups: The groups whose pods wait, because too few of them find a node at once.
        namespace: The one whose pods these are; None: all.
        elsewhere: The placements of other namespaces then.
    """

    snapshot: Snapshot
    placements: list[PodPlacement] = field(default_factory=list)
    unplaced: list[UnplacedPod] = field(default_factory=list)
    setup: SchedulerSetup = field(default_factory=SchedulerSetup)
    failed_groups: dict[GroupKey, GroupFailure] = field(default_factory=dict)
    namespace: str | None = None
    elsewhere: list[PodPlacement] = field(default_factory=list)

    def within(self, namespace: str | None) -> Simulation:
        """The same with the pods of one namespace only; who preempts whom concerns both sides."""
        if namespace is None:
            return self
        return replace(
            self,
            placements=[made for made in self.placements if made.entry.namespace == namespace],
            unplaced=[left for left in self.unplaced if left.entry.namespace == namespace],
            namespace=namespace,
            elsewhere=[made for made in self.placements if made.entry.namespace != namespace],
        )

    def rewind(self, number: int = 0) -> None:
        """Take back all placements from that number on; whom these had preempted is where it was then."""
        while later := [placement for placement in self.placements if placement.number >= number]:
            self.take_back(later)

    def held_back(self, entry: Entry) -> tuple[str, str] | None:
        """Reason and message if a pod is not tried at all, None if it is."""
        if entry.scheduler not in self.setup.schedulers:
            ours = " and ".join(self.setup.schedulers)
            return OTHER_SCHEDULER, f"waits for scheduler {entry.scheduler}; those placed here are of {ours}"
        if entry.gates:
            return SCHEDULING_GATED, SCHEDULING_GATED_MESSAGE
        if entry.fault is not None:
            return SCHEDULER_ERROR, entry.fault
        return None

    def held_members(self, entries: Iterable[Entry]) -> dict[GroupKey, Counter[str]]:
        """By group, what those of its pods are that are not tried, and how many."""
        found: dict[GroupKey, Counter[str]] = {}
        for entry in entries:
            key = group_key(entry)
            if key is not None and (held := self.held_back(entry)) is not None:
                said = {OTHER_SCHEDULER: f"of scheduler {entry.scheduler}", SCHEDULING_GATED: GATED_MEMBERS}
                found.setdefault(key, Counter())[said.get(held[0], "that cannot be read")] += 1
        return found

    def preemptions(self) -> Iterator[tuple[Victim, Entry]]:
        """Every pod that had to make room, and for whom; those of pods that were preempted since, too."""
        for placement in sorted((*self.placements, *self.elsewhere), key=lambda made: made.number):
            for victim, heir in placement.preemptions():
                if self.namespace in (None, victim.entry.namespace, heir.namespace):
                    yield victim, heir

    def node_of(self, key: str) -> str | None:
        """Where a pod was placed, None if it was not."""
        made = (*self.placements, *self.elsewhere)
        return next((placement.node for placement in made if placement.entry.key == key), None)

    def take_back(self, placements: Iterable[PodPlacement]) -> list[PodPlacement]:
        """Undo some of the placements: victims return, and the pods that replaced these go first.

        Returns all that were undone; `put_back` makes them again.
        """
        undone = {placement.entry.key for placement in placements}
        for placement in self.placements:
            if placement.entry.key in undone:
                undone.update(victim.entry.key for victim in placement.victims)
        gone = [placement for placement in self.placements if placement.entry.key in undone]
        self.placements = [placement for placement in self.placements if placement.entry.key not in undone]
        for placement in reversed(gone):
            take_off(self.snapshot.cluster, placement.entry)
            for victim in placement.victims:  # they are where they were; who made room for them is still gone
                if victim.placement is None:
                    self.snapshot.cluster.add_pod(victim.entry.pod)
                else:
                    count_on(self.snapshot.cluster, victim.entry, victim.placement.node)
                    self.placements.append(victim.placement)
        self.placements.sort(key=lambda placement: placement.number)
        return gone

    def put_back(self, placements: Iterable[PodPlacement]) -> None:
        """Make placements that were taken back again."""
        for placement in placements:
            for victim in placement.victims:
                take_off(self.snapshot.cluster, victim.entry)
                self.placements = [other for other in self.placements if other is not victim.placement]
            count_on(self.snapshot.cluster, placement.entry, placement.node)
            self.placements.append(placement)
        self.placements.sort(key=lambda placement: placement.number)


def members_of(simulation: Simulation, entry: Entry) -> list[Entry]:
    """The pods of its group that could be placed and were not, in queue order, and it itself."""
    key, placed = group_key(entry), {placement.entry.key for placement in simulation.placements}
    found = [
        other
        for other in simulation.snapshot.pending
        if group_key(other) == key and other.key not in placed and simulation.held_back(other) is None
    ]
    return found if any(other.key == entry.key for other in found) else [*found, entry]


def group_failure(simulation: Simulation, entry: Entry) -> GroupFailure | None:
    """Why a pod's group would not be placed as things are; None if it would, or the pod is in none."""
    key = group_key(entry)
    if key is None:
        return None
    snapshot, cluster = simulation.snapshot, simulation.snapshot.cluster
    books = GroupCounts(snapshot)
    for placement in simulation.placements:
        books.count(placement.entry)
    for victim, _ in simulation.preemptions():
        if victim.placement is None:
            books.count(victim.entry, -1)
    held = simulation.held_members((*snapshot.pending, *snapshot.unreadable)).get(key)
    found = GroupSite(cluster).attempt(books.state(key), members_of(simulation, entry), held)
    if isinstance(found, GroupFailure):
        return found
    for placement in found:
        take_off(cluster, placement.entry)
    return None


# --- placing -------------------------------------------------------------------------------------------


def simulate(
    snapshot: Snapshot,
    setup: SchedulerSetup | None = None,
    *,
    rng: np.random.Generator | None = None,
    progress: Progress | None = None,
    reason: _Sentence | None = None,
) -> Simulation:
    """Place the snapshot's pending pods onto its nodes, those that name one of the schedulers of the setup.

    `reason` says of every placement why.
    """
    simulation = Simulation(snapshot, setup=setup or SchedulerSetup())
    room = PreemptionRoom(snapshot, simulation.setup.preempting)
    placer = QueuePlacer(simulation, room=room, rng=rng, reason=reason)
    return placer.run((*snapshot.pending, *snapshot.unreadable), progress)


class QueuePlacer:
    """Places pods on the cluster of a snapshot, and keeps what became of them in a simulation."""

    def __init__(
        self,
        simulation: Simulation,
        *,
        room: PreemptionRoom,
        books: GroupCounts | None = None,
        rng: np.random.Generator | None = None,
        reason: _Sentence | None = None,
    ) -> None:
        snapshot = simulation.snapshot
        self._simulation = simulation
        self._cluster: Cluster = snapshot.cluster
        self._rng = rng
        self._reason = reason
        self._books = books or GroupCounts(snapshot)
        self._room = room
        self._numbers = count(1)
        self._changes = 0
        # Class -> how many changes there had been when it last found no node, and why there is no room.
        self._stuck: dict[PodClass, tuple[int, Preemption | None]] = {}
        self._daemons: dict[int, Pod] = {}
        self._placed: dict[str, PodPlacement] = {}
        self._evicted: set[str] = set()
        self._queue: list[tuple[tuple[int, bool, str], int, Entry]] = []
        self._order = count()
        self._groups: dict[GroupKey, list[Entry]] = {}
        self._held: dict[GroupKey, Counter[str]] = {}
        self._missed: list[Entry] = []
        self._messages: dict[PodClass, tuple[str, str]] = {}

    def run(self, pending: Iterable[Entry], progress: Progress | None = None) -> Simulation:
        simulation = self._simulation
        pending = list(pending)
        waiting = [entry for entry in pending if simulation.held_back(entry) is None]
        self._held = simulation.held_members(pending)
        total = len(waiting)
        while waiting:
            before = self._changes
            self._round(waiting, total, progress)
            waiting = self._missed
            if self._changes == before:
                break
        if progress is not None:
            progress(total, total)
        simulation.placements += sorted(self._placed.values(), key=lambda placement: placement.number)
        order = {entry.key: place for place, entry in enumerate(pending)}
        left = [*(entry for entry in pending if simulation.held_back(entry) is not None), *waiting]
        left.sort(key=lambda entry: (entry.turn, order.get(entry.key, total)))
        simulation.unplaced = [self._unplaced(entry) for entry in left]
        return simulation

    # --- the queue ------------------------------------------------------------------------------------

    def _round(self, waiting: list[Entry], total: int, progress: Progress | None) -> None:
        self._missed, self._groups = [], {}
        self._queue = []
        for entry in waiting:
            self._join(entry)
        while self._queue:
            _, _, entry = heappop(self._queue)
            key = group_key(entry)
            if key is None:
                self._try(entry)
            elif key in self._groups:
                self._place_group(key, self._groups.pop(key))
            if progress is not None:
                progress(min(len(self._placed), total), total)

    def _place_group(self, key: GroupKey, members: list[Entry]) -> None:
        """As the scheduler does: all at once that must be, and then the others one by one."""
        simulation = self._simulation
        found = GroupSite(self._cluster, self._rng).attempt(
            self._books.state(key), members, self._held.get(key)
        )
        if isinstance(found, GroupFailure):
            simulation.failed_groups[key] = found
            self._missed += members
            return
        simulation.failed_groups.pop(key, None)
        for placement in found:
            self._keep(placement)
        for entry in members:
            if entry.key not in self._placed:
                self._try(entry)

    # --- one pod --------------------------------------------------------------------------------------

    def _try(self, entry: Entry) -> None:
        if not self._place(entry):
            self._missed.append(entry)

    def _place(self, entry: Entry) -> bool:
        pod_class = self.class_of(entry)
        known = self._stuck.get(pod_class)
        if entry.daemon_of is None and known is not None and known[0] == self._changes:
            return False
        plan = plan_for(self._cluster, pod_class)
        try:
            best = self._choose(plan, entry)
        except SchedulingError:
            self._stuck[pod_class] = (self._changes, None)
            return False
        victims: tuple[Victim, ...] = ()
        if best is None:
            found = self._room.make(entry, self._cluster.class_of(entry.pod))
            if found is None or found.node is None:
                self._stuck[pod_class] = (self._changes, found)
                return False
            victims = self._evict(found.victims)
            slot = self._cluster.nodes.slot_of[found.node]
            plan = plan_for(self._cluster, pod_class)
            best = slot, int(plan.totals(plan.blocked())[slot])
        slot, score = best
        node = self._cluster.nodes.names[slot] or ""
        why = None
        if self._reason is not None:
            why = self._reason(plan, slot) if entry.daemon_of is None else "its DaemonSet has a pod there"
        count_on(self._cluster, entry, node, pod_class)
        self._keep(PodPlacement(entry, node, score, victims, why))
        for victim in victims:
            if victim.replacement is not None:
                self._join(victim.replacement)
        return True

    def _keep(self, placement: PodPlacement) -> None:
        entry = placement.entry
        self._changes += 1
        self._placed[entry.key] = replace(placement, number=next(self._numbers))
        self._books.count(entry)
        if entry.key in self._evicted:
            self._evicted.discard(entry.key)
            self._room.disrupt((entry,), -1)

    def _evict(self, keys: Iterable[str]) -> tuple[Victim, ...]:
        found = []
        for key in keys:
            earlier = self._placed.pop(key, None)
            entry = earlier.entry if earlier else self._room.running.get(key)
            if entry is None:
                continue
            counted = self._cluster.find_pod(key)
            node = counted[1] if counted else ""
            take_off(self._cluster, entry)
            self._changes += 1
            self._books.count(entry, -1)
            found.append(Victim(entry, node, earlier, replacement(entry, node)))
        self._evicted.update(victim.entry.key for victim in found if victim.replacement)
        self._room.disrupt(victim.entry for victim in found)
        return tuple(found)

    def _join(self, entry: Entry) -> None:
        """A pod comes to the queue, and what its controllers make for it is there."""
        if lacks_claims(self._cluster.volumes, entry.pod):
            self._reader.make_claims(self._simulation.snapshot, entry)
        heappush(self._queue, (entry.turn, next(self._order), entry))
        if (key := group_key(entry)) is not None:
            self._groups.setdefault(key, []).append(entry)

    @cached_property
    def _reader(self) -> SnapshotReader:
        return self._simulation.snapshot.reader

    def _choose(self, plan: Plan, entry: Entry) -> tuple[int, int] | None:
        if entry.daemon_of is not None:
            slot = self._cluster.nodes.slot_of.get(entry.daemon_of)
            if slot is None:
                return None
            blocked = plan.blocked()
            return None if blocked[slot] else (slot, int(plan.totals(blocked)[slot]))
        return plan.best(self._rng)

    def class_of(self, entry: Entry) -> PodClass:
        spec = entry.pod.spec
        if entry.daemon_of is None or spec.topology_spread_constraints or has_own_claims(spec):
            return self._cluster.class_of(entry.pod)
        # Pods of a DaemonSet differ in nothing but their node, and that is already decided: one class
        # for all of them saves compiling the rules once a node. (Spreading alone looks at the pin, and
        # ephemeral volumes have claims of their own.)
        found = self._daemons.get(id(entry.manifest))
        if found is None:
            found = self._daemons[id(entry.manifest)] = unpinned(entry.pod, entry.manifest)
        return self._cluster.class_of(found)

    # --- why not ----------------------------------------------------------------------------------------

    def _unplaced(self, entry: Entry) -> UnplacedPod:
        """Why a pod was not placed, asked once a class: a thousand replicas have one answer."""
        held_back = self._simulation.held_back(entry)
        if held_back is not None:
            return UnplacedPod(entry, *held_back)
        group = group_key(entry)
        if group is not None and (failure := self._simulation.failed_groups.get(group)):
            return UnplacedPod(entry, UNSCHEDULABLE, failure.message)
        if not self._cluster.nodes.live:
            return UnplacedPod(entry, UNSCHEDULABLE, NO_NODES)
        pod_class = self.class_of(entry)
        stuck = self._stuck.get(pod_class)
        preemption = stuck[1].message if stuck and stuck[1] else ""
        if entry.daemon_of is not None:
            slot = self._cluster.nodes.slot_of[entry.daemon_of]
            refused = refused_on(plan_for(self._cluster, pod_class), slot)
            message = fit_error_on(self._cluster.nodes.live, refused[0])
            return UnplacedPod(entry, UNSCHEDULABLE, message, preemption)
        known = self._messages.get(pod_class)
        if known is None:
            known = self._messages[pod_class] = self._message(pod_class)
        return UnplacedPod(entry, *known, preemption)

    def _message(self, pod_class: PodClass) -> tuple[str, str]:
        plan = plan_for(self._cluster, pod_class)
        if plan.error is not None and not plan.blocked().all():
            return SCHEDULER_ERROR, plan.error
        return UNSCHEDULABLE, fit_error(plan)[0]
