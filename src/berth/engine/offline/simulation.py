"""Placing every pending pod of a snapshot, one after the other, as a scheduler would.

Pods are taken in queue order.  A pod that finds no node waits and is tried again once others
were placed, since a peer it needs may have come meanwhile.  Nothing is preempted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from berth.engine.offline.groups import GroupBooks, GroupFailure, GroupSite, group_key
from berth.engine.offline.placements import PodPlacement, count_on, take_off
from berth.engine.offline.snapshot import Entry, Progress, Snapshot, unpinned
from berth.engine.placement.fit_error import NO_NODES, fit_error, fit_error_on
from berth.engine.placement.plan import Plan, SchedulingError, plan_for
from berth.engine.rules.verdicts import RuleVerdict
from berth.engine.state.cluster import Cluster
from berth.engine.state.identity import has_own_claims
from berth.engine.state.pod_class import PodClass
from berth.kube.objects import Pod
from berth.kube.pod_groups import GroupKey
from berth.kube.well_known import (
    DEFAULT_SCHEDULER_NAME,
    SCHEDULER_ERROR,
    SCHEDULING_GATED,
    SCHEDULING_GATED_MESSAGE,
    UNSCHEDULABLE,
)

# Whose pods Berth places unless it is told otherwise: its own, and those that name nobody.
SCHEDULERS = (DEFAULT_SCHEDULER_NAME, "berth")
# Why a pod is not placed: it waits for a scheduler that is none of ours.
OTHER_SCHEDULER = "OtherScheduler"


@dataclass(frozen=True, slots=True)
class UnplacedPod:
    """A pod that did not: the reason is one of the PodScheduled condition, the message kube-scheduler's.

    A pod that waits for another scheduler has the reason `OTHER_SCHEDULER`.
    """

    entry: Entry
    reason: str
    message: str


@dataclass(slots=True)
class Simulation:
    """What became of the pending pods; the snapshot's cluster holds the result.

    Attributes:
        placements: In the order in which they were made.
        unplaced: In queue order.
        schedulers: The names of the schedulers whose pods were placed; others wait for theirs.
        failed_groups: The groups whose pods wait, because too few of them find a node at once.
    """

    snapshot: Snapshot
    placements: list[PodPlacement] = field(default_factory=list)
    unplaced: list[UnplacedPod] = field(default_factory=list)
    schedulers: tuple[str, ...] = SCHEDULERS
    failed_groups: dict[GroupKey, GroupFailure] = field(default_factory=dict)

    def rewind(self, placements: int) -> None:
        """Take back all but the first `placements`."""
        self.take_back(self.placements[placements:])

    def held_back(self, entry: Entry) -> tuple[str, str] | None:
        """Reason and message if a pod is not tried at all, None if it is."""
        if entry.scheduler not in self.schedulers:
            ours = " and ".join(self.schedulers)
            return OTHER_SCHEDULER, f"waits for scheduler {entry.scheduler}; those placed here are of {ours}"
        if entry.gates:
            return SCHEDULING_GATED, SCHEDULING_GATED_MESSAGE
        return None

    def take_back(self, placements: Sequence[PodPlacement]) -> None:
        """Undo some of the placements."""
        undone = {placement.entry.key for placement in placements}
        for placement in placements:
            take_off(self.snapshot.cluster, placement.entry)
        self.placements = [placement for placement in self.placements if placement.entry.key not in undone]

    def put_back(self, placements: Iterable[PodPlacement]) -> None:
        """Make placements that were taken back, the last ones."""
        for placement in placements:
            count_on(self.snapshot.cluster, placement.entry, placement.node)
            self.placements.append(placement)


def simulate(
    snapshot: Snapshot,
    *,
    schedulers: tuple[str, ...] = SCHEDULERS,
    rng: np.random.Generator | None = None,
    progress: Progress | None = None,
) -> Simulation:
    """Place the snapshot's pending pods onto its nodes, those that name one of the schedulers."""
    return _Placer(Simulation(snapshot, schedulers=schedulers), rng, progress or _silent).run()


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
    cluster = simulation.snapshot.cluster
    state = GroupBooks(simulation.snapshot).state(key, simulation.placements)
    found = GroupSite(cluster).attempt(state, members_of(simulation, entry))
    if isinstance(found, GroupFailure):
        return found
    for placement in found:
        take_off(cluster, placement.entry)
    return None


def _silent(done: int, total: int) -> None:
    del done, total


