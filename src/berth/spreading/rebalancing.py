"""Which pods of uneven groups should move, one of a group at a time; the machine that evicts moves them.

A group is judged when something happened to it, to nodes, or to what stood in its way, and is moved only
while it is at rest and has its turn.  Where replacements went is remembered: one that did not help, or did
not stay, keeps the whole workload where it is for a while, longer each time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from berth.engine.execution.rebalancing import (
    NO_BETTER_PLACE,
    NO_NODE,
    NOT_READY,
    ROLLING_OUT,
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
from berth.kube.amounts.shares import or_one
from berth.kube.api_resources import BUDGETS, DEPLOYMENTS, PODS, REPLICA_SETS
from berth.kube.objects import Key, LivePod, LiveWorkload, PodDisruptionBudget
from berth.kube.ownership import controller_of
from berth.kube.pods import is_active, is_ready, is_terminating
from berth.kube.selectors import is_guarded
from berth.kube.well_known import KEEP_SPREAD
from berth.machines.cache import Cache
from berth.machines.contract import MoveSource, WantedMove
from berth.machines.mirror import Mirror, pod_key
from berth.machines.rates import ReturnMemories
from berth.spreading.groups import (
    RETURNS,
    ReplacementMemory,
    SpreadGroups,
    SpreadingSettings,
    SpreadReplicaSet,
)
from berth.spreading.records import PATIENCE, SentMove, SpreadPhase, SpreadRecord, SpreadRecords

# Why a group that is uneven stays as it is, besides what the engine says.
BUDGET, NEW_NODE, BACKED_OFF, UNDER_WAY = "budget", "new-node", "backed-off", "under-way"
# Reasons that a move of another group may end, and those that a pod's going, or a changed budget, may.
NOWHERE_BETTER = frozenset({NO_BETTER_PLACE, NO_NODE})
STUCK = NOWHERE_BETTER | {BUDGET}

_SENT = 30.0  # an eviction that was sent is seen by then
_MOST_PLANNED = 50
_MOST_ASKED = 20  # groups that are judged for their turn in one call, so that other machines get theirs

TellTurn = Callable[[SpreadReplicaSet, SpreadRecord, float], None]


class Rebalancer(MoveSource):
    """Says which pod of which group should move now; it evicts nobody, and changes no cluster."""

    def __init__(
        self, cache: Cache, mirror: Mirror, groups: SpreadGroups, settings: SpreadingSettings
    ) -> None:
        self._cache = cache
        self._mirror = mirror
        self._groups = groups
        self._settings = settings
        self._replacements = ReturnMemories(partial(ReplacementMemory, RETURNS))  # by the uid of the workload
        self._changed_nodes: dict[str, float] = {}
        self._leaving: dict[str, SentMove] = {}  # pods whose eviction was sent, until they are gone
        self._now = 0.0
        self.plans = 0  # how many were made
        self.records = SpreadRecords()  # of the groups that may be moved
        self.done = 0  # how many replacements went where it helped
        self.refusals: Counter[str] = Counter()  # how often groups were refused, by reason

    # --- what the evicting machine asks -------------------------------------------------------------

    @property
    def revision(self) -> int:
        return self.records.revision

    def wanted(self) -> Sequence[WantedMove]:
        return [
            WantedMove(each.move.pod, each.move.reason, each.since)
            for each in self.records.chosen.values()
            if each.move is not None and each.sent is None
        ]

    def wants(self, pod: str) -> bool:
        return self._judged(pod) is not None

    def confirms(self, pod: str) -> bool:
        move = self._judged(pod)
        group, bound = self._groups.of(pod_key(pod)), self._mirror.pod(pod)
        if move is None or group is None or bound is None:
            return False
        known = frozenset(each.metadata.uid or "" for each in self._pods(group))
        self._leaving[pod] = sent = SentMove(move, bound.metadata.uid or "", self._now, known)
        self.records.send(self.records.of(group.key), sent)
        return True

    def _judged(self, pod: str) -> Move | None:
        """The move of a pod as everything is now; None if it should stay."""
        group = self._groups.of(pod_key(pod))
        record = None if group is None else self.records.chosen.get(group.key)
        if group is None or record is None or record.move is None or record.move.pod != pod:
            return None
        if self._how(group).policy is RebalancePolicy.OFF or self._unrest(group):
            return None
        move = self._next(group, (pod,))
        return move if isinstance(move, Move) and not self._obstacle(group, move)[0] else None

    def _next(self, group: SpreadReplicaSet, only: tuple[str, ...] | None = None) -> Move | str | None:
        """The best move of a group, with those of others made that are under way."""
        under_way = self.records.under_way.items()
        others = [each.sent.move for key, each in under_way if each.sent is not None and key != group.key]
        with supposed(self._mirror.cluster, others):
            return next_move(self._mirror.cluster, self._movable(group, only))

    # --- looking at a group -------------------------------------------------------------------------

    def nodes_changed(self, names: Iterable[str], now: float) -> None:
        """Nodes came, or are others than before: they are not trusted yet."""
        self._changed_nodes.update(dict.fromkeys(names, now))
        old = now - max(self._settings.rebalance_delay, 1.0)
        self._changed_nodes = {name: when for name, when in self._changed_nodes.items() if when > old}

    def look_at(self, group: SpreadReplicaSet, now: float) -> float | None:
        """Judge a group anew; when to look again though nothing happens."""
        self._now = now
        if self._how(group).policy is RebalancePolicy.OFF:
            self.records.forget(group.key)
            return None
        record = self.records.of(group.key)
        self._settle(group, record)
        when: float | None = None
        found: Move | str | None
        if record.sent is not None:
            found = UNDER_WAY
            when = record.sent.at + _SENT if self._terminates(record.sent) is False else None
        else:
            found = self._unrest(group) or self._next(group)
            if isinstance(found, Move):
                obstacle, when = self._obstacle(group, found)
                found = obstacle or found
        self._enter(group, record, found)
        return when

    def _enter(self, group: SpreadReplicaSet, record: SpreadRecord, found: Move | str | None) -> None:
        """Take down the move that was found for a group, or why there is none."""
        refusal = found if isinstance(found, str) else ""
        if refusal and refusal != record.stays_because:
            self.refusals[refusal] += 1
        record.stays_because = refusal
        if record.sent is not None:
            record.move, record.planned = None, 0
        elif not isinstance(found, Move):
            self.records.rest(record)
        elif record.move is None or (record.move.pod, record.move.reason) != (found.pod, found.reason):
            plan = plan_moves(self._mirror.cluster, [self._movable(group)], _MOST_PLANNED)[0]
            self.plans += 1
            self.records.want(record, found, len(plan) or 1, self._now)

    # --- whose turn it is ---------------------------------------------------------------------------

    def take_turns(self, now: float, tell: TellTurn) -> float | None:
        """Have the next group move that can; when to come again though nothing happens.

        `tell` hears who may move now.
        """
        self._now = now
        if (until := self.records.taken_until(now)) is not None:
            return until
        for asked, record in enumerate(self.records.in_order(self._may_move())):
            if asked == _MOST_ASKED:
                return now
            ready_from = self._ready_from(record)
            if ready_from > now:
                return ready_from
            if record.phase is not SpreadPhase.WAITING:
                record.asked = True
                continue
            self.records.choose(record, now)
            tell(self._groups.by_key[record.key], record, now)
            return now + PATIENCE
        self.records.begin_anew()
        return None

    def _may_move(self) -> list[SpreadRecord]:
        """The groups that have a pod to move, or may have one soon."""
        return [
            record
            for key, record in self.records.by_key.items()
            if (record.move or record.sent or record.stays_because in NOWHERE_BETTER)
            and key not in self.records.chosen
            and key in self._groups.by_key
        ]

    def _ready_from(self, record: SpreadRecord) -> float:
        """Judge a group whose turn it may be; until when to wait for it, `now` if it need not be waited for.

        It is waited for while its last replacement is not Ready and another pod is to follow, and while pods
        that terminate keep it from what is best once they are gone.
        """
        group = self._groups.by_key[record.key]
        if record.sent is not None:
            follows = isinstance(self._next(group), Move)
            return record.sent.at + PATIENCE if follows else self._now
        self.look_at(group, self._now)
        self._leaving = {pod: sent for pod, sent in self._leaving.items() if self._terminates(sent)}
        if self._how(group).policy is RebalancePolicy.OFF or not self._leaving:
            return self._now
        with self._mirror.cluster.without(*self._leaving):
            then = self._next(group)
        now = (record.move.pod, record.move.replacement_node) if record.move is not None else None
        if now == ((then.pod, then.replacement_node) if isinstance(then, Move) else None):
            return self._now
        return max(sent.at for sent in self._leaving.values()) + PATIENCE

    def _terminates(self, sent: SentMove) -> bool | None:
        """Whether the pod that was to go is going; None if it is gone."""
        pod = self._mirror.pod(sent.move.pod)
        return is_terminating(pod) if pod is not None and pod.metadata.uid == sent.uid else None

    def whole_plan(self) -> list[Move]:
        """Everything that would be done as it is, of all groups together; nothing if nobody may move now."""
        if not any(record.move for record in self.records.by_key.values()):
            return []
        groups = [
            group
            for key, record in sorted(self.records.by_key.items(), key=lambda each: each[0])
            if (record.move or record.stays_because in (*NOWHERE_BETTER, ""))
            and (group := self._groups.by_key.get(key)) is not None
        ]
        return plan_moves(self._mirror.cluster, list(map(self._movable, groups)))[0]

    def stuck(self) -> Iterator[Key]:
        """The groups that something elsewhere may help."""
        return (key for key, record in self.records.by_key.items() if record.stays_because in STUCK)

    # --- how ----------------------------------------------------------------------------------------

    def workload(self, group: SpreadReplicaSet) -> LiveWorkload | None:
        """The Deployment, or the ReplicaSet if it is nobody's."""
        replica_set = self._cache.get(REPLICA_SETS, group.key, LiveWorkload)
        if replica_set is None:
            return None
        return self._cache.controller(replica_set.metadata, LiveWorkload, DEPLOYMENTS) or replica_set

    def _how(self, group: SpreadReplicaSet) -> Rebalance:
        """What the workload says, or else the settings."""
        if self.is_opted_out(group):
            return Rebalance()
        return rebalance_of(self._annotations(group), self._settings.rebalance)

    def is_opted_out(self, group: SpreadReplicaSet) -> bool:
        """By the workload's annotation; a Deployment's stays on its ReplicaSets when it is removed there."""
        return self._annotations(group).get(KEEP_SPREAD) == "false"

    def _annotations(self, group: SpreadReplicaSet) -> dict[str, str]:
        workload = self.workload(group)
        return (workload.metadata.annotations if workload is not None else None) or {}

    def _movable(self, group: SpreadReplicaSet, only: tuple[str, ...] | None = None) -> MovableGroup:
        pods = self._pods(group)
        names = tuple(pod_name(pod) for pod in sorted(pods, key=_age))
        return MovableGroup(names if only is None else only, self._witnesses(group, pods), self._how(group))

    def _witnesses(self, group: SpreadReplicaSet, pods: Sequence[LivePod]) -> tuple[str, ...]:
        """The youngest pod of every group that counts these pods: all that a move may make more uneven."""
        labels = (pods[0].metadata.labels or {}) if pods else {}
        keys = dict.fromkeys([group.key, *self._groups.concerned(group.key[0], labels)])
        found = (self._pods(other) for key in keys if (other := self._groups.by_key.get(key)) is not None)
        return tuple(pod_name(max(members, key=_age)) for members in found if members)

    def _pods(self, group: SpreadReplicaSet) -> list[LivePod]:
        found = (self._mirror.bound.get(key) for key in group.pods)
        return [pod for pod in found if isinstance(pod, LivePod)]

    # --- what is in the way -------------------------------------------------------------------------

    def _unrest(self, group: SpreadReplicaSet) -> str:
        """Why a group is not to be disturbed: not all its pods are there and Ready, or it is another soon."""
        replica_set = self._cache.get(REPLICA_SETS, group.key, LiveWorkload)
        if replica_set is None or not _stays(replica_set, group.uid):
            return SCALING
        pods = [pod for pod in self._cache.owned(PODS, group.uid, LivePod) if is_active(pod)]
        if len(pods) != or_one(replica_set.spec.replicas) or not all(pod.spec.node_name for pod in pods):
            return SCALING
        if self._rolls_out(replica_set):
            return ROLLING_OUT
        return "" if all(map(is_ready, pods)) else NOT_READY

    def _rolls_out(self, replica_set: LiveWorkload) -> bool:
        owner = controller_of(replica_set.metadata)
        if owner is None or owner.kind != DEPLOYMENTS.kind:
            return False
        deployment = self._cache.controller(replica_set.metadata, LiveWorkload, DEPLOYMENTS)
        if deployment is None or not _stays(deployment, owner.uid):
            return True
        others = self._cache.owned(REPLICA_SETS, owner.uid, LiveWorkload)
        return any(
            other.metadata.uid != replica_set.metadata.uid
            and (other.spec.replicas or 0) + (other.status.replicas or 0) > 0
            for other in others
        ) or deployment.spec.replicas not in (None, replica_set.spec.replicas)

    def _obstacle(self, group: SpreadReplicaSet, move: Move) -> tuple[str, float | None]:
        """What keeps a move that would help from being made now, and until when if time alone ends it."""
        memory, node = self._memory(group), move.replacement_node
        memory.notice_lost(node, self._mirror.pod, self._now)
        if memory.until > self._now:
            return BACKED_OFF, memory.until
        trusted = self._changed_nodes.get(node or "", -math.inf) + self._settings.rebalance_delay
        if trusted > self._now:
            return NEW_NODE, trusted
        bound = self._mirror.pod(move.pod)
        if bound is not None and any(
            not (budget.status and budget.status.disruptions_allowed) and is_guarded(bound.metadata, budget)
            for budget in self._cache.all(BUDGETS, PodDisruptionBudget)
        ):
            return BUDGET, None
        return "", None

    # --- where replacements went --------------------------------------------------------------------

    def _settle(self, group: SpreadReplicaSet, record: SpreadRecord) -> None:
        """What became of the move that is under way."""
        sent = record.sent
        if sent is None:
            return
        if self._terminates(sent) is False:
            if self._now >= sent.at + _SENT:
                self.records.lose(record)
            return
        came = [pod for pod in self._pods(group) if pod.metadata.uid not in sent.known]
        unrest = self._unrest(group)
        has_a_node = came or sent.move.replacement_node is None or not unrest
        if record.phase is SpreadPhase.MOVING and has_a_node:
            self.records.land(record, self._now)
        if unrest in (SCALING, NOT_READY):
            return
        self.records.settle(record)
        memory = self._memory(group)
        if not came:
            return  # it has fewer pods by now
        after = unevenness(self._mirror.cluster, self._witnesses(group, self._pods(group)))
        worth = self._how(group).is_worth(sent.move.before, after)
        if sent.move.replacement_node is not None and not worth:
            memory.back_off(self._now)
            return
        self.done += 1
        memory.keep({pod_name(pod): pod.spec.node_name or "" for pod in came}, self._now)

    def _memory(self, group: SpreadReplicaSet) -> ReplacementMemory:
        """What is remembered of a workload, through all its revisions."""
        workload = self.workload(group)
        return self._replacements.of(
            (workload.metadata.uid if workload is not None else "") or group.uid, self._now
        )


def _stays(workload: LiveWorkload, uid: str | None) -> bool:
    """Whether it is the one of this uid, and is not being deleted."""
    return workload.metadata.uid == uid and not workload.metadata.deletion_timestamp


def _age(pod: LivePod) -> tuple[str, str]:
    return (pod.metadata.creation_timestamp or "", pod_name(pod))
