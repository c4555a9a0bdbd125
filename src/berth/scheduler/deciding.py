"""Taking pods from the queue: they get a node, or it is told why not and perhaps room is made."""

from __future__ import annotations

import logging
from dataclasses import replace

from berth.engine.placement.plan import plan_for
from berth.engine.placement.preemption import NEVER, TERMINATING
from berth.kube.pods import is_terminating
from berth.kube.well_known import SCHEDULER_ERROR, UNSCHEDULABLE
from berth.scheduler import metrics as measured
from berth.scheduler.assumptions import Assumed, Phase
from berth.scheduler.desk import Desk
from berth.scheduler.groups import Group
from berth.scheduler.placing import Choice, Placer, Refusal
from berth.scheduler.preempting import Preempting, announcement
from berth.scheduler.waiting import State, Waiting

_log = logging.getLogger(__name__)

# Attempts before other work gets its turn.
BATCH = 64


class Deciding:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.preempting = Preempting(desk.mirror, desk.nominations)
        self._placer = Placer(desk.mirror, desk.nominations)

    def take(self) -> None:
        """Decide on the next pods in line, for as long as bindings can be sent."""
        desk = self._desk
        tried = 0
        while tried < BATCH and (room := desk.settings.in_flight - desk.assumed.in_flight) > 0:
            batch = desk.waiting.next(min(room, BATCH))
            if not batch:
                break
            tried += len(batch)
            group = None if batch[0].group is None else desk.groups.of(batch[0].group)
            members = batch if group is None else list(group.waiting.values())
            try:
                if group is None:
                    self._place(batch)
                else:
                    self._place_group(group)
            except Exception as error:  # noqa: BLE001 - what nobody foresaw about one pod must not stop the others
                _log.exception("an attempt to place %s/%s failed", *batch[0].key)
                self._recover(members, error)

    def _recover(self, members: list[Waiting], error: Exception) -> None:
        """Put everything back as it was before an attempt that went wrong, and try again later."""
        desk = self._desk
        refusal = Refusal(None, f"{type(error).__name__}: {error}", failed=True)
        for waiting in members:
            if waiting.state is not State.TAKEN or waiting.key in desk.assumed.pods:
                continue
            if desk.nominations.node_of(waiting.key) is None:
                desk.mirror.forget(waiting.key, waiting.pod)
            desk.volumes.forget(waiting.key)
            if waiting.key not in desk.waiting.pods:
                desk.waiting.add(waiting)
            desk.groups.wait(waiting)
            self._refuse(waiting, refusal, desk.timer())

    def _place(self, batch: list[Waiting]) -> None:
        """Place pods of one class, best first; once one finds no node none of the others does."""
        desk = self._desk
        refusal: Refusal | None = None
        for waiting in batch:
            started = desk.timer()
            if refusal is None or waiting.nominated is not None:
                decision = self._placer.place(waiting)
                desk.metrics.algorithm_seconds.observe(desk.timer() - started)
                if isinstance(decision, Choice):
                    self._commit(decision)
                    continue
                refusal = decision
            refusal = self._refuse(waiting, refusal, started)

    def _commit(self, choice: Choice) -> None:
        """Count the pod on its node and send the binding."""
        desk = self._desk
        waiting, now = choice.waiting, desk.now
        desk.nominations.replaced(waiting.key)
        desk.mirror.assume(waiting.pod, choice.pod_class, choice.node)
        assumed = Assumed(
            waiting,
            choice.pod_class,
            choice.node,
            waiting.pod.metadata.uid,
            started=now,
            number=next(desk.numbers),
        )
        desk.waiting.drop(waiting.key)
        desk.groups.place(waiting.key, waiting.pod)
        desk.metrics.sample(plan_for(desk.mirror.cluster, choice.pod_class), choice.pod_class.profile)
        work = desk.volumes.begin(waiting, choice)
        if work is not None:
            assumed.phase, assumed.deadline = Phase.VOLUMES, now + desk.settings.volume_timeout
            desk.assumed.add(assumed)
            desk.ready += work
            desk.story.tell(now, waiting.key, f"wait for volumes on {choice.node}")
            return
        desk.assumed.add(assumed)
        desk.ready.append(assumed.bind())
        desk.story.tell(now, waiting.key, f"bind to {choice.node}")

    def _refuse(self, waiting: Waiting, refusal: Refusal, started: float) -> Refusal | None:
        """Tell why a pod has no node; returns what holds for the next of its class, None if that is open."""
        desk = self._desk
        now, profile = desk.now, waiting.pod.spec.scheduler_name or ""
        waiting.attempts += 1
        waiting.tried = now
        waiting.pod_class, waiting.refused_by = refusal.pod_class, refusal.rules
        nominated: str | None = None
        rest: Refusal | None = refusal
        if not (refusal.failed or refusal.settled) and self._may_preempt(profile):
            refusal, nominated, made = self._make_room(waiting, refusal)
            rest = None if made or nominated else refusal
        message = refusal.message
        result = measured.ERROR if refusal.failed else measured.UNSCHEDULABLE
        desk.metrics.ended(result, profile, desk.timer() - started)
        desk.story.tell(now, waiting.key, "found no node", message)
        desk.reports.failed(waiting.pod, message, now)
        desk.statements.want(
            waiting, SCHEDULER_ERROR if refusal.failed else UNSCHEDULABLE, message, nominated
        )
        if refusal.failed:
            desk.waiting.back_off(waiting, now + desk.waiting.backoff.of(waiting.attempts))
        else:
            desk.waiting.stick(waiting, now)
        return rest

    # --- making room --------------------------------------------------------------------------------

    def _may_preempt(self, profile: str) -> bool:
        allowed = self._desk.settings.preemption
        return allowed is None or profile in allowed

    def _make_room(self, waiting: Waiting, refusal: Refusal) -> tuple[Refusal, str | None, bool]:
        """Evict pods of lower priority if that helps: what to tell, the node, and whether it does."""
        desk, pod_class = self._desk, refusal.pod_class
        if pod_class is None:
            return refusal, None, False
        desk.metrics.preemptions.inc()
        decision = self.preempting.decide(waiting, pod_class, desk.now)
        if decision.node is None:
            refusal = replace(refusal, message=f"{refusal.message} {decision.message}", settled=True)
            if decision.message.endswith((TERMINATING, NEVER)):
                return refusal, waiting.nominated, False
            waiting.nominated = None
            desk.nominations.release(waiting.key)
            return refusal, None, False
        desk.metrics.victims.observe(len(decision.victims))
        waiting.nominated = decision.node
        desk.nominations.hold(waiting.key, waiting.pod, pod_class, decision.node)
        desk.story.tell(desk.now, waiting.key, f"make room on {decision.node}", ", ".join(decision.victims))
        for name in decision.victims:
            self._evict(name, waiting, decision.node)
        return refusal, decision.node, True

    def _evict(self, name: str, preemptor: Waiting, node: str) -> None:
        desk = self._desk
        victim = self.preempting.victim(name)
        if victim is None:
            namespace, _, pod = name.partition("/")
            assumed = desk.assumed.get((namespace, pod))
            if assumed is None:
                return
            victim = assumed.waiting.pod
        if is_terminating(victim):
            return
        self.preempting.ask(victim)
        desk.reports.preempted(victim, preemptor.pod, node, desk.now)
        desk.ready.append(announcement(victim, preemptor, desk.now))

    # --- groups -------------------------------------------------------------------------------------

    def _place_group(self, group: Group) -> None:
        desk = self._desk
        members = [w for w in group.waiting.values() if not w.pod.spec.scheduling_gates]
        members.sort(key=lambda w: (-w.priority, w.created))
        for waiting in members:
            desk.waiting.take(waiting)
        obstacle = group.obstacle(len(members))
        if obstacle is not None:
            for waiting in members:
                desk.gate(waiting, UNSCHEDULABLE, obstacle)
            return
        started = desk.timer()
        needed = group.needed
        if needed <= 1:
            for waiting in members:
                self._place([waiting])  # any one of them will do, so they are on their own
            return
        found = self._placer.place_together(members, needed)
        desk.metrics.algorithm_seconds.observe(desk.timer() - started)
        if isinstance(found, Refusal):
            found = _for_group(found, group, len(members))
            for waiting in members:
                self._refuse_member(waiting, found, started)
            return
        placed = {choice.waiting.key for choice in found}
        for choice in found:
            self._commit(choice)
        for waiting in members:
            if waiting.key not in placed:
                self._place([waiting])  # beyond the minimum they are on their own

    def _refuse_member(self, waiting: Waiting, refusal: Refusal, started: float) -> None:
        desk = self._desk
        now = desk.now
        waiting.attempts += 1
        waiting.tried = now
        waiting.refused_by = refusal.rules
        desk.metrics.ended(
            measured.UNSCHEDULABLE, waiting.pod.spec.scheduler_name or "", desk.timer() - started
        )
        desk.story.tell(now, waiting.key, "group found no room", refusal.message)
        desk.reports.failed(waiting.pod, refusal.message, now)
        desk.statements.want(waiting, UNSCHEDULABLE, refusal.message)
        desk.waiting.stick(waiting, now)


def _for_group(refusal: Refusal, group: Group, members: int) -> Refusal:
    message = (
        f"pod group {group.name} needs {group.needed} of {members} pods placed together: {refusal.message}"
    )
    return replace(refusal, message=message)
