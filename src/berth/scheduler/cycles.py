"""Cycles of pods from the queue: they get a node and are bound, or are told why not, and room may be made."""

from __future__ import annotations

import logging
from dataclasses import replace

from berth.engine.placement.evaluation import NO_NODES, fit_error
from berth.engine.placement.group_placement import NoNode, place_together
from berth.engine.placement.plan import Plan, SchedulingError, plan_for
from berth.engine.rules import TOPOLOGY_RULES
from berth.engine.rules.dynamic_resources import reserves_claims
from berth.engine.rules.volume_binding import binds_volumes
from berth.engine.state.columns import Int32Array
from berth.engine.state.pod_class import PodClass
from berth.kube.affinity.annotations import AnnotationError
from berth.kube.api_resources import PODS
from berth.kube.objects import Key, Pod
from berth.kube.well_known import SCHEDULER_ERROR, UNSCHEDULABLE
from berth.machines.contract import Action, Bind, Get, Outcome
from berth.machines.mirror import Mirror
from berth.scheduler.groups import Group, seeks_any
from berth.scheduler.preemption import Preemptor
from berth.scheduler.queue import QueuedPod, SchedulerPurpose, SchedulingPhase
from berth.scheduler.reservations import Choice, Nominations
from berth.scheduler.state import SchedulerState

_log = logging.getLogger(__name__)

# Attempts before other work gets its turn.
BATCH = 64


