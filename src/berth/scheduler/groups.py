"""Groups of pods: those that are placed together (see `berth.kube.pods`), and those that want each other."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from berth.engine.placement.plan import plan_for
from berth.engine.rules import TOPOLOGY_RULES
from berth.engine.state.pod_class import PodClass
from berth.kube.api_resources import POD_GROUPS, PODS
from berth.kube.objects import Condition, Key, Pod, PodGroup
from berth.kube.pods import (
    GATED_MEMBERS,
    GroupKey,
    GroupState,
    condition,
    group_of,
    is_finished,
    is_terminating,
    minimum_of,
    pod_condition,
)
from berth.kube.versions import VERSIONS, KubernetesVersion
from berth.kube.well_known import DELETED
from berth.machines.contract import Action, Event, Outcome, Patch, expect
from berth.machines.mirror import Mirror
from berth.machines.rates import Backoff
from berth.machines.requests import new_condition, status_report
from berth.scheduler.queue import QueuedPod, SchedulerPurpose, SchedulingPhase, SchedulingQueue
from berth.scheduler.reports import ConditionWriter, WantedCondition, timed_condition
from berth.scheduler.reservations import Nominations


@dataclass(slots=True, eq=False)
class Group:
    """Pods that are placed together."""

    key: GroupKey
    object: PodGroup | None = None  # its PodGroup as it was seen last, None if it was not, or is gone
    minimum: int = 0  # how many pods must have a node for any to get one; 0 if they are independent
    pending: dict[Key, QueuedPod] = field(default_factory=dict)  # its pods without a node
    placed: set[Key] = field(default_factory=set)  # its pods that have one

    @property
    def known(self) -> bool:
        return self.object is not None

    @property
    def is_placed(self) -> bool:
        """Whether so many of its pods have a node that it may be said of the group."""
        return len(self.placed) >= max(self.minimum, 1)

    @property
    def state(self) -> GroupState:
        return GroupState(self.key, self.known, self.minimum, len(self.placed))

    def candidates(self) -> tuple[list[QueuedPod], str | None]:
        """Its pods without a node that have no gates, and why they cannot be tried yet, None if they can."""
        found = [record for record in self.pending.values() if not record.pod.spec.scheduling_gates]
        return found, self.state.obstacle(len(found), {GATED_MEMBERS: len(self.pending) - len(found)})


class Groups:
    """The groups that have a pod or an object: who of them waits, and who has a node; it places nobody."""

    def __init__(self) -> None:
        self._groups: dict[GroupKey, Group] = {}

    def of(self, key: GroupKey) -> Group:
        return self._groups.get(key) or self._groups.setdefault(key, Group(key))

    def object_of(self, key: GroupKey) -> PodGroup | None:
        found = self._groups.get(key)
        return None if found is None else found.object

    def handle(self, event: Event) -> Group:
        """A PodGroup object came, changed or went."""
        group = self.of((event.resource, *event.key))
        group.object = None if event.change == DELETED else event.object
        group.minimum = 0 if group.object is None else minimum_of(group.object)
        self._tidy(group)
        return group

    def wait(self, record: QueuedPod) -> None:
        record.group = group_of(record.pod)
        if record.group is not None:
            group = self.of(record.group)
            group.placed.discard(record.key)
            group.pending[record.key] = record

    def has_others(self, record: QueuedPod) -> bool:
        """Whether further pods of its group wait."""
        return record.group is not None and len(self.of(record.group).pending) > 1

    def waiting(self) -> Iterator[tuple[bool, Counter[SchedulingPhase]]]:
        """For every group with pods that wait: whether its object is known, and the phases of the pods."""
        for group in self._groups.values():
            if group.pending:
                yield group.known, Counter(record.phase for record in group.pending.values())

    def place(self, key: Key, pod: Pod) -> None:
        """A pod has a node."""
        if (name := group_of(pod)) is not None:
            group = self.of(name)
            group.pending.pop(key, None)
            group.placed.add(key)

    def leave(self, key: Key, pod: Pod) -> None:
        if (name := group_of(pod)) is not None:
            group = self.of(name)
            group.pending.pop(key, None)
            group.placed.discard(key)
            self._tidy(group)

    def _tidy(self, group: Group) -> None:
        if not (group.known or group.pending or group.placed):
            self._groups.pop(group.key, None)

    def validate(self, record: QueuedPod) -> None:
        """Check that a pod's group has it where its phase says; for tests."""
        if (name := group_of(record.pod)) is not None:
            group = self._groups.get(name, Group(name))
            places = (record.key in group.pending, record.key in group.placed)
            wanted = (record.pending, not record.pending)
            expect(places == wanted, f"{record.key} is {record.phase}, but not so by its group")


