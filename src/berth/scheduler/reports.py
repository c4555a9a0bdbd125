"""What people are told about a pod: its `PodScheduled` condition and its events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from berth.engine.rules import LOG_KEYWORDS
from berth.kube.api_resources import PODS
from berth.kube.objects import Key, Pod
from berth.kube.times import stamp
from berth.kube.well_known import STRATEGIC_PATCH
from berth.machines.contract import Action, Outcome, Patch
from berth.machines.rates import Backoff
from berth.machines.recorder import NORMAL, WARNING, Recorder
from berth.scheduler.queue import QueuedPod, SchedulerPurpose, SchedulingQueue

_NOTE_LENGTH = 1024  # of an event
_PAUSES = Backoff(1.0, 30.0)


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """An attempt to place a pod that found no node.

    Attributes:
        pod: ``namespace/name``.
        number: Which attempt it was.
        rules: Those that refused some node; none if there was no node, or an error.
        error: It ended in an error, not in a verdict.
    """

    pod: str
    number: int
    message: str
    rules: frozenset[str] = frozenset()
    error: bool = False

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
        self.recorder.record(now, PODS, pod, NORMAL, "Scheduled", message)

    def preempted(self, victim: Pod, preemptor: Pod, node: str, now: float) -> None:
        message = f"Preempted by pod {preemptor.metadata.uid} on node {node}"
        self.recorder.record(now, PODS, victim, NORMAL, "Preempted", message)

    def failed(self, pod: Pod, message: str, now: float) -> None:
        if len(message) > _NOTE_LENGTH:
            message = message[: _NOTE_LENGTH - 4] + " ..."
        self.recorder.record(now, PODS, pod, WARNING, "FailedScheduling", message)


@dataclass(slots=True)
class _Statement:
    """What a pod's status ought to say."""

    number: int
    reason: str
    message: str
    nominated: str | None
    tries: int = 0
    due: float = 0.0
    under_way: bool = False


class Statements:
    """What is to be written into the status of pods that have no node, until it is there.

    Nothing is written before it is asked for: a standby keeps quiet.  A write that fails is repeated
    while it is still true.
    """

    def __init__(self, queue: SchedulingQueue) -> None:
        self._queue = queue
        self._numbers = count(1)
        self._open: dict[Key, _Statement] = {}

    def want(self, record: QueuedPod, reason: str, message: str, nominated: str | None = None) -> None:
        self._open[record.key] = _Statement(next(self._numbers), reason, message, nominated)
        pods = self._queue.pods
        if len(self._open) > 2 * len(pods) + 1024:
            self._open = {key: found for key, found in self._open.items() if key in pods}

    def due(self) -> float | None:
        return min((s.due for s in self._open.values() if not s.under_way), default=None)

    def take(self, now: float) -> list[Action]:
        """The writes that are due."""
        actions: list[Action] = []
        for key, statement in list(self._open.items()):
            if statement.under_way or statement.due > now:
                continue
            record = self._queue.pending(key)
            body = None if record is None else _difference(record, statement, now)
            if record is None or body is None:
                del self._open[key]
                continue
            statement.under_way = True
            actions.append(_patch(record, statement, body))
        return actions

    def done(self, action: Action, outcome: Outcome) -> None:
        key = action.key
        statement = self._open.get(key)
        if statement is None or statement.number != action.attempt:
            return  # something newer is to be said
        if outcome.ok or outcome.missing:
            del self._open[key]
            if record := self._queue.pending(key):
                record.said = (statement.reason, statement.message, statement.nominated)
            return
        statement.tries += 1
        pause = _PAUSES.after(statement.tries)
        statement.due = outcome.at + max(pause, outcome.retry_after or 0.0)
        statement.under_way = False


def _difference(record: QueuedPod, statement: _Statement, now: float) -> dict[str, Any] | None:
    """What has to change in the pod's status; None if nothing."""
    status = record.pod.status
    if record.said is not None:
        reason, message, nominated = record.said
    else:
        reason, message = _stated(record.pod)
        nominated = (status.nominated_node_name if status else None) or None
    change: dict[str, Any] = {}
    if (reason, message) != (statement.reason, statement.message):
        change["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": statement.reason,
                "message": statement.message,
                "lastProbeTime": None,
                "lastTransitionTime": stamp(now),
            }
        ]
    if nominated != statement.nominated:
        change["nominatedNodeName"] = statement.nominated
    return change or None


def _patch(record: QueuedPod, statement: _Statement, change: dict[str, Any]) -> Patch:
    metadata = record.pod.metadata
    # With the version the pod was last seen in: a pod that was bound meanwhile must not be told otherwise.
    guard = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
    return Patch(
        resource=PODS,
        key=record.key,
        body={"metadata": guard, "status": change},
        subresource="status",
        form=STRATEGIC_PATCH,
        purpose=SchedulerPurpose.STATEMENT,
        attempt=statement.number,
    )


def _stated(pod: Pod) -> tuple[str, str]:
    """What the pod's condition says already, from an earlier run."""
    for stated in (pod.status.conditions if pod.status else None) or ():
        if stated.type == "PodScheduled" and stated.status == "False":
            return (stated.reason or "", stated.message or "")
    return ("", "")
