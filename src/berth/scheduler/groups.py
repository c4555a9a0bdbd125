"""The groups of pods that the scheduler knows (see `berth.kube.pods`), and what people are told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from berth.kube.api_resources import POD_GROUPS
from berth.kube.objects import Condition, Key, Pod, PodGroup, RawObject
from berth.kube.pods import GATED_MEMBERS, GroupKey, GroupState, condition, group_of, minimum_of
from berth.kube.times import stamp
from berth.kube.versions import VERSIONS, KubernetesVersion
from berth.kube.well_known import DELETED, STRATEGIC_PATCH
from berth.machines.contract import Action, Event, Outcome, Patch
from berth.scheduler.queue import QueuedPod, SchedulerPurpose, SchedulingPhase
from berth.scheduler.reports import Statement, Statements


@dataclass(slots=True, eq=False)
class Group:
    """Pods that are placed together.

    Attributes:
        object: Its PodGroup as it was seen last, None if it was not, or is gone.
        minimum: How many pods must have a node for any to get one; 0 if they are independent.
        pending: Its pods without a node.
        placed: Its pods that have one.
    """

    key: GroupKey
    object: PodGroup | None = None
    minimum: int = 0
    pending: dict[Key, QueuedPod] = field(default_factory=dict)
    placed: set[Key] = field(default_factory=set)

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

    def obstacle(self, candidates: int) -> str | None:
        """Why its pods cannot be tried yet, of which so many could; None if they can."""
        return self.state.obstacle(candidates, {GATED_MEMBERS: len(self.pending) - candidates})


class Groups:
    """All groups that have a pod or an object."""

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

    def validate(self, record: QueuedPod) -> Iterator[str]:
        """Whether a pod's group has it where its phase says."""
        name = group_of(record.pod)
        group = None if name is None else self._groups.get(name, Group(name))
        if group is not None and (record.key in group.pending) == (record.key in group.placed):
            yield f"{record.key} is {record.phase}, but not so by its group"
        if group is not None and (record.key in group.pending) != record.pending:
            yield f"{record.key} is {record.phase}, but the other way by its group"


# --- what people are told -------------------------------------------------------------------------
# Only Kubernetes' own PodGroup has it.  Once it is True it stays so, whatever becomes of the pods.
# Upstream: updatePodGroupCondition in pkg/scheduler/schedule_one_podgroup.go.

_TYPES = {version.pod_group_api: version.pod_group_condition for version in VERSIONS.values()}


class GroupConditions(Statements[GroupKey]):
    """Whether the pods of PodGroups were placed.

    Args:
        groups: Their objects as they were seen last.
        version: Whose name the condition has where a PodGroup does not say which API it is of.
    """

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
            self._open[group.key] = Statement(next(self._numbers), status, reason, message)

    def _write(self, key: GroupKey, statement: Statement, now: float) -> Action | None:
        group = self._groups.object_of(key)
        if group is None:
            return None
        kind = self._type_of(group)
        stated = condition(group.status.conditions if group.status else None, kind)
        if stated is not None and (stated.status == "True" or _says(stated, statement)):
            return None
        since = stated.last_transition_time if stated and stated.status == statement.status else None
        entry: RawObject = {
            "type": kind,
            "status": statement.status,
            "reason": statement.reason,
            "message": statement.message,
            "lastTransitionTime": since or stamp(now),
        }
        if group.metadata.generation is not None:
            entry["observedGeneration"] = group.metadata.generation
        return Patch(
            resource=POD_GROUPS,
            key=key[1:],
            body={"metadata": {"uid": group.metadata.uid}, "status": {"conditions": [entry]}},
            subresource="status",
            form=STRATEGIC_PATCH,
            purpose=SchedulerPurpose.GROUP,
            attempt=statement.number,
        )

    def _type_of(self, group: PodGroup) -> str:
        """An upgraded server may have the groups in its own version before it is followed as that."""
        return _TYPES.get((group.api_version or "").rpartition("/")[2], self._type)

    def done(self, action: Action, outcome: Outcome) -> None:
        # Settled: it is there, or the group is another one, or we may not.
        settled = outcome.ok or outcome.missing or outcome.conflict or outcome.code == 403
        self._answered((POD_GROUPS, *action.key), action, outcome, settled=settled)


def _says(stated: Condition, statement: Statement) -> bool:
    found = (stated.status, stated.reason or "", stated.message or "")
    return found == (statement.status, statement.reason, statement.message)