class SchedulingCycle:
    """Finds nodes for pods, one class of pods or one group at a time; it sends no binding itself."""

    def __init__(self, state: SchedulerState, binding: BindingCycle, preemptor: Preemptor) -> None:
        self._state = state
        self._binding = binding
        self._preemptor = preemptor
        self._placer = Placer(state.mirror, state.nominations)

    def run(self) -> None:
        """Decide on the next pods in line, for as long as bindings can be sent."""
        state = self._state
        tried = 0
        while tried < BATCH and (room := state.settings.in_flight - state.queue.in_flight) > 0:
            batch = state.queue.next(min(room, BATCH))
            if not batch:
                break
            tried += len(batch)
            group = None if batch[0].group is None else state.groups.of(batch[0].group)
            members = batch if group is None else list(group.pending.values())
            try:
                if group is None:
                    self._place(batch)
                else:
                    self._place_group(group)
            except Exception as error:  # noqa: BLE001 - what nobody foresaw about one pod must not stop the others
                _log.exception("an attempt to place %s/%s failed", *batch[0].key)
                self._recover(members, error)
                if group is not None:
                    state.group_conditions.not_placed(group, SCHEDULER_ERROR, str(error))

    def _recover(self, members: list[QueuedPod], error: Exception) -> None:
        """Put everything back as it was before an attempt that went wrong, and try again later."""
        state = self._state
        why = NoNode(None, f"{type(error).__name__}: {error}", failed=True)
        for record in members:
            if record.phase is not SchedulingPhase.SCHEDULING:
                continue
            state.release(record.key, record.pod)
            state.groups.wait(record)
            self._report_unplaced(record, why, state.timer())

    # --- one by one ---------------------------------------------------------------------------------

    def _place(self, batch: list[QueuedPod]) -> NoNode | None:
        """Place pods of one class, best first; once one finds no node none of the others does.

        Returns why the last of those without one has none.
        """
        state = self._state
        why: NoNode | None = None
        told: NoNode | None = None
        for record in batch:
            started = state.timer()
            if why is None or record.nominated is not None:
                decision = self._placer.place(record)
                state.metrics.algorithm_seconds.observe(state.timer() - started)
                if isinstance(decision, Choice):
                    if state.announcements.clears(record, decision.pod_class, state.now, state.ready):
                        self._binding.begin(decision)
                    continue
                why = decision
            told, why = why, self._report_unplaced(record, why, started)
        return told

    def _report_unplaced(self, record: QueuedPod, why: NoNode, started: float) -> NoNode | None:
        """Tell why a pod has no node; returns what holds for the next of its class, None if that is open."""
        state = self._state
        record.pod_class = why.pod_class
        nominated: str | None = None
        rest: NoNode | None = why
        allowed = state.settings.preemption
        if not (why.failed or why.settled) and (allowed is None or record.profile in allowed):
            why, nominated, made = self._preemptor.make_room(record, why)
            rest = None if made or nominated else why
        self._tell(record, why, started, nominated)
        if why.failed:
            state.queue.back_off(record, state.now + state.queue.backoff.after(record.attempts))
        else:
            state.queue.set_aside(record, state.now)
        return rest

    def _tell(self, record: QueuedPod, why: NoNode, started: float, nominated: str | None = None) -> None:
        state = self._state
        record.refused_by = why.rules
        state.failed(record, why.message, state.now, state.timer() - started, why.rules, error=why.failed)
        if (pod_class := why.pod_class) is not None:
            if why.rules:
                state.metrics.sample(plan_for(state.mirror.cluster, pod_class), record.profile)
            claims = state.mirror.cluster.resource_claims
            if reserves_claims(pod_class) and claims.needs_of(pod_class).unallocated:
                state.metrics.unallocated.labels(pod_class.profile).inc()
        reason = SCHEDULER_ERROR if why.failed else UNSCHEDULABLE
        state.pod_conditions.want(record, reason, why.message, nominated)

    # --- groups -------------------------------------------------------------------------------------

    def _place_group(self, group: Group) -> None:
        state = self._state
        members, obstacle = group.candidates()
        members.sort(key=lambda r: (-r.priority, r.created))
        for record in members:
            state.queue.take(record)
        if obstacle is not None:
            for record in members:
                state.gate(record, UNSCHEDULABLE, obstacle)
            return
        started = state.timer()
        needed = group.state.needed
        if needed <= 1:
            self._place_each(group, members)
            return
        if not self._may_found(members):
            return
        found = place_together(self._placer, members, needed)
        state.metrics.algorithm_seconds.observe(state.timer() - started)
        if isinstance(found, NoNode):
            message = group.state.no_room(len(members), found.message)
            found = replace(found, message=message, failed=False)
            for record in members:
                self._tell(record, found, started)
                state.queue.set_aside(record, state.now)
            state.group_conditions.not_placed(group, UNSCHEDULABLE, found.message)
            return
        state.group_conditions.placed(group)
        placed = {choice.record.key for choice in found}
        for choice in found:
            self._binding.begin(choice)
        for record in members:
            if record.key not in placed:
                self._place([record])  # beyond the minimum they are on their own

    def _place_each(self, group: Group, members: list[QueuedPod]) -> None:
        """Any one of them will do, so they are on their own."""
        conditions = self._state.group_conditions
        whys = [why for record in members if (why := self._place([record])) is not None]
        if group.is_placed:
            conditions.placed(group)
        elif whys:
            reason = SCHEDULER_ERROR if whys[0].failed else UNSCHEDULABLE
            conditions.not_placed(group, reason, whys[0].message)

    def _may_found(self, members: list[QueuedPod]) -> bool:
        """Whether none of them starts a group that somebody else may be starting; else all wait."""
        state = self._state
        cleared: list[PodClass] = []  # those that want one of them go where it goes
        for record in members:
            pod_class = self._placer.class_of(record)
            if pod_class is None or seeks_any(pod_class, cleared):
                continue
            if not state.announcements.clears(record, pod_class, state.now, state.ready):
                for other in members:
                    state.queue.gate(other)
                return False
            cleared.append(pod_class)
        return True


# --- questions to the engine ----------------------------------------------------------------------


