"""Taking pods from the queue: they get a node, or it is told why not and perhaps room is made."""

from __future__ import annotations

import logging
from dataclasses import replace

from berth.engine.placement.evaluation import NO_NODES, fit_error
from berth.engine.placement.plan import Plan, SchedulingError, plan_for
from berth.engine.placement.together import NoNode, place_together
from berth.engine.rules import TOPOLOGY_RULES
from berth.engine.rules.dynamic_resources import reserves_claims
from berth.engine.rules.volume_binding import binds_volumes
from berth.engine.state.columns import Int32Array
from berth.engine.state.pod_class import PodClass
from berth.kube.affinity.annotations import AnnotationError
from berth.kube.well_known import SCHEDULER_ERROR, UNSCHEDULABLE
from berth.machines.mirror import Mirror
from berth.scheduler import metrics as measured
from berth.scheduler.binding_cycle import BindingCycle
from berth.scheduler.groups import Group
from berth.scheduler.preemption import Preemptor
from berth.scheduler.preparing import Choice, Nominations
from berth.scheduler.queue import QueuedPod, SchedulingPhase
from berth.scheduler.reports import FailedAttempt
from berth.scheduler.state import SchedulerState

_log = logging.getLogger(__name__)

# Attempts before other work gets its turn.
BATCH = 64


class SchedulingCycle:
    """Finds nodes for pods, one class of pods or one group at a time."""

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
            if state.nominations.node_of(record.key) is None:
                state.mirror.forget(record.key, record.pod)
            state.volumes.forget(record.key)
            state.ready += state.reservations.give_back(record.key)
            state.groups.wait(record)
            self._reject(record, why, state.timer())

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
                    if state.founding.clears(record, decision.pod_class, state.now, state.ready):
                        self._binding.begin(decision)
                    continue
                why = decision
            told, why = why, self._reject(record, why, started)
        return told

    def _reject(self, record: QueuedPod, why: NoNode, started: float) -> NoNode | None:
        """Tell why a pod has no node; returns what holds for the next of its class, None if that is open."""
        state = self._state
        record.pod_class = why.pod_class
        nominated: str | None = None
        rest: NoNode | None = why
        if not (why.failed or why.settled) and self._may_preempt(record.profile):
            why, nominated, made = self._preemptor.make_room(record, why)
            rest = None if made or nominated else why
        self._tell(record, why, started, "found no node", nominated)
        if why.failed:
            state.queue.back_off(record, state.now + state.queue.backoff.after(record.attempts))
        else:
            state.queue.set_aside(record, state.now)
        return rest

    def _may_preempt(self, profile: str) -> bool:
        allowed = self._state.settings.preemption
        return allowed is None or profile in allowed

    def _tell(
        self, record: QueuedPod, why: NoNode, started: float, what: str, nominated: str | None = None
    ) -> None:
        state = self._state
        record.attempts += 1
        record.tried = state.now
        record.rejected_by = why.rules
        result = measured.ERROR if why.failed else measured.UNSCHEDULABLE
        state.metrics.ended(result, record.profile, state.timer() - started)
        state.story.tell(state.now, record.key, what, why.message)
        state.reports.failed(record.pod, why.message, state.now)
        name = "/".join(record.key)
        state.reports.tell(FailedAttempt(name, record.attempts, why.message, why.rules, why.failed))
        if why.pod_class is not None and why.rules:
            state.metrics.sample(plan_for(state.mirror.cluster, why.pod_class), record.profile)
        if why.pod_class is not None and why.pod_class.device_claims:
            self._count_unallocated(why.pod_class)
        reason = SCHEDULER_ERROR if why.failed else UNSCHEDULABLE
        state.statements.want(record, reason, why.message, nominated)

    def _count_unallocated(self, pod_class: PodClass) -> None:
        index = self._state.mirror.cluster.resource_claims
        if reserves_claims(pod_class) and index.needs_of(pod_class).unallocated:
            self._state.metrics.unallocated.labels(pod_class.profile).inc()

    # --- groups -------------------------------------------------------------------------------------

    def _place_group(self, group: Group) -> None:
        state = self._state
        members = [r for r in group.pending.values() if not r.pod.spec.scheduling_gates]
        members.sort(key=lambda r: (-r.priority, r.created))
        for record in members:
            state.queue.take(record)
        obstacle = group.obstacle(len(members))
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
            found = _for_group(found, group, len(members))
            for record in members:
                self._tell(record, found, started, "group found no room")
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
            if pod_class is None or _seeks_any(pod_class, cleared):
                continue
            if not state.founding.clears(record, pod_class, state.now, state.ready):
                for other in members:
                    state.queue.gate(other)
                return False
            cleared.append(pod_class)
        return True


def _seeks_any(pod_class: PodClass, others: list[PodClass]) -> bool:
    return any(rule.seeks(pod_class, other) for other in others for rule in TOPOLOGY_RULES)


def _for_group(why: NoNode, group: Group, members: int) -> NoNode:
    return replace(why, message=group.state.no_room(members, why.message), failed=False)


# --- questions to the engine ----------------------------------------------------------------------


class Placer:
    """Asks the engine for nodes, with what is nominated taken into account."""

    def __init__(self, mirror: Mirror, nominations: Nominations) -> None:
        self._mirror = mirror
        self._nominations = nominations
        self.cluster = mirror.cluster

    def place(self, record: QueuedPod) -> Choice | NoNode:
        """The best node for a pod, or why there is none."""
        try:
            pod_class = self.cluster.class_of(record.pod)
        except AnnotationError as error:
            return NoNode(None, str(error), failed=True)
        try:
            with self._nominations.as_seen_by(record.key, record.priority):
                slot = self._choose(record, pod_class)
        except SchedulingError as error:
            return NoNode(pod_class, str(error), failed=True)
        if slot is None:
            return self._unplaced(record, pod_class)
        return self.at(record, pod_class, slot)

    def at(self, record: QueuedPod, pod_class: PodClass, slot: int) -> Choice:
        node = self.cluster.nodes.names[slot] or ""
        if not binds_volumes(pod_class):
            return Choice(record, pod_class, node)
        return Choice(record, pod_class, node, self.cluster.volumes.decisions(pod_class, node))

    def _choose(self, record: QueuedPod, pod_class: PodClass) -> int | None:
        if not self.cluster.nodes.live:
            return None
        plan = plan_for(self.cluster, pod_class)
        also = self._unreserved(plan) if self._nominations else None
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

    def _unplaced(self, record: QueuedPod, pod_class: PodClass) -> NoNode:
        if not self.cluster.nodes.live:
            return NoNode(pod_class, NO_NODES)
        with self._nominations.as_seen_by(record.key, record.priority):
            return NoNode(pod_class, *fit_error(plan_for(self.cluster, pod_class)))

    def class_of(self, member: QueuedPod) -> PodClass | None:
        return self._mirror.class_of(member.pod)

    def count(self, choice: Choice) -> None:
        self._mirror.suppose(choice.record.pod, choice.pod_class, choice.node, choice.volumes)

    def take_back(self, choice: Choice) -> None:
        self._mirror.withdraw(choice.record.pod)
