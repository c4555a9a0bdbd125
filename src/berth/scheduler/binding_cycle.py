"""From the choice of a node to the binding: volumes and claims, then the request, then what became of it."""

from __future__ import annotations

import msgspec

from berth.engine.placement.plan import plan_for
from berth.kube.api_resources import PODS
from berth.kube.objects import Key, Pod
from berth.machines.contract import Action, Bind, Get, Outcome
from berth.scheduler.preparing import Choice
from berth.scheduler.queue import QueuedPod, SchedulerPurpose, SchedulingPhase
from berth.scheduler.state import SchedulerState

# So often the same binding is repeated before another node is tried.
REPEATS = 12


class BindingCycle:
    """Takes pods that were given a node to the watched fact that they are there."""

    def __init__(self, state: SchedulerState) -> None:
        self._state = state

    # --- sending ------------------------------------------------------------------------------------

    def begin(self, choice: Choice) -> None:
        """Count the pod on its node and send the binding, or see to its volumes and claims first."""
        state, record, now = self._state, choice.record, self._state.now
        state.nominations.replaced(record.key)
        state.mirror.assume(record.pod, choice.pod_class, choice.node)
        state.groups.place(record.key, record.pod)
        state.metrics.sample(plan_for(state.mirror.cluster, choice.pod_class), choice.pod_class.profile)
        volumes, claims = state.volumes.begin(choice), state.reservations.begin(choice)
        waits: dict[str, float] = {}
        if volumes is not None:
            waits["volumes"] = state.settings.volume_timeout
            state.ready += volumes
        if claims is not None:
            waits["claims"] = state.settings.device_timeout
            state.ready += claims
        deadline = now + max(waits.values()) if waits else None
        state.queue.assume(record, choice.pod_class, choice.node, now, deadline)
        if waits:
            state.story.tell(now, record.key, f"wait for {' and '.join(waits)} on {choice.node}")
        else:
            self._send(record)
            state.story.tell(now, record.key, f"bind to {choice.node}")

    def resume(self) -> None:
        """Send again what was put off, unless the node is gone."""
        for record in self._state.queue.rested(self._state.now):
            if record.phase is not SchedulingPhase.BINDING:
                self._look_up(record)
            elif self._has_node(record):
                self._bind(record)

    def _bind(self, record: QueuedPod) -> None:
        self._state.queue.bind(record)
        self._send(record)

    def _send(self, record: QueuedPod) -> None:
        self._state.ready.append(
            Bind(
                resource=PODS,
                key=record.key,
                purpose=SchedulerPurpose.BIND,
                attempt=record.attempt,
                node=record.node or "",
                uid=record.pod.metadata.uid,
            )
        )

    def _look_up(self, record: QueuedPod) -> None:
        self._state.queue.look_up(record)
        self._state.ready.append(
            Get(resource=PODS, key=record.key, purpose=SchedulerPurpose.LOOK_UP, attempt=record.attempt)
        )

    def _has_node(self, record: QueuedPod) -> bool:
        """Whether the node is still there; without it the pod is tried anew."""
        if record.node in self._state.mirror.cluster.nodes.slot_of:
            return True
        self._state.retract(record, f'node "{record.node}" not found', self._state.now)
        return False

    # --- volumes ------------------------------------------------------------------------------------

    def claims_changed(self) -> None:
        """Bind the pods whose claims are bound by now, and give up where they cannot be."""
        state = self._state
        for key in state.volumes.ready():
            if self._has_node(state.queue.assumed[key]):
                state.volumes.forget(key)
                if key in state.reservations.pods:
                    self._bind_if_reserved(key)
                else:
                    self._bind(state.queue.assumed[key])
        for key, why in state.volumes.failed():
            state.retract(state.queue.assumed[key], why, state.now)

    def devices_changed(self) -> None:
        """Bind the pods whose devices are ready by now, and give up where they cannot be."""
        state = self._state
        for key, why in state.reservations.failed():
            state.retract(state.queue.assumed[key], why, state.now)
        for key in list(state.reservations.pods):
            self._bind_if_reserved(key)

    def _bind_if_reserved(self, key: Key) -> None:
        state = self._state
        if key in state.volumes.pods or not state.reservations.is_ready(key):
            return
        record = state.queue.assumed[key]
        if self._has_node(record):
            state.reservations.bind(key)
            self._bind(record)

    def give_up_late(self) -> None:
        """Try pods anew that have waited too long for their volumes or devices."""
        state = self._state
        for record in state.queue.late(state.now):
            why = "binding volumes: timed out waiting for the condition"
            if record.key not in state.volumes.pods:
                why = state.reservations.late(record.key) or why
            state.retract(record, why, state.now)

    # --- answers ------------------------------------------------------------------------------------

    def done(self, action: Action, outcome: Outcome) -> None:
        """Learn what became of a binding, of the question for it, or of what comes before it."""
        if action.purpose is SchedulerPurpose.RETURN:
            self._returned(action, outcome)
            return
        record = self._state.queue.bound_by(action)
        if action.purpose is SchedulerPurpose.RESERVATION:
            self._reserved(record, action, outcome)
            return
        if record is None:
            return  # it was seen on its node, or it is gone
        if isinstance(action, Bind):
            self._answered(record, action, outcome)
        elif isinstance(action, Get):
            self._looked_up(record, outcome)
        elif not outcome.ok and record.phase is SchedulingPhase.VOLUMES:
            self._state.retract(record, outcome.message, outcome.at)

    def _reserved(self, record: QueuedPod | None, action: Action, outcome: Outcome) -> None:
        state = self._state
        why, more = state.reservations.reserved(action, outcome)
        state.ready += more
        if record is None or record.phase is not SchedulingPhase.VOLUMES:
            return
        if why is not None:
            state.retract(record, why, outcome.at, wait=outcome.retry_after)
        else:
            self._bind_if_reserved(record.key)

    def _returned(self, action: Action, outcome: Outcome) -> None:
        more = self._state.reservations.returned(action, outcome)
        if more is None:
            self._state.retries.append((outcome.again(1.0), action))
        else:
            self._state.ready += more

    def _answered(self, record: QueuedPod, action: Bind, outcome: Outcome) -> None:
        state = self._state
        if outcome.ok:
            state.queue.confirm(record)
            state.count_placed(record, action.node, record.pod)
            return
        state.story.tell(outcome.at, record.key, f"failed to bind to {action.node}", outcome.message)
        if _is_uncertain(outcome):
            state.queue.doubt(record, outcome.at, outcome.retry_after)
        elif outcome.code == 429:
            # It was not made, but the decision stands: to move the pod now would undo what others rely on.
            state.queue.put_off(record, outcome.at, outcome.retry_after)
        elif outcome.missing:
            # The pod is gone, most likely; a proxy that answers for nobody would say the same.
            state.queue.doubt(record, outcome.at)
        else:
            state.retract(record, outcome.message, outcome.at, wait=outcome.retry_after)

    def _looked_up(self, record: QueuedPod, outcome: Outcome) -> None:
        """Whether a pod whose binding was left open is bound after all."""
        state = self._state
        if outcome.missing:
            state.forget(record.key, record.pod)
            return
        if not outcome.ok:
            state.queue.put_off(record, outcome.at, outcome.retry_after)
            return
        pod = msgspec.json.decode(outcome.body, type=Pod)
        gone = pod.metadata.deletion_timestamp is not None and not pod.spec.node_name
        if pod.metadata.uid != record.pod.metadata.uid or gone:
            state.forget(record.key, record.pod)  # another pod of that name; the watch brings it
        elif pod.spec.node_name:
            self._bound_after_all(record, pod.spec.node_name)
        elif state.founding.is_late(record.key, outcome.at):
            state.retract(record, "another scheduler may start the group by now", outcome.at)
        elif record.repeats > REPEATS or record.node not in state.mirror.cluster.nodes.slot_of:
            state.retract(record, "the binding failed again and again", outcome.at)
        else:
            self._bind(record)

    def _bound_after_all(self, record: QueuedPod, node: str) -> None:
        """The answer was newer than what is watched, so the pod stays assumed until the watch says so."""
        state = self._state
        if node == record.node:
            state.count_placed(record, node, record.pod)
        elif record.pod_class is not None:
            record.node = node  # somebody else was faster
            state.mirror.assume(record.pod, record.pod_class, node)
        state.queue.confirm(record)


def _is_uncertain(outcome: Outcome) -> bool:
    """Whether a binding may have been made all the same."""
    return outcome.code == 0 or outcome.code >= 500 or outcome.conflict