class _Placer:
    def __init__(self, simulation: Simulation, rng: np.random.Generator | None, progress: Progress) -> None:
        self._cluster: Cluster = simulation.snapshot.cluster
        self._rng = rng
        self._progress = progress
        self._simulation = simulation
        # Class -> how many pods were placed when it last found no node.
        self._stuck: dict[PodClass, int] = {}
        self._daemons: dict[int, Pod] = {}
        self._placed: set[str] = set()
        self._books = GroupBooks(simulation.snapshot)

    def run(self) -> Simulation:
        pending = self._simulation.snapshot.pending
        waiting = [entry for entry in pending if self._simulation.held_back(entry) is None]
        total = len(waiting)
        while waiting:
            before = len(self._placed)
            self._round(waiting, total)
            if len(self._placed) == before:
                break
            waiting = [entry for entry in waiting if entry.key not in self._placed]
        self._progress(total, total)
        messages = _Messages(self._simulation, self.class_of)
        self._simulation.unplaced = [
            messages.unplaced(entry) for entry in pending if entry.key not in self._placed
        ]
        return self._simulation

    def _round(self, waiting: list[Entry], total: int) -> None:
        groups: dict[GroupKey, list[Entry]] = {}
        for entry in waiting:
            if (key := group_key(entry)) is not None:
                groups.setdefault(key, []).append(entry)
        for entry in waiting:
            key = group_key(entry)
            if key is None:
                self._place(entry)
            elif key in groups:
                self._place_group(key, groups.pop(key))
            self._progress(len(self._placed), total)

    def _place_group(self, key: GroupKey, members: list[Entry]) -> None:
        """As the scheduler does: all at once that must be, and then the others one by one."""
        simulation = self._simulation
        state = self._books.state(key, simulation.placements)
        found = GroupSite(self._cluster, self._rng).attempt(state, members)
        if isinstance(found, GroupFailure):
            simulation.failed_groups[key] = found
            return
        simulation.failed_groups.pop(key, None)
        simulation.placements += found
        self._placed.update(placement.entry.key for placement in found)
        for entry in members:
            if entry.key not in self._placed:
                self._place(entry)

    def _place(self, entry: Entry) -> None:
        pod_class = self.class_of(entry)
        placements = self._simulation.placements
        if entry.daemon_of is None and self._stuck.get(pod_class) == len(placements):
            return
        plan = plan_for(self._cluster, pod_class)
        best = self._choose(plan, entry)
        if best is None:
            self._stuck[pod_class] = len(placements)
            return
        slot, score = best
        node = self._cluster.nodes.names[slot] or ""
        count_on(self._cluster, entry, node, pod_class)
        placements.append(PodPlacement(entry, node, score))
        self._placed.add(entry.key)

    def _choose(self, plan: Plan, entry: Entry) -> tuple[int, int] | None:
        if entry.daemon_of is not None:
            slot = self._cluster.nodes.slot_of[entry.daemon_of]
            blocked = plan.blocked()
            return None if blocked[slot] else (slot, int(plan.totals(blocked)[slot]))
        try:
            return plan.best(self._rng)
        except SchedulingError:
            return None

    def class_of(self, entry: Entry) -> PodClass:
        spec = entry.pod.spec
        if entry.daemon_of is None or spec.topology_spread_constraints or has_own_claims(spec):
            return self._cluster.class_of(entry.pod)
        # Pods of a DaemonSet differ in nothing but their node, and that is already decided: one class
        # for all of them saves compiling the rules once a node. (Spreading alone looks at the pin, and
        # ephemeral volumes have claims of their own.)
        found = self._daemons.get(id(entry.manifest))
        if found is None:
            found = self._daemons[id(entry.manifest)] = unpinned(entry)
        return self._cluster.class_of(found)


class _Messages:
    """Why pods were not placed, asked once a class: a thousand replicas have one answer."""

    def __init__(self, simulation: Simulation, class_of: Callable[[Entry], PodClass]) -> None:
        self._simulation = simulation
        self._cluster = simulation.snapshot.cluster
        self._class_of = class_of
        self._known: dict[PodClass, tuple[str, str]] = {}

    def unplaced(self, entry: Entry) -> UnplacedPod:
        held_back = self._simulation.held_back(entry)
        if held_back is not None:
            return UnplacedPod(entry, *held_back)
        group = group_key(entry)
        if group is not None and (failure := self._simulation.failed_groups.get(group)):
            return UnplacedPod(entry, UNSCHEDULABLE, failure.message)
        if not self._cluster.nodes.live:
            return UnplacedPod(entry, UNSCHEDULABLE, NO_NODES)
        pod_class = self._class_of(entry)
        if entry.daemon_of is not None:
            return UnplacedPod(entry, UNSCHEDULABLE, self._of_daemon(pod_class, entry.daemon_of))
        known = self._known.get(pod_class)
        if known is None:
            known = self._known[pod_class] = self._of_class(pod_class)
        return UnplacedPod(entry, *known)

    def _of_class(self, pod_class: PodClass) -> tuple[str, str]:
        plan = plan_for(self._cluster, pod_class)
        if plan.error is not None and not plan.blocked().all():
            return SCHEDULER_ERROR, plan.error
        return UNSCHEDULABLE, fit_error(plan)[0]

    def _of_daemon(self, pod_class: PodClass, node: str) -> str:
        slot = self._cluster.nodes.slot_of[node]
        verdicts: list[RuleVerdict] = [
            verdict
            for rule in plan_for(self._cluster, pod_class).rules
            if rule.filters and (verdict := rule.verdict(slot)) is not None
        ]
        return fit_error_on(self._cluster.nodes.live, verdicts[0])