# --- what people are told -------------------------------------------------------------------------
# Only Kubernetes' own PodGroup has it.  Once it is True it stays so, whatever becomes of the pods.
# Upstream: updatePodGroupCondition in pkg/scheduler/schedule_one_podgroup.go.

_TYPES = {version.pod_group_api: version.pod_group_condition for version in VERSIONS.values()}


class GroupConditions(ConditionWriter[GroupKey]):
    """Whether the pods of PodGroups were placed; of `version` where an object does not name its API."""

    def __init__(self, groups: Groups, version: KubernetesVersion) -> None:
        super().__init__()
        self._groups = groups
        self._type = version.pod_group_condition

    def placed(self, group: Group) -> None:
        self._want(group, "True", "Scheduled", "")

    def not_placed(self, group: Group, reason: str, message: str) -> None:
        self._want(group, "False", reason, message)

    def _want(self, group: Group, status: str, reason: str, message: str) -> None:
        if group.key[0] == POD_GROUPS:
            self._open[group.key] = WantedCondition(next(self._numbers), status, reason, message)

    def _write(self, key: GroupKey, wanted: WantedCondition, now: float) -> Action | None:
        group = self._groups.object_of(key)
        if group is None:
            return None
        # An upgraded server may have the groups in its own version before it is followed as that.
        kind = _TYPES.get((group.api_version or "").rpartition("/")[2], self._type)
        stated = condition(group.status.conditions if group.status else None, kind)
        if stated is not None and (stated.status == "True" or _says(stated, wanted)):
            return None
        entry = new_condition(kind, wanted.status, wanted.reason, wanted.message, now, stated)
        if group.metadata.generation is not None:
            entry["observedGeneration"] = group.metadata.generation
        change, purpose = {"conditions": [entry]}, SchedulerPurpose.GROUP
        return status_report(POD_GROUPS, group, change, purpose=purpose, attempt=wanted.number)

    def done(self, action: Action, outcome: Outcome) -> None:
        # Settled: it is there, or the group is another one, or we may not.
        settled = outcome.ok or outcome.missing or outcome.conflict or outcome.code == 403
        self._answered((POD_GROUPS, *action.key), action, outcome, settled=settled)


def _says(stated: Condition, wanted: WantedCondition) -> bool:
    found = (stated.status, stated.reason or "", stated.message or "")
    return found == (wanted.status, wanted.reason, wanted.message)


# --- who starts a group of pods that want each other, when several schedulers serve one cluster ------
# A pod whose required affinity matches itself may go anywhere while no such pod has a node.  Two schedulers
# that each have one of them would each start the group where they like, and split it.  So the one that is
# about to start a group announces it in the status of its pod, and goes on when it sees the announcement in
# its watch: every watch shows pods in the same order, so whoever announced first is the first for all.  The
# others wait until they see where that pod went, or until so much time has passed that it will not be bound
# any more.

FIRST_OF_GROUP = "berth.dev/FirstOfGroup"
# A pod is bound within the first time from when it was to be announced, and awaited for the second one from
# when that was seen: clocks need not agree, and a request may take the difference.
VALID, AWAITED = 10.0, 15.0
_PAUSES = Backoff(1.0, 30.0)  # after announcements that were refused


@dataclass(frozen=True, slots=True)
class _Announcement:
    """A pod without a node that is to start its group, as we asked for it or as it was seen."""

    token: str
    pod_class: PodClass
    at: float
    order: int = 0  # in which they were seen


