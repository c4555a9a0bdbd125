"""Pods of a snapshot put on nodes and taken off again, one by one or as a group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from berth.engine.offline.snapshot import Entry, Snapshot
from berth.engine.placement.evaluation import NO_NODES, fit_error
from berth.engine.placement.group_placement import NoNode, place_together
from berth.engine.placement.plan import Plan, SchedulingError, plan_for
from berth.engine.rules.changes import Change
from berth.engine.rules.verdicts import RuleVerdict
from berth.engine.rules.volume_binding import binds_volumes
from berth.engine.state.cluster import Cluster
from berth.engine.state.pod_class import PodClass
from berth.kube.api_resources import POD_GROUPS
from berth.kube.pods import GroupKey, GroupState, group_of


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


@dataclass(frozen=True, slots=True)
class GroupFailure:
    """Why the pods of a group are not placed; at best `most` found a node at once, None if not tried."""

    state: GroupState
    message: str
    most: int | None = None

    def smaller(self) -> Change | None:
        """The group made content with what there is room for."""
        if not self.most:
            return None
        reached = self.state.placed + self.most
        native = self.state.key[0] == POD_GROUPS
        path = "spec.schedulingPolicy.gang.minCount" if native else "spec.minMember"
        name = path.rpartition(".")[2]
        return Change(
            "pod-group-minimum",
            path,
            f"with {name} {reached} instead of {self.state.minimum} in PodGroup {self.state.name}",
            lambda variant: variant,
            object=f"PodGroup {self.state.name}",
            value=str(reached),
        )


def group_key(entry: Entry) -> GroupKey | None:
    """The group whose pods it waits for; a daemon's pod has its node and waits for nobody."""
    return None if entry.daemon_of is not None else group_of(entry.pod)


class GroupCounts:
    """How many pods of each group have a node; by default, how many of a snapshot run."""

    def __init__(self, snapshot: Snapshot, placed: Mapping[GroupKey, int] | None = None) -> None:
        self._snapshot = snapshot
        self._minimums = snapshot.group_minimums
        running = map(group_key, snapshot.running) if placed is None else ()
        self._placed = Counter(placed or filter(None, running))

    def copy(self) -> GroupCounts:
        """The same counts in an object of their own: changing one leaves the other as it is."""
        return GroupCounts(self._snapshot, self._placed)

    def count(self, entry: Entry, sign: int = 1) -> None:
        """A pod came to a node, or (-1) went from one."""
        if (key := group_key(entry)) is not None:
            self._placed[key] += sign

    def state(self, key: GroupKey) -> GroupState:
        return GroupState(key, key in self._minimums, self._minimums.get(key, 0), self._placed[key])


class GroupSite:
    """Tries the pods of a group on the cluster of a snapshot; at best `most` were on nodes at once."""

    def __init__(self, cluster: Cluster, rng: np.random.Generator | None = None) -> None:
        self.cluster = cluster
        self.most = 0
        self._rng = rng
        self._counted = 0
        self._known: dict[PodClass, tuple[int, NoNode]] = {}  # how many were counted then, and why not

    def attempt(
        self, state: GroupState, members: Sequence[Entry], held: Mapping[str, int] | None = None
    ) -> list[PodPlacement] | GroupFailure:
        """Nodes for as many members as possible if the group has enough of them; they are counted there.

        `held` are its pods that are not tried, see `GroupState.obstacle`.
        """
        obstacle = state.obstacle(len(members), held)
        if obstacle is not None:
            return GroupFailure(state, obstacle)
        if state.needed <= 1:
            return []  # any one of them will do, so they are on their own
        found = place_together(self, members, state.needed)
        if isinstance(found, NoNode):
            return GroupFailure(state, state.no_room(len(members), found.message), self.most)
        return found

    def fill(self, members: Sequence[Entry], most: int) -> list[PodPlacement]:
        """Nodes for as many members as find one, `most` of them if that can be."""
        for needed in (most, 0):
            found = place_together(self, members, needed) if members else []
            if not isinstance(found, NoNode):
                return found
        return []

    # --- for `place_together` -------------------------------------------------------------------------

    def class_of(self, member: Entry) -> PodClass | None:
        return self.cluster.class_of(member.pod)

    def place(self, member: Entry) -> PodPlacement | NoNode:
        pod_class = self.cluster.class_of(member.pod)
        known = self._known.get(pod_class)
        if known is not None and known[0] == self._counted:
            return known[1]
        if not self.cluster.nodes.live:
            return NoNode(pod_class, NO_NODES)
        plan = plan_for(self.cluster, pod_class)
        try:
            best = plan.best(self._rng)
        except SchedulingError as error:
            return NoNode(pod_class, str(error), failed=True)
        if best is not None:
            return PodPlacement(member, self.cluster.nodes.names[best[0]] or "", best[1])
        why = NoNode(pod_class, *fit_error(plan))
        self._known[pod_class] = (self._counted, why)
        return why

    def at(self, member: Entry, pod_class: PodClass, slot: int) -> PodPlacement:
        plan = plan_for(self.cluster, pod_class)
        return PodPlacement(
            member, self.cluster.nodes.names[slot] or "", int(plan.totals(plan.blocked())[slot])
        )

    def count(self, choice: PodPlacement) -> None:
        count_on(self.cluster, choice.entry, choice.node)
        self._counted += 1
        self.most = max(self.most, self._counted)

    def take_back(self, choice: PodPlacement) -> None:
        take_off(self.cluster, choice.entry)
        self._counted -= 1
        self._known.clear()
