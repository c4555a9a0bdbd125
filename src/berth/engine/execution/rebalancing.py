"""Which pods of a group would be better off elsewhere, and where their replacements would go.

How uneven a group is, is one figure over all constraints of everybody who counts its pods, hard ones first:
the pods that are too many in their domains.  A pod is moved only if its replacement, placed by the rules,
makes that figure smaller, wherever among equally good nodes it lands.  So moves come to an end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from berth.engine.execution.removal_order import busyness, counted_by, counts_apart, is_apart
from berth.engine.placement.plan import SchedulingError, plan_for
from berth.engine.state.cluster import Cluster
from berth.engine.state.columns import IndexArray
from berth.engine.state.pod_class import OwnedTerm, PodClass
from berth.engine.state.tables import NOWHERE
from berth.kube.well_known import REBALANCE, WAITS_FOR_NODES

# Of pods that are in equally full domains one is asked about, and of all together so many.
_MOST_ASKED = 48
# Why an uneven group stays as it is.
SCALING, ROLLING_OUT, NOT_READY = "scaling", "rolling-out", "not-ready"
NO_BETTER_PLACE, NO_NODE = "no-better-place", "no-node"


class RebalancePolicy(Enum):
    """For which constraints a pod may be moved: hard ones are worth more than soft ones, in both."""

    OFF = "off"
    HARD = "hard"
    SOFT = "soft"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """What a workload may be disturbed for.

    Attributes:
        margin: How much more even it has to get by one move, in pods that are too many.
        waits: Whether, for a hard constraint, a pod may go whose replacement waits for a new node.
    """

    policy: RebalancePolicy = RebalancePolicy.OFF
    margin: float = 1.0
    waits: bool = False

    def is_worth(self, before: Unevenness, after: Unevenness) -> bool:
        if after.hard != before.hard:
            return before.hard - after.hard >= self.margin
        return self.policy is RebalancePolicy.SOFT and before.soft - after.soft >= self.margin

    def is_content(self, found: Unevenness) -> bool:
        """Whether no move can be worth it."""
        nothing = Unevenness(0.0, 0.0)
        return not (self.is_worth(found, nothing) or self.is_worth(found, replace(nothing, hard=found.hard)))


@dataclass(frozen=True, slots=True, order=True)
class Unevenness:
    """How many pods are too many where they are; preferences for being apart count by weight, in percent."""

    hard: float
    soft: float

    def __str__(self) -> str:
        return f"{self.hard:g} hard, {self.soft:g} soft"


@dataclass(frozen=True, slots=True)
class Move:
    """A pod that would be better off elsewhere.

    Attributes:
        replacement_node: Where the replacement would go; None if it waits for a new node.
        before, after: How uneven everything is that counts the pod.
        why: The constraint that it is moved for, in words.
    """

    pod: str
    node: str
    replacement_node: str | None
    before: Unevenness
    after: Unevenness
    why: str

    @property
    def reason(self) -> str:
        """In one sentence."""
        node = self.replacement_node
        where = f"to node {node}" if node else "to a new node, for which it would wait"
        return f"{self.why}; its replacement would go {where}: {self.before} too many, then {self.after}"


@dataclass(frozen=True, slots=True)
class MovableGroup:
    """The pods of one owner.

    Attributes:
        pods: Oldest first.
        witnesses: A pod of every group whose constraints count these pods, this one included.
    """

    pods: tuple[str, ...]
    witnesses: tuple[str, ...]
    how: Rebalance


def rebalance_of(annotations: Mapping[str, str], otherwise: Rebalance) -> Rebalance:
    """What the annotations of a workload say; a word that is none counts for off."""
    said = annotations.get(REBALANCE)
    policy = otherwise.policy
    if said is not None:
        known = {each.value: each for each in RebalancePolicy}
        policy = known.get(said.strip().lower(), RebalancePolicy.OFF)
    waits = annotations.get(WAITS_FOR_NODES)
    return replace(otherwise, policy=policy, waits=otherwise.waits if waits is None else waits == "true")


def unevenness(cluster: Cluster, witnesses: Sequence[str]) -> Unevenness:
    """How uneven the pods are that the constraints of some pods count."""
    return _total(_measure(cluster, _classes_of(cluster, witnesses)))


def next_move(cluster: Cluster, group: MovableGroup) -> Move | str | None:
    """The move that helps most; why there is none though pods are too many somewhere; None if all is well.

    The cluster is left as it was.
    """
    classes = _classes_of(cluster, group.witnesses)
    measured = _measure(cluster, classes)
    before = _total(measured)
    if group.how.is_content(before):
        return None
    found: list[tuple[Unevenness, int, Move]] = []
    waiting: list[tuple[Unevenness, int, Move]] = []
    nowhere = True
    for rank, pod in enumerate(_candidates(cluster, group.pods, measured)):
        why = _why(cluster, pod, measured)
        outcome = _ReplacementOutcome(cluster, classes, pod)
        nowhere &= outcome.node is None
        move = Move(pod, outcome.origin, outcome.node, before, outcome.after, why)
        if outcome.node is None:
            if group.how.waits and before.hard - outcome.after.hard >= group.how.margin:
                waiting.append((outcome.after, rank, move))
        elif all(group.how.is_worth(before, after) for after in outcome.all):
            found.append((outcome.after, rank, move))
    if best := min(found or waiting, default=None, key=lambda each: each[:2]):
        return best[2]
    return NO_NODE if nowhere else NO_BETTER_PLACE


def plan_moves(
    cluster: Cluster, groups: Sequence[MovableGroup], most: int = 1000
) -> tuple[list[Move], list[str | None]]:
    """All moves until nothing gets better by one, and what then keeps each group from more; None for nothing.

    The groups take turns, as they do when it is done: after each move the next one in a circle is asked, and
    what moved may have made room for those that were asked in vain.  The cluster is left as it was.
    """
    moves: list[Move] = []
    asked = list(groups)
    ends: list[str | None] = [None] * len(groups)
    waiting: set[int] = set()
    with cluster.restored(*(pod for group in groups for pod in group.pods if cluster.has_pod(pod))):
        i, in_vain = 0, 0
        while in_vain < len(groups) and len(moves) < most:
            move = NO_NODE if i in waiting else next_move(cluster, asked[i])
            if isinstance(move, Move):
                moves.append(move)
                _apply(cluster, move)
                # The replacement is the youngest now.
                pods = (*(pod for pod in asked[i].pods if pod != move.pod), move.pod)
                asked[i] = replace(asked[i], pods=pods)
                waiting.update([i] if move.replacement_node is None else [])
                in_vain = 0
            else:
                ends[i] = move
                in_vain += 1
            i = (i + 1) % len(groups)
    return moves, ends


@contextmanager
def supposed(cluster: Cluster, moves: Sequence[Move]) -> Iterator[None]:
    """The cluster as it would be, had some moves been made whose replacements are not there yet."""
    counted = ((move, cluster.find_pod(move.pod)) for move in moves)
    known = [(move, found[0]) for move, found in counted if found is not None and not found[2]]
    with cluster.without(*(move.pod for move, _ in known)):
        added = []
        try:
            for move, pod_class in known:
                if move.replacement_node in cluster.nodes.slot_of:
                    cluster.assume(f"{move.pod}\n", pod_class, move.replacement_node or "")
                    added.append(f"{move.pod}\n")
            yield
        finally:
            for key in reversed(added):
                cluster.remove_pod(key)


def _apply(cluster: Cluster, move: Move) -> None:
    found = cluster.find_pod(move.pod)
    if found is not None:
        cluster.remove_pod(move.pod)
        if move.replacement_node is not None:
            cluster.assume(move.pod, found[0], move.replacement_node)


# --- how uneven ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Constraint:
    """One constraint as it stands.

    Attributes:
        counts: By the domain's name.
        limit: More than so many in a domain are too many.
        weight: Of each that is too many.
    """

    key: str
    hard: bool
    counts: dict[str, int]
    limit: int
    weight: float = 1.0

    @property
    def excess(self) -> float:
        return self.weight * sum(max(0, count - self.limit) for count in self.counts.values())


def _classes_of(cluster: Cluster, witnesses: Sequence[str]) -> list[PodClass]:
    found = (cluster.find_pod(pod) for pod in witnesses)
    return list(dict.fromkeys(counted[0] for counted in found if counted is not None))


def _measure(cluster: Cluster, classes: Sequence[PodClass]) -> list[_Constraint]:
    """The constraints of some classes as they stand now."""
    found: list[_Constraint] = []
    for pod_class in classes:
        for counted in counted_by(cluster, pod_class):
            limit = counted.minimum + counted.max_skew
            found.append(_Constraint(counted.topology_key, counted.hard, counted.counts, limit))
        found += [_apart(cluster, owned) for owned in pod_class.preferred if is_apart(pod_class, owned)]
    return found


def _total(measured: Sequence[_Constraint]) -> Unevenness:
    hard = sum(each.excess for each in measured if each.hard)
    return Unevenness(hard, round(sum(each.excess for each in measured if not each.hard), 6))


def _apart(cluster: Cluster, owned: OwnedTerm) -> _Constraint:
    """A preference for not being with each other: more than one in a domain is too many."""
    values = cluster.nodes.column(owned.topology_key).values
    numbers = counts_apart(cluster, owned, terminating=False).tolist()
    counts = {name or "": number for name, number in zip(values, numbers, strict=True) if number}
    return _Constraint(owned.topology_key, hard=False, counts=counts, limit=1, weight=-owned.weight / 100)


# --- who and where ------------------------------------------------------------------------------------


def _candidates(cluster: Cluster, pods: Sequence[str], measured: Sequence[_Constraint]) -> list[str]:
    """Pods that are too many where they are, of those alike one: from busy nodes, then young ones first."""
    table = cluster.pods
    there = [pod for pod in pods if pod in table.index]
    index = np.array([table.index[pod] for pod in there], dtype=np.intp)
    slots = table.node[index]
    fits = (slots != NOWHERE) & ~table.terminating[index]
    places = _standings(cluster, slots, measured)
    shares = np.round(busyness(cluster, np.where(slots == NOWHERE, 0, slots)), 3)
    alike: dict[tuple[int, ...], int] = {}
    for i in sorted(np.flatnonzero(fits).tolist(), key=lambda i: (-shares[i], -i)):
        if any(over > 0 for over in places[i]):
            alike.setdefault(places[i], i)
    order = sorted(alike.items(), key=lambda each: _fullness(each[0], measured), reverse=True)
    return [there[i] for _, i in order[:_MOST_ASKED]]


def _fullness(over: tuple[int, ...], measured: Sequence[_Constraint]) -> tuple[float, float]:
    pairs = list(zip(over, measured, strict=True))
    hard = sum(number for number, each in pairs if each.hard and number > 0)
    return hard, sum(number * each.weight for number, each in pairs if not each.hard and number > 0)


def _standings(cluster: Cluster, slots: np.ndarray, measured: Sequence[_Constraint]) -> list[tuple[int, ...]]:
    """For each slot how many are too many in its domain, by constraint; negative for room."""
    found = []
    for each in measured:
        column = cluster.nodes.column(each.key)
        names = [column.values[i] or "" for i in column.ids[slots].tolist()]
        found.append(
            [
                each.counts.get(name, each.limit) - each.limit if slot != NOWHERE else 0
                for slot, name in zip(slots.tolist(), names, strict=True)
            ]
        )
    return list(zip(*found, strict=True)) if found else [()] * len(slots)


def _why(cluster: Cluster, pod: str, measured: Sequence[_Constraint]) -> str:
    """Where a pod is too many, the hard constraint first."""
    slot = int(cluster.pods.node[cluster.pods.index[pod]])
    for each in sorted(measured, key=lambda each: not each.hard):
        column = cluster.nodes.column(each.key)
        domain = column.values[int(column.ids[slot])] or ""
        count = each.counts.get(domain, 0)
        if count > each.limit:
            kind = "hard" if each.hard else "soft"
            return f"{each.key}={domain} has {count} pods, {each.limit} may be there ({kind})"
    return "its domains are too full"


class _ReplacementOutcome:
    """Where the replacement of a pod would go, and how uneven everything would be then.

    It comes as soon as the pod terminates, and waits until the pod is gone only if there is no node before.

    Attributes:
        node: The node that is taken among equals; None if there is none.
        after: With it there, or with the pod gone.
        all: The same for everywhere it may land: while the pod still terminates, and once it is gone.
    """

    def __init__(self, cluster: Cluster, classes: Sequence[PodClass], pod: str) -> None:
        found = cluster.find_pod(pod)
        if found is None:
            raise KeyError(pod)
        self._cluster, self._classes, self._pod = cluster, classes, pod
        pod_class, self.origin, _ = found
        ghost = f"{pod}\n"
        with cluster.without(pod):
            self.after = self._total()
            once_gone = self._land(pod_class)
            cluster.assume(ghost, pod_class, self.origin, terminating=True)
            try:
                meanwhile = self._land(pod_class) if once_gone else []
            finally:
                cluster.remove_pod(ghost)
        found_nodes = [*meanwhile, *once_gone]
        self.all = [after for _, after in found_nodes]
        self.node: str | None = None
        if found_nodes:
            self.node, self.after = found_nodes[0]

    def _land(self, pod_class: PodClass) -> list[tuple[str, Unevenness]]:
        """The nodes that are equally good, one for each effect, the one that came first in front."""
        ties = best_nodes(self._cluster, pod_class)
        names = self._cluster.nodes.names
        seen: dict[tuple[int, ...], int] = {}
        places = _standings(self._cluster, ties, _measure(self._cluster, self._classes))
        for slot, place in zip(ties.tolist(), places, strict=True):
            seen.setdefault(place, slot)
        return [(names[slot] or "", self._with(pod_class, names[slot] or "")) for slot in seen.values()]

    def _total(self) -> Unevenness:
        return _total(_measure(self._cluster, self._classes))

    def _with(self, pod_class: PodClass, node: str) -> Unevenness:
        self._cluster.assume(self._pod, pod_class, node)
        try:
            return self._total()
        finally:
            self._cluster.remove_pod(self._pod)


def best_nodes(cluster: Cluster, pod_class: PodClass) -> IndexArray:
    """The nodes that a scheduler would choose among, by chance; the one that came first in front."""
    try:
        return plan_for(cluster, pod_class).best_nodes()
    except SchedulingError:
        return np.zeros(0, dtype=np.intp)
