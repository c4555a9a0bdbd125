"""Placing every pending pod of a snapshot, one after the other, as a scheduler would."""

from __future__ import annotations

import numpy as np

from berth.engine.offline.groups import GroupBooks, GroupFailure, GroupSite, group_key
from berth.engine.offline.placements import take_off
from berth.engine.offline.scheduling.making_room import PreemptionRoom
from berth.engine.offline.scheduling.placer import QueuePlacer, Reason
from berth.engine.offline.scheduling.simulated import OTHER_SCHEDULER, SCHEDULERS, Simulation, UnplacedPod
from berth.engine.offline.snapshot import Entry, Progress, Snapshot

__all__ = [
    "OTHER_SCHEDULER",
    "SCHEDULERS",
    "Simulation",
    "UnplacedPod",
    "group_failure",
    "members_of",
    "simulate",
]


def simulate(
    snapshot: Snapshot,
    *,
    schedulers: tuple[str, ...] = SCHEDULERS,
    preempting: frozenset[str] | None = None,
    rng: np.random.Generator | None = None,
    progress: Progress | None = None,
    reason: Reason | None = None,
) -> Simulation:
    """Place the snapshot's pending pods onto its nodes, those that name one of the schedulers.

    `preempting` are the schedulers that may preempt, by default all; `reason` says of every placement why.
    """
    simulation = Simulation(snapshot, schedulers=schedulers, preempting=preempting)
    placer = QueuePlacer(simulation, room=PreemptionRoom(snapshot, preempting), rng=rng, reason=reason)
    return placer.run((*snapshot.pending, *snapshot.unreadable), progress)


def books_of(simulation: Simulation) -> GroupBooks:
    """How many pods of each group have a node, as things are."""
    books = GroupBooks(simulation.snapshot)
    for placement in simulation.placements:
        books.count(placement.entry)
    for victim, _ in simulation.preemptions():
        if victim.placement is None:
            books.count(victim.entry, -1)
    return books


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
    state = books_of(simulation).state(key)
    snapshot = simulation.snapshot
    held = simulation.held_members((*snapshot.pending, *snapshot.unreadable)).get(key)
    found = GroupSite(cluster).attempt(state, members_of(simulation, entry), held)
    if isinstance(found, GroupFailure):
        return found
    for placement in found:
        take_off(cluster, placement.entry)
    return None
