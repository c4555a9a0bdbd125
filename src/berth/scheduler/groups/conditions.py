"""What people are told about a group: the condition of its PodGroup that says whether it was placed.

Only Kubernetes' own PodGroup has it.  Once it is True it stays so, whatever becomes of the pods.
Upstream: updatePodGroupCondition in pkg/scheduler/schedule_one_podgroup.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from berth.kube.api_resources import POD_GROUPS
from berth.kube.objects import Condition, PodGroup, RawObject
from berth.kube.pod_groups import GroupKey
from berth.kube.times import stamp
from berth.kube.versions import VERSIONS, KubernetesVersion
from berth.kube.well_known import STRATEGIC_PATCH
from berth.machines.backoff import Backoff
from berth.machines.contract import Action, Outcome, Patch
from berth.scheduler.groups.membership import Group, Groups
from berth.scheduler.queued_pod import SchedulerPurpose

_PAUSES = Backoff(1.0, 30.0)
_TYPES = {version.pod_group_api: version.pod_group_condition for version in VERSIONS.values()}


@dataclass(slots=True)
class _Wanted:
    """What the condition of a group ought to say."""

    number: int
    status: str
    reason: str
    message: str
    tries: int = 0
    due: float = 0.0
    under_way: bool = False

    def says(self, condition: Condition) -> bool:
        stated = (condition.status, condition.reason or "", condition.message or "")
        return stated == (self.status, self.reason, self.message)

    def condition(self, kind: str, since: str) -> RawObject:
        return {
            "type": kind,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
            "lastTransitionTime": since,
        }


class GroupConditions:
    """What is to be written into the status of PodGroups, until it is there.

    Args:
        groups: Their objects as they were seen last.
        version: Whose name the condition has where a PodGroup does not say which API it is of.
    """

    def __init__(self, groups: Groups, version: KubernetesVersion) -> None:
        self._groups = groups
        self._type = version.pod_group_condition
        self._numbers = count(1)
        self._open: dict[GroupKey, _Wanted] = {}

    def placed(self, group: Group) -> None:
        self._want(group, "True", "Scheduled", "")

    def not_placed(self, group: Group, reason: str, message: str) -> None:
        self._want(group, "False", reason, message)

    def _want(self, group: Group, status: str, reason: str, message: str) -> None:
        if group.key[0] == POD_GROUPS:
            self._open[group.key] = _Wanted(next(self._numbers), status, reason, message)

    def due(self) -> float | None:
        return min((wanted.due for wanted in self._open.values() if not wanted.under_way), default=None)

    def take(self, now: float) -> list[Action]:
        """The writes that are due."""
        actions: list[Action] = []
        for key, wanted in list(self._open.items()):
            if wanted.under_way or wanted.due > now:
                continue
            seen = self._groups.object_of(key)
            kind = self._type_of(seen)
            stated = None if seen is None else _stated(seen, kind)
            if seen is None or (stated is not None and (stated.status == "True" or wanted.says(stated))):
                del self._open[key]
                continue
            wanted.under_way = True
            since = stated.last_transition_time if stated and stated.status == wanted.status else None
            actions.append(_patch(key, seen, wanted.condition(kind, since or stamp(now)), wanted.number))
        return actions

    def _type_of(self, group: PodGroup | None) -> str:
        """An upgraded server may have the groups in its own version before it is followed as that."""
        api = ((group.api_version if group else None) or "").rpartition("/")[2]
        return _TYPES.get(api, self._type)

    def done(self, action: Action, outcome: Outcome) -> None:
        key = (POD_GROUPS, *action.key)
        wanted = self._open.get(key)
        if wanted is None or wanted.number != action.attempt:
            return  # something newer is to be said
        if outcome.ok or outcome.missing or outcome.conflict or outcome.code == 403:
            del self._open[key]  # it is there, or the group is another one, or we may not
            return
        wanted.tries += 1
        wanted.due = outcome.at + max(_PAUSES.after(wanted.tries), outcome.retry_after or 0.0)
        wanted.under_way = False


def _stated(group: PodGroup, kind: str) -> Condition | None:
    conditions = (group.status.conditions if group.status else None) or ()
    return next((each for each in conditions if each.type == kind), None)


def _patch(key: GroupKey, group: PodGroup, condition: RawObject, number: int) -> Patch:
    _, namespace, name = key
    if group.metadata.generation is not None:
        condition["observedGeneration"] = group.metadata.generation
    return Patch(
        resource=POD_GROUPS,
        key=(namespace, name),
        namespace=namespace,
        name=name,
        body={"metadata": {"uid": group.metadata.uid}, "status": {"conditions": [condition]}},
        subresource="status",
        form=STRATEGIC_PATCH,
        purpose=SchedulerPurpose.GROUP,
        attempt=number,
    )
