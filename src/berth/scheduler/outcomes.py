"""What became of the scheduler's requests, and what follows from it."""

from __future__ import annotations

import msgspec

from berth.kube.objects import Pod
from berth.machines.contract import Action, Bind, Get, Outcome, Patch
from berth.machines.recorder import EVENT
from berth.scheduler.assumptions import REPEATS, Assumed, Phase, is_uncertain
from berth.scheduler.desk import Desk
from berth.scheduler.preempting import removal
from berth.scheduler.waiting import SchedulerPurpose


class Outcomes:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def done(self, action: Action, outcome: Outcome) -> None:
        desk = self._desk
        desk.now = max(desk.now, outcome.at)
        if isinstance(action, Bind):
            self._binding_done(action, outcome)
        elif isinstance(action, Get):
            self._asked(action, outcome)
        elif action.purpose is EVENT:
            desk.reports.recorder.done(action, outcome)
        elif action.purpose is SchedulerPurpose.STATEMENT:
            desk.statements.done(action, outcome)
        elif action.purpose is SchedulerPurpose.PREEMPTION:
            self._victim_asked(action, outcome)
        elif not outcome.ok:
            assumed = desk.assumed.get(action.key)
            if assumed is not None and assumed.phase is Phase.VOLUMES:
                desk.retract(assumed, outcome.message, outcome.at)

    def _victim_asked(self, action: Action, outcome: Outcome) -> None:
        """A victim is told first and then deleted; if it cannot be told it goes all the same."""
        desk = self._desk
        preemptor = desk.waiting.pods.get(action.key)
        if preemptor is None or preemptor.number != action.attempt or preemptor.nominated is None:
            return  # nobody needs the room any more
        if isinstance(action, Patch):
            if not outcome.missing:
                desk.ready.append(removal(action, preemptor))
        elif not (outcome.ok or outcome.missing or outcome.conflict or outcome.code == 403):
            desk.story.tell(outcome.at, action.name, "was not evicted", outcome.message)
            desk.retries.append((outcome.at + max(1.0, outcome.retry_after or 0.0), action))

    def _binding_done(self, action: Bind, outcome: Outcome) -> None:
        desk = self._desk
        assumed = desk.assumed.of(action)
        if assumed is None:
            return  # it was seen on its node, or it is gone
        if outcome.ok:
            desk.assumed.bound(assumed)
            desk.count_placed(assumed, assumed.waiting.pod)
            return
        desk.story.tell(outcome.at, assumed.key, f"failed to bind to {action.node}", outcome.message)
        if is_uncertain(outcome):
            assumed.phase = Phase.UNSURE
            assumed.pause(outcome.at, outcome.retry_after)
        elif outcome.code == 429:
            # It was not made, but the decision stands: to move the pod now would undo what others rely on.
            assumed.pause(outcome.at, outcome.retry_after)
        elif outcome.missing:
            # The pod is gone, most likely; a proxy that answers for nobody would say the same.
            assumed.phase = Phase.UNSURE
            assumed.pause(outcome.at)
        else:
            desk.retract(assumed, outcome.message, outcome.at, wait=outcome.retry_after)

    def _asked(self, action: Get, outcome: Outcome) -> None:
        """Whether a pod whose binding was left open is bound after all."""
        desk = self._desk
        assumed = desk.assumed.of(action)
        if assumed is None:
            return
        if outcome.missing:
            desk.drop_assumed(assumed)
            return
        if not outcome.ok:
            assumed.pause(outcome.at, outcome.retry_after)
            return
        pod = msgspec.json.decode(outcome.body, type=Pod)
        gone = pod.metadata.deletion_timestamp is not None and not pod.spec.node_name
        if pod.metadata.uid != assumed.uid or gone:
            desk.drop_assumed(assumed)  # another pod of that name; the watch brings it
        elif pod.spec.node_name:
            self._bound_after_all(assumed, pod.spec.node_name)
        elif assumed.repeats > REPEATS or assumed.node not in desk.mirror.cluster.nodes.slot_of:
            desk.retract(assumed, "the binding failed again and again", outcome.at)
        else:
            desk.ready.append(assumed.bind())

    def _bound_after_all(self, assumed: Assumed, node: str) -> None:
        """The answer was newer than what is watched, so the pod stays assumed until the watch says so."""
        desk = self._desk
        if node != assumed.node:
            assumed.node = node  # somebody else was faster
            desk.mirror.assume(assumed.waiting.pod, assumed.pod_class, node)
        else:
            desk.count_placed(assumed, assumed.waiting.pod)
        desk.assumed.bound(assumed)
