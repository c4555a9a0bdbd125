"""Moves pods of groups that are uneven to where they are better off, one of a group at a time.

It decides only who should move; the machine that evicts asks it, and has all the care: budgets, rates, halts,
paces.  A group is looked at when something happened to it, to nodes, or to what stood in its way, and moved
only while it is at rest.  Where replacements landed is remembered: one that did not help, or did not
stay, keeps the whole workload where it is for a while, longer each time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from berth.engine.execution.rebalancing import (
    NO_BETTER_PLACE,
    NO_NODE,
    NOT_READY,
    SCALING,
    MovableGroup,
    Move,
    Rebalance,
    RebalancePolicy,
    next_move,
    plan_moves,
    rebalance_of,
    supposed,
    unevenness,
)
from berth.engine.state.cluster import pod_name
from berth.kube.api_resources import BUDGETS, DEPLOYMENTS, PODS, REPLICA_SETS
from berth.kube.objects import Key, LivePod, LiveWorkload, PodDisruptionBudget
from berth.kube.ownership import controller_of
from berth.kube.pods import is_finished, is_ready, is_terminating
from berth.kube.selectors import parse_label_selector
from berth.machines.backoff import Backoff
from berth.machines.cache import Cache
from berth.machines.mirror import Mirror
from berth.machines.moves import WantedMove
from berth.spreading.groups import SpreadGroups, SpreadReplicaSet
from berth.spreading.settings import SpreadingSettings

# Why a group that is uneven stays as it is, besides what the engine says.
ROLLING_OUT, BUDGET = "rolling-out", "budget"
NEW_NODE, BACKED_OFF, UNDER_WAY = "new-node", "backed-off", "under-way"
# What a pod that goes, or a budget that changes, may put an end to.
STUCK = frozenset({NO_BETTER_PLACE, NO_NODE, BUDGET})

_RETURNS = Backoff(first=60.0, longest=6 * 3600.0)
_MEMORY = 3600.0  # landings are remembered for so long, and after a pause for as long again
_MOST_LANDINGS = 100
_SENT = 30.0  # an eviction that was sent is seen by then
_MOST_PLANNED = 50
_MOST_WANTED = 100  # more would not go in a minute anyway


@dataclass(slots=True)
class _UnderWay:
    """A move whose eviction was sent, and whose replacement has not landed yet."""

    move: Move
    uid: str
    at: float
    known: frozenset[str]  # the uids of the pods that the group had


@dataclass(slots=True)
class _Memory:
    """Where replacements of a workload landed, and how often that was no good."""

    landings: dict[str, str] = field(default_factory=dict)  # pod -> node
    returns: int = 0
    until: float = 0.0
    touched: float = 0.0


@dataclass(slots=True)
class Standing:
    """What is thought of one group.

    Attributes:
        move: What is wanted now.
        planned: How many moves it takes, this one included.
        refusal: Why there is none though it is uneven; empty if there is nothing to say.
    """

    move: WantedMove | None = None
    planned: int = 0
    refusal: str = ""


class Rebalancer:
    """Who should move; see `berth.machines.moves.MoveSource`.

    Attributes:
        revision: Grows when other moves are wanted.
        standings: By group, of those that may be moved.
        done: How many replacements landed where it helped.
        refusals: How often groups were refused, by reason.
    """

    def __init__(
        self, cache: Cache, mirror: Mirror, groups: SpreadGroups, settings: SpreadingSettings
    ) -> None:
        self._cache = cache
        self._mirror = mirror
        self._groups = groups
        self._settings = settings
        self._under_way: dict[Key, _UnderWay] = {}
        self._memories: dict[str, _Memory] = {}
        self._changed_nodes: dict[str, float] = {}
        self._now = 0.0
        self.revision = 0
        self.standings: dict[Key, Standing] = {}
        self.done = 0
        self.refusals: Counter[str] = Counter()

    # --- what the evicting machine asks -------------------------------------------------------------

    def wanted(self) -> Sequence[WantedMove]:
        if self._settings.dry_run:
            return ()
        found = (
            standing.move
            for key, standing in self.standings.items()
            if standing.move is not None and key not in self._under_way
        )
        return list(islice(found, _MOST_WANTED))

    def wants(self, pod: str) -> bool:
        return self._judged(pod) is not None

    def confirms(self, pod: str) -> bool:
        move = self._judged(pod)
        group = self._group_of(pod)
        bound = self._mirror.bound.get(_key(pod))
        if move is None or group is None or bound is None:
            return False
        known = frozenset(each.metadata.uid or "" for each in self._pods(group))
        self._under_way[group.key] = _UnderWay(move, bound.metadata.uid or "", self._now, known)
        return True

    def _judged(self, pod: str) -> Move | None:
        """The move of a pod as everything is now; None if it should stay."""
        group = self._group_of(pod)
        if group is None or self._is_sent(group.key, pod):
            return None
        standing = self.standings.get(group.key)
        if standing is None or standing.move is None or standing.move.pod != pod:
            return None
        how = self.how(group)
        if how.policy is RebalancePolicy.OFF or self._unrest(group):
            return None
        with supposed(self._mirror.cluster, list(self._others(group.key))):
            move = next_move(self._mirror.cluster, self._movable(group, how, (pod,)))
        return move if isinstance(move, Move) and not self._obstacle(group, move)[0] else None

    def _is_sent(self, key: Key, pod: str) -> bool:
        """Whether another pod of the group is on its way; one whose request was not taken is asked again."""
        sent = self._under_way.get(key)
        return sent is not None and sent.move.pod != pod

    def _group_of(self, pod: str) -> SpreadReplicaSet | None:
        return self._groups.of(_key(pod))

    # --- looking at a group -------------------------------------------------------------------------

    def nodes_changed(self, names: Iterable[str], now: float) -> None:
        """Nodes came, or are others than before: they are not trusted yet."""
        self._changed_nodes.update(dict.fromkeys(names, now))
        old = now - max(self._settings.rebalance_delay, 1.0)
        self._changed_nodes = {name: when for name, when in self._changed_nodes.items() if when > old}

    def look_at(
        self, group: SpreadReplicaSet, now: float, tell: Callable[[SpreadReplicaSet, list[Move]], None]
    ) -> float | None:
        """Judge a group anew; when to look again though nothing happens. `tell` hears of new plans."""
        self._now = now
        how = self.how(group)
        if how.policy is RebalancePolicy.OFF:
            self.forget(group.key)
            return None
        self._settle(group, how)
        refusal: str | None = UNDER_WAY if group.key in self._under_way else self._unrest(group)
        when: float | None = None
        found: Move | None = None
        if not refusal:
            with supposed(self._mirror.cluster, list(self._others(group.key))):
                move = next_move(self._mirror.cluster, self._movable(group, how))
                if isinstance(move, Move):
                    refusal, when = self._obstacle(group, move)
                    found = None if refusal else move
                else:
                    refusal = move
        elif refusal == UNDER_WAY:
            when = self._under_way[group.key].at + _SENT if self._is_there(group.key) else None
        self._enter(group, how, found, refusal or "", tell)
        return when

    def _enter(
        self,
        group: SpreadReplicaSet,
        how: Rebalance,
        move: Move | None,
        refusal: str,
        tell: Callable[[SpreadReplicaSet, list[Move]], None],
    ) -> None:
        known = self.standings.setdefault(group.key, Standing())
        if refusal and refusal != known.refusal:
            self.refusals[refusal] += 1
        known.refusal = refusal
        if move is None:
            self.revision += known.move is not None
            known.move, known.planned = None, 0
        elif known.move is None or (known.move.pod, known.move.reason) != (move.pod, move.reason):
            self.revision += 1
            known.move = WantedMove(move.pod, move.reason, self._now)
            cluster = self._mirror.cluster
            plan = plan_moves(cluster, [self._movable(group, how)], _MOST_PLANNED)[0] or [move]
            known.planned = len(plan)
            tell(group, plan)

    def forget(self, key: Key) -> None:
        """A group is gone, or is not to be moved."""
        standing = self.standings.pop(key, None)
        self._under_way.pop(key, None)
        self.revision += standing is not None and standing.move is not None

    def stuck(self) -> Iterator[Key]:
        """The groups that something elsewhere may help."""
        return (key for key, standing in self.standings.items() if standing.refusal in STUCK)

    # --- how ----------------------------------------------------------------------------------------

    def workload(self, group: SpreadReplicaSet) -> LiveWorkload | None:
        """The Deployment, or the ReplicaSet if it is nobody's."""
        replica_set = self._cache.get(REPLICA_SETS, group.key, LiveWorkload)
        owner = controller_of(replica_set.metadata) if replica_set is not None else None
        if owner is not None and owner.kind == DEPLOYMENTS.kind:
            return self._cache.get(DEPLOYMENTS, (group.key[0], owner.name or ""), LiveWorkload) or replica_set
        return replica_set

    def how(self, group: SpreadReplicaSet) -> Rebalance:
        """What the workload says, or else the settings."""
        workload = self.workload(group)
        annotations = (workload.metadata.annotations or {}) if workload is not None else {}
        return rebalance_of(annotations, self._settings.rebalance)

    def _movable(
        self, group: SpreadReplicaSet, how: Rebalance, only: tuple[str, ...] | None = None
    ) -> MovableGroup:
        pods = self._pods(group)
        names = tuple(pod_name(pod) for pod in sorted(pods, key=_age))
        return MovableGroup(names if only is None else only, self._witnesses(group, pods), how)

    def _witnesses(self, group: SpreadReplicaSet, pods: Sequence[LivePod]) -> tuple[str, ...]:
        """The youngest pod of every group that counts these pods: all that a move may make more uneven."""
        labels = (pods[0].metadata.labels or {}) if pods else {}
        keys = dict.fromkeys([group.key, *self._groups.concerned(group.key[0], labels)])
        found = (self._pods(other) for key in keys if (other := self._groups.by_key.get(key)) is not None)
        return tuple(pod_name(max(members, key=_age)) for members in found if members)

    def _pods(self, group: SpreadReplicaSet) -> list[LivePod]:
        found = (self._mirror.bound.get(key) for key in group.pods)
        return [pod for pod in found if isinstance(pod, LivePod)]

    def _others(self, key: Key) -> Iterator[Move]:
        """Moves of other groups that are under way."""
        return (sent.move for other, sent in self._under_way.items() if other != key)

    # --- what is in the way -------------------------------------------------------------------------

    def _unrest(self, group: SpreadReplicaSet) -> str:
        """Why a group is not to be disturbed: not all its pods are there and Ready, or it is another soon."""
        replica_set = self._cache.get(REPLICA_SETS, group.key, LiveWorkload)
        if replica_set is None or replica_set.metadata.uid != group.uid:
            return SCALING
        if replica_set.metadata.deletion_timestamp:
            return SCALING
        pods = [
            pod
            for pod in self._cache.owned(PODS, group.uid, LivePod)
            if not is_terminating(pod) and not is_finished(pod)
        ]
        wanted = 1 if replica_set.spec.replicas is None else replica_set.spec.replicas
        if len(pods) != wanted or not all(pod.spec.node_name for pod in pods):
            return SCALING
        if self._rolls_out(replica_set):
            return ROLLING_OUT
        return "" if all(map(is_ready, pods)) else NOT_READY

    def _rolls_out(self, replica_set: LiveWorkload) -> bool:
        owner = controller_of(replica_set.metadata)
        if owner is None or owner.kind != DEPLOYMENTS.kind:
            return False
        key = (replica_set.metadata.namespace or "", owner.name or "")
        deployment = self._cache.get(DEPLOYMENTS, key, LiveWorkload)
        if deployment is None or deployment.metadata.uid != owner.uid:
            return True
        if deployment.metadata.deletion_timestamp:
            return True
        others = self._cache.owned(REPLICA_SETS, owner.uid, LiveWorkload)
        return any(
            other.metadata.uid != replica_set.metadata.uid
            and (other.spec.replicas or 0) + (other.status.replicas or 0) > 0
            for other in others
        ) or deployment.spec.replicas not in (None, replica_set.spec.replicas)

    def _obstacle(self, group: SpreadReplicaSet, move: Move) -> tuple[str, float | None]:
        """What keeps a move that would help from being made now, and until when if time alone ends it."""
        memory = self._memory(group)
        self._notice_lost(memory, move)
        if memory.until > self._now:
            return BACKED_OFF, memory.until
        trusted = self._changed_nodes.get(move.landing or "", -math.inf) + self._settings.rebalance_delay
        if trusted > self._now:
            return NEW_NODE, trusted
        bound = self._mirror.bound.get(_key(move.pod))
        if bound is not None and self._is_protected(bound.metadata.namespace, bound.metadata.labels or {}):
            return BUDGET, None
        return "", None

    def _is_protected(self, namespace: str | None, labels: dict[str, str]) -> bool:
        return any(
            budget.metadata.namespace == namespace
            and not (budget.status.disruptions_allowed if budget.status else 0)
            and parse_label_selector(budget.spec.selector).matches(labels)
            for budget in self._cache.all(BUDGETS, PodDisruptionBudget)
        )

    # --- where replacements landed ------------------------------------------------------------------

    def _is_there(self, key: Key) -> bool:
        """Whether the pod that was to go is there and stays."""
        sent = self._under_way[key]
        pod = self._mirror.bound.get(_key(sent.move.pod))
        return pod is not None and pod.metadata.uid == sent.uid and not is_terminating(pod)

    def _settle(self, group: SpreadReplicaSet, how: Rebalance) -> None:
        """What became of the move that is under way."""
        sent = self._under_way.get(group.key)
        if sent is None:
            return
        if self._is_there(group.key):
            if self._now >= sent.at + _SENT:
                del self._under_way[group.key]  # the request was refused, or lost
            return
        if self._unrest(group) in (SCALING, NOT_READY):
            return
        del self._under_way[group.key]
        came = [pod for pod in self._pods(group) if pod.metadata.uid not in sent.known]
        memory = self._memory(group)
        if not came:
            return  # it has fewer pods by now
        after = unevenness(self._mirror.cluster, self._movable(group, how).witnesses)
        if sent.move.landing is not None and not how.is_worth(sent.move.before, after):
            self._back_off(memory)
            return
        self.done += 1
        for pod in came:
            memory.landings[pod_name(pod)] = pod.spec.node_name or ""
        while len(memory.landings) > _MOST_LANDINGS:
            del memory.landings[next(iter(memory.landings))]
        memory.touched = self._now

    def _notice_lost(self, memory: _Memory, move: Move) -> None:
        """A replacement went to the same node before, and did not stay there."""
        lost = [
            pod
            for pod, node in memory.landings.items()
            if node == move.landing
            and ((bound := self._mirror.bound.get(_key(pod))) is None or bound.spec.node_name != node)
        ]
        for pod in lost:
            del memory.landings[pod]
        if lost:
            self._back_off(memory)

    def _back_off(self, memory: _Memory) -> None:
        memory.returns += 1
        memory.touched = self._now
        memory.until = self._now + _RETURNS.after(memory.returns)

    def _memory(self, group: SpreadReplicaSet) -> _Memory:
        """What is remembered of a workload, through all its revisions."""
        workload = self.workload(group)
        uid = (workload.metadata.uid if workload is not None else "") or group.uid
        memory = self._memories.get(uid)
        if memory is None or self._now > max(memory.until, memory.touched) + _MEMORY:
            kept = {
                each: known
                for each, known in self._memories.items()
                if self._now <= max(known.until, known.touched) + _MEMORY
            }
            memory = kept[uid] = _Memory(touched=self._now)
            self._memories = kept
        return memory


def _key(pod: str) -> Key:
    namespace, _, name = pod.partition("/")
    return (namespace, name)


def _age(pod: LivePod) -> tuple[str, str]:
    return (pod.metadata.creation_timestamp or "", pod_name(pod))
