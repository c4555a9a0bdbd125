"""Room for pods of higher priority: who goes for them, and how they are told."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from berth.engine.placement.group_placement import NoNode
from berth.engine.placement.preemption import NEVER, TERMINATING, Preemption, PreemptionMemory, preempt
from berth.engine.state.cluster import pod_name
from berth.engine.state.pod_class import PodClass
from berth.kube.api_resources import PODS
from berth.kube.disruption import Budget
from berth.kube.objects import Key, Pod, PodDisruptionBudget
from berth.kube.pods import is_terminating, pod_condition
from berth.kube.selectors import parse_label_selector
from berth.kube.times import seconds_of
from berth.kube.well_known import DELETED, DISRUPTION_TARGET
from berth.machines.contract import Action, Delete, Event, Outcome, Patch
from berth.machines.mirror import pod_key
from berth.machines.requests import status_report
from berth.scheduler.queue import QueuedPod, SchedulerPurpose
from berth.scheduler.reports import timed_condition
from berth.scheduler.state import SchedulerState

REASON = "PreemptionByScheduler"


class Preemptor:
    """Has pods of lower priority deleted where that makes room, once they were told; it places nobody."""

    def __init__(self, state: SchedulerState) -> None:
        self._state = state
        self._budgets: dict[Key, Budget] = {}
        self._memory = PreemptionMemory()
        self._asked: dict[str, str | None] = {}  # victims and their uids, until they are seen to go

    def handle(self, event: Event) -> None:
        old = self._budgets.pop(event.key, None) if event.change == DELETED else self._budgets.get(event.key)
        new = None
        if event.change != DELETED:
            new = self._budgets[event.key] = _budget(event.object)
        if old is None or new is None or replace(old, allowed=new.allowed) != new:
            self._memory = PreemptionMemory()

    def see(self, event: Event) -> None:
        """Take note of pods that go, and of when they started."""
        old, new = event.old, event.object
        if self._asked and (event.change == DELETED or is_terminating(new)):
            self._asked.pop("/".join(event.key), None)
        if old is not None and _start_time(old) != _start_time(new):
            slot = self._state.mirror.cluster.nodes.slot_of.get(new.spec.node_name or "")
            if slot is not None:
                self._memory.forget(slot)

    # --- who goes -----------------------------------------------------------------------------------

    def make_room(self, record: QueuedPod, why: NoNode) -> tuple[NoNode, str | None, bool]:
        """Evict pods of lower priority if that helps: what to tell, the node, and whether it does."""
        state, pod_class = self._state, why.pod_class
        if pod_class is None:
            return why, None, False
        state.metrics.preemptions.inc()
        decision = self._decide(record, pod_class)
        if decision.node is None:
            why = replace(why, message=f"{why.message} {decision.message}".rstrip(), settled=True)
            if decision.message.endswith((TERMINATING, NEVER)):
                return why, record.nominated, False
            record.nominated = None
            state.nominations.release(record.key)
            return why, None, False
        state.metrics.victims.observe(len(decision.victims))
        record.nominated = decision.node
        state.nominations.hold(record.key, record.pod, pod_class, decision.node)
        for name in decision.victims:
            self._evict(name, record, decision.node)
        if pod_class.options.version.preemption_told:
            why = replace(why, message=f"{why.message} {decision.found}")
        return why, decision.node, True

    def _decide(self, record: QueuedPod, pod_class: PodClass) -> Preemption:
        """Whether evicting pods of lower priority would help, and which."""
        state = self._state
        if self._awaits_victims(record.nominated):
            return Preemption(None, message=f"preemption: {TERMINATING}")
        with state.nominations.as_seen_by(record.key, record.priority):
            return preempt(
                state.mirror.cluster,
                pod_class,
                budgets=list(self._budgets.values()),
                started=self._started,
                nominated_node=record.nominated,
                preempted=self._preempted(record.nominated),
                memory=self._memory,
            )

    def _evict(self, name: str, preemptor: QueuedPod, node: str) -> None:
        state = self._state
        victim = state.mirror.pod(name)
        if victim is None and (assumed := state.queue.assumed.get(pod_key(name))) is not None:
            victim = assumed.pod
        if victim is None or is_terminating(victim):
            return
        self._asked[pod_name(victim)] = victim.metadata.uid
        state.reports.preempted(victim, preemptor.pod, node, state.now)
        state.ready.append(_disruption_condition(victim, preemptor, state.now))

    def done(self, action: Action, outcome: Outcome) -> None:
        """A victim was told, or deleted; if it cannot be told it goes all the same."""
        state = self._state
        preemptor = state.queue.pending(action.key)
        if preemptor is None or preemptor.number != action.attempt or preemptor.nominated is None:
            return  # nobody needs the room any more
        if isinstance(action, Patch):
            if not outcome.missing:
                told = action.body["metadata"] if isinstance(action.body, dict) else {}
                removal = Delete(
                    resource=PODS,
                    key=preemptor.key,
                    at=(action.namespace, action.name),
                    uid=told.get("uid"),
                    purpose=SchedulerPurpose.PREEMPTION,
                    attempt=preemptor.number,
                )
                state.ready.append(removal)
        elif not (outcome.ok or outcome.missing or outcome.conflict or outcome.code == 403):
            state.retries.append((outcome.again(1.0), action))

    # --- what is known ------------------------------------------------------------------------------

    def _awaits_victims(self, node: str | None) -> bool:
        """Whether a pod of the node was asked to go and has not begun to."""
        on_node = self._pods_on(node) if self._asked else ()
        return any(self._asked.get(name, "") == pod.metadata.uid for name, pod in on_node)

    def _pods_on(self, node: str | None) -> Iterator[tuple[str, Pod]]:
        cluster = self._state.mirror.cluster
        for name, _ in cluster.pods_on(node) if node in cluster.nodes.slot_of else ():
            if (pod := self._state.mirror.pod(name)) is not None:
                yield name, pod

    def _preempted(self, node: str | None) -> list[str]:
        """The pods on a node that are going because they were asked to make room."""
        return [name for name, pod in self._pods_on(node) if _was_preempted(pod)]

    def _started(self, name: str) -> float:
        pod = self._state.mirror.pod(name)
        return (seconds_of(_start_time(pod)) if pod is not None else None) or math.inf


def _budget(budget: PodDisruptionBudget) -> Budget:
    return Budget(
        namespace=budget.metadata.namespace or "",
        selector=parse_label_selector(budget.spec.selector),
        allowed=(budget.status and budget.status.disruptions_allowed) or 0,
        disrupted=frozenset((budget.status and budget.status.disrupted_pods) or ()),
    )


def _start_time(pod: Pod) -> str | None:
    return pod.status.start_time if pod.status is not None else None


def _was_preempted(pod: Pod) -> bool:
    told = pod_condition(pod, DISRUPTION_TARGET)
    return told is not None and told.reason == REASON


def _disruption_condition(victim: Pod, preemptor: QueuedPod, now: float) -> Patch:
    """Tell the victim's owner that the pod was not at fault, before it goes."""
    message = f"{preemptor.pod.spec.scheduler_name}: preempting to accommodate a higher priority pod"
    change = {"conditions": [timed_condition(DISRUPTION_TARGET, "True", REASON, message, now)]}
    purpose, number = SchedulerPurpose.PREEMPTION, preemptor.number
    return status_report(PODS, victim, change, key=preemptor.key, purpose=purpose, attempt=number)
