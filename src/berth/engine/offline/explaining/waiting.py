"""What a pod waits for: its turn, and the events that would let it fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from berth.engine.offline.explaining.node_groups import NodeGroup
from berth.engine.offline.scheduling.simulated import Simulation
from berth.engine.offline.snapshot import Entry
from berth.engine.rules.verdicts import WorkloadOf, waiting_words

# Groups of nodes, the decisive ones, whose coming free is worth telling of.
_MOST_WAITS = 3


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """The pod's place among those that wait, the highest priority and the oldest first, from 1."""

    place: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Wait:
    """What would make some nodes take the pod.

    Attributes:
        sentence: What has to happen, to be read after "It waits for".
        nodes: Those that would then.
        codes: Of the reasons that go.
        events: The names of the cluster events that it takes.
    """

    sentence: str
    nodes: tuple[str, ...]
    codes: tuple[str, ...]
    events: tuple[str, ...]


def queue_place(simulation: Simulation, entry: Entry) -> QueuePlace | None:
    """Where a pod stands in the queue; None if it is not in it."""
    waiting = [other.key for other in simulation.snapshot.pending if simulation.held_back(other) is None]
    return QueuePlace(waiting.index(entry.key) + 1, len(waiting)) if entry.key in waiting else None


def waits_of(groups: Sequence[NodeGroup], workload_of: WorkloadOf) -> list[Wait]:
    """What a pod waits for that no node takes, as the rules that refuse it know it."""
    found: dict[str, Wait] = {}
    told: list[set[str]] = []
    # Nodes do not become the one that a pod is for by name; if it is not there, it is waited for.
    others = [group for group in groups if not any(c.elsewhere for s in group.causes for c in s.causes)]
    for group in (others or groups)[:_MOST_WAITS]:
        wanted = dict.fromkeys(waiting_words(shared.causes, workload_of) for shared in group.causes)
        sentence = ", and ".join(filter(None, wanted))
        # What needs more than another group does is not worth a word.
        if not sentence or any(less < wanted.keys() for less in told):
            continue
        told.append(set(wanted))
        reasons = [shared.causes[0].reason for shared in group.causes]
        known = found.get(sentence)
        found[sentence] = Wait(
            sentence,
            (*(known.nodes if known else ()), *group.names),
            _once(reason.code for reason in reasons),
            _once(event.__name__ for reason in reasons for event in reason.events),
        )
    return list(found.values())


def _once(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))
