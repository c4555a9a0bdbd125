"""What people are told of pods: conditions, events and log entries; and how conditions get written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Generic, TypeVar

from berth.engine.rules import LOG_KEYWORDS
from berth.kube.api_resources import PODS
from berth.kube.objects import Key, Pod, RawObject
from berth.kube.pods import pod_condition
from berth.kube.well_known import POD_SCHEDULED
from berth.machines.contract import Action, Outcome
from berth.machines.rates import Backoff
from berth.machines.recorder import NORMAL, WARNING, Recorder
from berth.machines.requests import new_condition, status_report
from berth.scheduler.queue import QueuedPod, SchedulerPurpose, SchedulingQueue

_NOTE_LENGTH = 1024  # of an event
_PAUSES = Backoff(1.0, 30.0)
_K = TypeVar("_K")


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """An attempt to place a pod that found no node."""

    pod: str  # ``namespace/name``
    number: int  # which attempt it was
    message: str
    # The rules that refused some node; none if there was no node, or an error.
    rules: frozenset[str] = frozenset()
    error: bool = False  # it ended in an error, not in a verdict

    @property
    def failed(self) -> str:
        """The rules in a log's words: a spread constraint by the keyword that dashboards look for."""
        words = sorted(LOG_KEYWORDS[rule] for rule in self.rules)
        return ", ".join(f"failed {word}" for word in words)


TellFailed = Callable[[FailedAttempt], None]


class Reports:
    """The Events of pods, and what logs hear."""

    def __init__(self, component: str, tell: TellFailed) -> None:
        self.recorder = Recorder(component)
        self.tell = tell

    def scheduled(self, pod: Pod, node: str, now: float) -> None:
        metadata = pod.metadata
        message = f"Successfully assigned {metadata.namespace}/{metadata.name} to {node}"
        self.recorder.record(now, PODS, pod, NORMAL, "Scheduled", message, action="Binding")

    def preempted(self, victim: Pod, preemptor: Pod, node: str, now: float) -> None:
        message = f"Preempted by pod {preemptor.metadata.uid} on node {node}"
        self.recorder.record(now, PODS, victim, NORMAL, "Preempted", message, action="Preempting")

    def failed(self, pod: Pod, message: str, now: float) -> None:
        if len(message) > _NOTE_LENGTH:
            message = message[: _NOTE_LENGTH - 4] + " ..."
        self.recorder.record(now, PODS, pod, WARNING, "FailedScheduling", message, action="Scheduling")


# --- conditions -----------------------------------------------------------------------------------


@dataclass(slots=True)
class WantedCondition:
    """What the status of an object ought to say."""

    number: int
    status: str  # of the condition, like reason and message
    reason: str
    message: str
    nominated: str | None = None  # the node that is being cleared for a pod
    tries: int = 0
    due: float = 0.0
    under_way: bool = False


class ConditionWriter(Generic[_K]):
    """What is to be written into the status of objects, until it is there.

    Nothing is written before it is asked for: a standby keeps quiet.  A write that fails is repeated
    while it is still true.
    """

    def __init__(self) -> None:
        self._numbers = count(1)
        self._open: dict[_K, WantedCondition] = {}

    def _write(self, key: _K, wanted: WantedCondition, now: float) -> Action | None:
        """The request that makes the status say so; None if it does, or there is no such object any more."""
        raise NotImplementedError

    def due(self) -> float | None:
        return min((each.due for each in self._open.values() if not each.under_way), default=None)

    def take(self, now: float) -> list[Action]:
        """The writes that are due."""
        actions: list[Action] = []
        for key, wanted in list(self._open.items()):
            if wanted.under_way or wanted.due > now:
                continue
            action = self._write(key, wanted, now)
            if action is None:
                del self._open[key]
            else:
                wanted.under_way = True
                actions.append(action)
        return actions

    def _answered(
        self, key: _K, action: Action, outcome: Outcome, *, settled: bool
    ) -> WantedCondition | None:
        """Learn what became of a write: what is settled with it, or it is made again after a pause."""
        wanted = self._open.get(key)
        if wanted is None or wanted.number != action.attempt:
            return None  # something newer is to be said
        if settled:
            return self._open.pop(key)
        wanted.tries += 1
        wanted.due = outcome.again(_PAUSES.after(wanted.tries))
        wanted.under_way = False
        return None


class PodConditions(ConditionWriter[Key]):
    """Why pods have no node, and which one is being cleared for them."""

    def __init__(self, queue: SchedulingQueue) -> None:
        super().__init__()
        self._queue = queue

    def want(self, record: QueuedPod, reason: str, message: str, nominated: str | None = None) -> None:
        self._open[record.key] = WantedCondition(next(self._numbers), "False", reason, message, nominated)
        pods = self._queue.pods
        if len(self._open) > 2 * len(pods) + 1024:
            self._open = {key: found for key, found in self._open.items() if key in pods}

    def _write(self, key: Key, wanted: WantedCondition, now: float) -> Action | None:
        record = self._queue.pending(key)
        change = None if record is None else _difference(record, wanted, now)
        if record is None or not change:
            return None
        # In the version it was last seen in: a pod that was bound meanwhile must not be told otherwise.
        purpose, number = SchedulerPurpose.CONDITION, wanted.number
        return status_report(PODS, record.pod, change, in_version=True, purpose=purpose, attempt=number)

    def done(self, action: Action, outcome: Outcome) -> None:
        settled = outcome.ok or outcome.missing
        said = self._answered(action.key, action, outcome, settled=settled)
        if said is not None and (record := self._queue.pending(action.key)):
            record.said = (said.reason, said.message, said.nominated)


def _difference(record: QueuedPod, wanted: WantedCondition, now: float) -> RawObject:
    """What has to change in the pod's status."""
    reason, message, nominated = record.said or _stated(record.pod)
    change: RawObject = {}
    if (reason, message) != (wanted.reason, wanted.message):
        entry = timed_condition(POD_SCHEDULED, wanted.status, wanted.reason, wanted.message, now)
        change["conditions"] = [entry]
    if nominated != wanted.nominated:
        change["nominatedNodeName"] = wanted.nominated
    return change


def _stated(pod: Pod) -> tuple[str, str, str | None]:
    """What the pod's status says already, from an earlier run."""
    stated = pod_condition(pod, POD_SCHEDULED)
    nominated = (pod.status.nominated_node_name if pod.status else None) or None
    if stated is None or stated.status != "False":
        return ("", "", nominated)
    return (stated.reason or "", stated.message or "", nominated)


def timed_condition(kind: str, status: str, reason: str, message: str, now: float) -> RawObject:
    """A condition of a pod that changes now."""
    return {**new_condition(kind, status, reason, message, now), "lastProbeTime": None}
