"""What became of the pods that were to be placed, and taking some of it back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from berth.engine.offline.groups import GroupFailure, group_key
from berth.engine.offline.placements import PodPlacement, Victim, count_on, take_off
from berth.engine.offline.snapshot import Entry, Snapshot
from berth.kube.pods import GATED_MEMBERS, GroupKey
from berth.kube.well_known import (
    DEFAULT_SCHEDULER_NAME,
    SCHEDULER_ERROR,
    SCHEDULING_GATED,
    SCHEDULING_GATED_MESSAGE,
)

# Whose pods Berth places unless it is told otherwise: its own, and those that name nobody.
SCHEDULERS = (DEFAULT_SCHEDULER_NAME, "berth")
# Why a pod is not placed: it waits for a scheduler that is none of ours.
OTHER_SCHEDULER = "OtherScheduler"


@dataclass(frozen=True, slots=True)
class UnplacedPod:
    """A pod that did not: the reason is one of the PodScheduled condition, the message kube-scheduler's.

    A pod that waits for another scheduler has the reason `OTHER_SCHEDULER`.

    Attributes:
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
        schedulers: The names of the schedulers whose pods were placed; others wait for theirs.
        preempting: Which of them may preempt; None: all.
        failed_groups: The groups whose pods wait, because too few of them find a node at once.
        namespace: The one whose pods these are; None: all.
        elsewhere: The placements of other namespaces then.
    """

    snapshot: Snapshot
    placements: list[PodPlacement] = field(default_factory=list)
    unplaced: list[UnplacedPod] = field(default_factory=list)
    schedulers: tuple[str, ...] = SCHEDULERS
    failed_groups: dict[GroupKey, GroupFailure] = field(default_factory=dict)
    preempting: frozenset[str] | None = None
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

    def rewind(self, placements: int) -> None:
        """Take back all but the first `placements`; whom later ones had preempted is where it was then."""
        if placements < len(self.placements):
            first = self.placements[placements].number
            while later := [placement for placement in self.placements if placement.number >= first]:
                self.take_back(later)

    def held_back(self, entry: Entry) -> tuple[str, str] | None:
        """Reason and message if a pod is not tried at all, None if it is."""
        if entry.scheduler not in self.schedulers:
            ours = " and ".join(self.schedulers)
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
            held = self.held_back(entry) if key is not None else None
            if key is None or held is None:
                continue
            elsewhere = f"of scheduler {entry.scheduler}" if held[0] == OTHER_SCHEDULER else None
            what = elsewhere or (GATED_MEMBERS if held[0] == SCHEDULING_GATED else "that cannot be read")
            found.setdefault(key, Counter())[what] += 1
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
            for victim in placement.victims:
                self._return(victim)
        self.placements.sort(key=lambda placement: placement.number)
        return gone

    def _return(self, victim: Victim) -> None:
        """A victim is where it was; whoever had made room for it is still gone."""
        if victim.placement is None:
            self.snapshot.cluster.add_pod(victim.entry.pod)
        else:
            count_on(self.snapshot.cluster, victim.entry, victim.placement.node)
            self.placements.append(victim.placement)

    def put_back(self, placements: Iterable[PodPlacement]) -> None:
        """Make placements that were taken back again."""
        for placement in placements:
            for victim in placement.victims:
                take_off(self.snapshot.cluster, victim.entry)
                self.placements = [other for other in self.placements if other is not victim.placement]
            count_on(self.snapshot.cluster, placement.entry, placement.node)
            self.placements.append(placement)
        self.placements.sort(key=lambda placement: placement.number)