class GroupAnnouncements:
    """The announcements of all schedulers, and our pods that wait because of them."""

    def __init__(
        self, mirror: Mirror, queue: SchedulingQueue, nominations: Nominations, identity: str | None
    ) -> None:
        self._mirror, self._queue, self._nominations = mirror, queue, nominations
        self._identity = identity  # no other scheduler has the same; None: we are the only one
        self._numbers = count(1)
        self._seen: dict[Key, _Announcement] = {}
        self._asked: dict[Key, _Announcement] = {}  # our own
        self._waiting: dict[Key, None] = {}
        self._looked = -math.inf
        self._again = -math.inf
        self._failures = 0

    # --- seeing -------------------------------------------------------------------------------------

    def see(self, key: Key, pod: Pod, now: float, *, gone: bool) -> None:
        """Take note of a pod of any scheduler, after it was taken note of where it is."""
        if self._identity is None:
            return
        open_ = not (gone or pod.spec.node_name or is_terminating(pod) or is_finished(pod))
        token = _token(pod) if open_ else None
        known = self._seen.get(key)
        if not open_:
            self._asked.pop(key, None)
        if token is None:
            if self._seen.pop(key, None) is not None:
                self._wake(now)
        elif known is None or known.token != token:
            pod_class = self._mirror.class_of(pod)
            if pod_class is not None:
                self._seen[key] = _Announcement(token, pod_class, now, next(self._numbers))
                self._wake(now)

    def _wake(self, now: float) -> None:
        """Let those that wait be tried again: it may be their turn, or there is a pod to go to."""
        waiting, self._waiting = self._waiting, {}
        for key in waiting:
            record = self._queue.pending(key)
            if record is None or record.pod.spec.scheduling_gates:
                continue
            if record.phase is SchedulingPhase.GATED:
                self._queue.activate(record, now)

    # --- deciding -----------------------------------------------------------------------------------

    def clears(self, record: QueuedPod, pod_class: PodClass, now: float, ready: list[Action]) -> bool:
        """Whether a pod may be bound; if not it is gated, and perhaps announced, and tried again in time."""
        if self._identity is None or not pod_class.required_affinity:
            return True
        with self._nominations.without_any():
            rules = plan_for(self._mirror.cluster, pod_class).topology_rules
            founds = any(rule.founds for rule in rules)
        if not founds:
            self._asked.pop(record.key, None)
            return True
        key, asked, seen = record.key, self._asked.get(record.key), self._seen.get(record.key)
        if asked is not None and now >= asked.at + VALID:
            del self._asked[key]
            asked = None
        ours = seen if seen is not None and asked is not None and seen.token == asked.token else None
        free = not self._is_awaited(key, pod_class, now, math.inf if ours is None else ours.order)
        if ours is not None and free:
            return True
        self._queue.gate(record)
        self._waiting[key] = None
        if asked is None and free and now >= self._again:
            ready.append(self._announce(record, pod_class, now))
        return False

    def _is_awaited(self, key: Key, pod_class: PodClass, now: float, order: float) -> bool:
        """Whether a pod that this one wants was announced before, here or elsewhere."""
        found = [
            a.pod_class
            for k, a in self._seen.items()
            if k != key and now < a.at + AWAITED and a.order < order
        ]
        if order == math.inf:
            found += [a.pod_class for k, a in self._asked.items() if k != key and now < a.at + VALID]
        return seeks_any(pod_class, found)

    def _announce(self, record: QueuedPod, pod_class: PodClass, now: float) -> Patch:
        token = f"starts the group of its pod affinity, says {self._identity} {next(self._numbers)}"
        self._asked[record.key] = _Announcement(token, pod_class, now)
        change = {"conditions": [timed_condition(FIRST_OF_GROUP, "True", "FirstOfGroup", token, now)]}
        purpose = SchedulerPurpose.ANNOUNCEMENT
        return status_report(PODS, record.pod, change, purpose=purpose, attempt=record.attempt)

    def done(self, action: Action, outcome: Outcome) -> str | None:
        """Learn what became of an announcement; whether it holds is seen in the watch.

        Returns:
            Why the pod waits, for people, if they can do something about it.
        """
        if outcome.ok:
            self._failures = 0
            return None
        if self._asked.pop(action.key, None) is not None:
            self._failures += 1
            self._again = outcome.again(_PAUSES.after(self._failures))
        if outcome.missing or outcome.conflict:
            return None
        return (
            "the pod would be the first of the group of its pod affinity, and others cannot be told "
            f"({FIRST_OF_GROUP} in its status): {outcome.message or outcome.reason or outcome.code}"
        )

    def is_late(self, key: Key, now: float) -> bool:
        """Whether a pod was to start its group and took too long: others may do so by now."""
        asked = self._asked.get(key)
        return asked is not None and now >= asked.at + VALID

    # --- in time ------------------------------------------------------------------------------------

    def due(self) -> float | None:
        """When those that wait should look again though nothing happens."""
        if not self._waiting:
            return None
        times = [a.at + AWAITED for a in self._seen.values()]
        times += [a.at + VALID for a in self._asked.values()]
        return min((t for t in (*times, self._again) if t > self._looked), default=None)

    def look(self, now: float) -> None:
        when = self.due()
        self._looked = max(now, self._looked)
        if when is not None and when <= now:
            self._wake(now)


def seeks_any(pod_class: PodClass, others: list[PodClass]) -> bool:
    """Whether pods of a class want to be where those of one of the others are."""
    return any(rule.seeks(pod_class, other) for other in others for rule in TOPOLOGY_RULES)


def _token(pod: Pod) -> str | None:
    announced = pod_condition(pod, FIRST_OF_GROUP)
    return (announced.message or "") if announced is not None and announced.status == "True" else None
