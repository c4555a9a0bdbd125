"""A pod of a snapshot put on a node, and taken off again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from berth.engine.offline.snapshot import Entry
from berth.engine.placement.plan import Plan
from berth.engine.rules.verdicts import RuleVerdict
from berth.engine.rules.volume_binding import binds_volumes
from berth.engine.state.cluster import Cluster
from berth.engine.state.pod_class import PodClass


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod that had to make room.

    Attributes:
        entry: As it was on its node.
        placement: How it had come there, if it was placed meanwhile; None if it ran before.
        replacement: The pod that its workload makes for it, under the same name; None if nobody does.
    """

    entry: Entry
    node: str
    placement: PodPlacement | None = None
    replacement: Entry | None = None


@dataclass(frozen=True, slots=True)
class PodPlacement:
    """A pod that found a node.

    Attributes:
        score: The weighted total of that node.
        victims: Who was preempted for it.
        why: What put this node before the next, if somebody asked.
        number: Counts placements in the order in which they were made, those undone since included.
    """

    entry: Entry
    node: str
    score: int
    victims: tuple[Victim, ...] = ()
    why: str | None = None
    number: int = 0

    def preemptions(self) -> Iterator[tuple[Victim, Entry]]:
        """Who was preempted for it, and before that for these, and for whom each."""
        for victim in self.victims:
            if victim.placement is not None:
                yield from victim.placement.preemptions()
            yield victim, self.entry


def refused_on(plan: Plan, slot: int) -> list[RuleVerdict]:
    """What the rules say that refuse a node."""
    verdicts = (rule.verdict(slot) for rule in plan.rules if rule.filters)
    return [verdict for verdict in verdicts if verdict is not None]


def count_on(cluster: Cluster, entry: Entry, node: str, pod_class: PodClass | None = None) -> None:
    """Let a pod be on a node from now on."""
    pod_class = pod_class or cluster.class_of(entry.pod)
    if binds_volumes(pod_class):
        cluster.volumes.assume(entry.key, cluster.volumes.decisions(pod_class, node), node)
    cluster.assume(entry.key, pod_class, node, identity=cluster.identity_of(entry.pod))


def take_off(cluster: Cluster, entry: Entry) -> None:
    cluster.remove_pod(entry.key)
    cluster.volumes.forget(entry.key)