class Placer:
    """Asks the engine for nodes, with what is nominated taken into account; it binds nobody."""

    def __init__(self, mirror: Mirror, nominations: Nominations) -> None:
        self._mirror = mirror
        self._nominations = nominations
        self.cluster = mirror.cluster

    def place(self, record: QueuedPod) -> Choice | NoNode:
        """The best node for a pod, or why there is none."""
        try:
            pod_class = self.cluster.class_of(record.pod, known=record.pod_class)
        except AnnotationError as error:
            return NoNode(None, str(error), failed=True)
        if not self.cluster.nodes.live:
            return NoNode(pod_class, NO_NODES)
        try:
            with self._nominations.as_seen_by(record.key, record.priority):
                slot = self._choose(record, pod_class)
                if slot is None:
                    return NoNode(pod_class, *fit_error(plan_for(self.cluster, pod_class)))
        except SchedulingError as error:
            return NoNode(pod_class, str(error), failed=True)
        return self.at(record, pod_class, slot)

    def at(self, record: QueuedPod, pod_class: PodClass, slot: int) -> Choice:
        node = self.cluster.nodes.names[slot] or ""
        if not binds_volumes(pod_class):
            return Choice(record, pod_class, node)
        return Choice(record, pod_class, node, self.cluster.volumes.decisions(pod_class, node))

    def _choose(self, record: QueuedPod, pod_class: PodClass) -> int | None:
        plan = plan_for(self.cluster, pod_class)
        also = self._unreserved(plan) if self._nominations.pods else None
        if record.nominated is not None:
            slot = self.cluster.nodes.slot_of.get(record.nominated)
            if slot is not None and not (plan.blocked()[slot] or (also is not None and also[slot])):
                return slot
        return plan.choose(also=also)

    def _unreserved(self, plan: Plan) -> Int32Array | None:
        """What is blocked while no reservation counts: a pod must not rely on a peer still to come."""
        pod_class = plan.pod_class
        if not any(rule.relies_on_peers(pod_class) for rule in TOPOLOGY_RULES):
            return None
        with self._nominations.without_any():
            return plan.blocked().copy()

    def class_of(self, member: QueuedPod) -> PodClass | None:
        return self._mirror.class_of(member.pod)

    def count(self, choice: Choice) -> None:
        self._mirror.suppose(choice.record.pod, choice.pod_class, choice.node, choice.volumes)

    def take_back(self, choice: Choice) -> None:
        self._mirror.withdraw(choice.record.pod)


# --- from the choice of a node to the binding: volumes and claims, the request, what became of it ----

# So often the same binding is repeated before another node is tried.
REPEATS = 12


class BindingCycle:
    """Binds pods that were given a node, once volumes and claims are ready; it chooses no node."""

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
        state.ready += [*(volumes or ()), *(claims or ())]
        waits = [] if volumes is None else [state.settings.volume_timeout]
        waits += [] if claims is None else [state.settings.device_timeout]
        deadline = now + max(waits) if waits else None
        state.queue.assume(record, choice.pod_class, choice.node, now, deadline)
        if not waits:
            self._send(record)

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
                self._bind_if_reserved(key)
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
        state = self._state
        if action.purpose is SchedulerPurpose.RETURN:
            more = state.reservations.returned(action, outcome)
            if more is None:
                state.retries.append((outcome.again(1.0), action))
            else:
                state.ready += more
            return
        record = state.queue.bound_by(action)
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
            state.retract(record, outcome.message, outcome.at)

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

    def _answered(self, record: QueuedPod, action: Bind, outcome: Outcome) -> None:
        state = self._state
        if outcome.ok:
            state.queue.confirm(record)
            state.count_placed(record, action.node, record.pod)
            return
        if outcome.code == 429:
            # It was not made, but the decision stands: to move the pod now would undo what others rely on.
            state.queue.put_off(record, outcome)
        elif outcome.busy or outcome.conflict or outcome.missing:
            # It may have been made all the same.  A pod that is missing is gone, most likely; a proxy that
            # answers for nobody would say the same.
            state.queue.doubt(record, outcome)
        else:
            state.retract(record, outcome.message, outcome.at, wait=outcome.retry_after)

    def _looked_up(self, record: QueuedPod, outcome: Outcome) -> None:
        """Whether a pod whose binding was left open is bound after all."""
        state = self._state
        if outcome.missing:
            state.forget(record.key, record.pod)
            return
        if not outcome.ok:
            state.queue.put_off(record, outcome)
            return
        pod = outcome.decode(Pod)
        gone = pod.metadata.deletion_timestamp is not None and not pod.spec.node_name
        if pod.metadata.uid != record.pod.metadata.uid or gone:
            state.forget(record.key, record.pod)  # another pod of that name; the watch brings it
        elif pod.spec.node_name:
            self._bound_after_all(record, pod.spec.node_name)
        elif state.announcements.is_late(record.key, outcome.at):
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
