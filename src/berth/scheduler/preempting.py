"""Making room for a pod of higher priority: who goes, and how they are told."""

from __future__ import annotations

from collections.abc import Callable

from berth.engine.placement.preemption import TERMINATING, Budget, Preemption, preempt
from berth.engine.state.cluster import pod_name
from berth.engine.state.pod_class import PodClass
from berth.kube.api_resources import PODS
from berth.kube.objects import Key, Pod, PodDisruptionBudget
from berth.kube.pods import is_terminating
from berth.kube.selectors import Selector, parse_label_selector
from berth.kube.times import seconds, stamp
from berth.kube.well_known import DELETED, STRATEGIC_PATCH
from berth.machines.contract import Delete, Event, Patch
from berth.machines.mirror import Mirror
from berth.scheduler.nominations import Nominations
from berth.scheduler.waiting import SchedulerPurpose, Waiting

REASON = "PreemptionByScheduler"


class Preempting:
    def __init__(self, mirror: Mirror, nominations: Nominations) -> None:
        self._mirror = mirror
        self._nominations = nominations
        self._budgets: dict[Key, tuple[PodDisruptionBudget, Selector]] = {}
        self._asked: dict[str, str | None] = {}  # victims and their uids, until they are seen to go

    def handle(self, event: Event) -> None:
        if event.change == DELETED:
            self._budgets.pop(event.key, None)
        else:
            budget = event.object
            self._budgets[event.key] = (budget, parse_label_selector(budget.spec.selector))

    def decide(self, waiting: Waiting, pod_class: PodClass, now: float) -> Preemption:
        """Whether evicting pods of lower priority would help, and which."""
        if self._awaits_victims(waiting.nominated):
            return Preemption(None, message=f"preemption: {TERMINATING}")
        with self._nominations.as_seen_by(waiting.key, waiting.priority):
            return preempt(
                self._mirror.cluster,
                pod_class,
                budgets=self._current_budgets(),
                started=self._started(now),
                nominated_node=waiting.nominated,
                preempted=self._preempted(waiting.nominated),
            )

    def ask(self, victim: Pod) -> None:
        """Remember that a pod was told to go, though it is not seen to be going yet."""
        self._asked[pod_name(victim)] = victim.metadata.uid

    def _awaits_victims(self, node: str | None) -> bool:
        for name, uid in list(self._asked.items()):
            victim = self.victim(name)
            if victim is None or victim.metadata.uid != uid or is_terminating(victim):
                del self._asked[name]
            elif victim.spec.node_name == node:
                return True
        return False

    def _preempted(self, node: str | None) -> list[str]:
        """The pods on a node that are going because they were asked to make room."""
        cluster = self._mirror.cluster
        if node is None or node not in cluster.nodes.slot_of:
            return []
        return [
            name
            for name, _ in cluster.pods_on(node)
            if (pod := self.victim(name)) is not None and _was_preempted(pod)
        ]

    def _current_budgets(self) -> list[Budget]:
        return [
            Budget(
                namespace=budget.metadata.namespace or "",
                selector=selector,
                allowed=(budget.status and budget.status.disruptions_allowed) or 0,
                disrupted=frozenset((budget.status and budget.status.disrupted_pods) or ()),
            )
            for budget, selector in self._budgets.values()
        ]

    def _started(self, now: float) -> Callable[[str], float]:
        bound = self._mirror.bound

        def started(name: str) -> float:
            namespace, _, own = name.partition("/")
            pod = bound.get((namespace, own))
            text = pod.status.start_time if pod is not None and pod.status is not None else None
            return seconds(text) if text else now

        return started

    def victim(self, name: str) -> Pod | None:
        namespace, _, own = name.partition("/")
        return self._mirror.bound.get((namespace, own))


def _was_preempted(pod: Pod) -> bool:
    conditions = (pod.status.conditions if pod.status else None) or ()
    return any(c.type == "DisruptionTarget" and c.reason == REASON for c in conditions)


def announcement(victim: Pod, preemptor: Waiting, now: float) -> Patch:
    """Tell the victim's owner that the pod was not at fault, before it goes."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": REASON,
        "message": f"{preemptor.pod.spec.scheduler_name}: preempting to accommodate a higher priority pod",
        "lastProbeTime": None,
        "lastTransitionTime": stamp(now),
    }
    metadata = victim.metadata
    return Patch(
        resource=PODS,
        key=preemptor.key,
        namespace=metadata.namespace or "",
        name=metadata.name or "",
        body={"metadata": {"uid": metadata.uid}, "status": {"conditions": [condition]}},
        subresource="status",
        form=STRATEGIC_PATCH,
        purpose=SchedulerPurpose.PREEMPTION,
        attempt=preemptor.number,
    )


def removal(announced: Patch, preemptor: Waiting) -> Delete:
    """Delete the victim that was told."""
    told = announced.body["metadata"] if isinstance(announced.body, dict) else {}
    return Delete(
        resource=PODS,
        key=preemptor.key,
        namespace=announced.namespace,
        name=announced.name,
        uid=told.get("uid"),
        purpose=SchedulerPurpose.PREEMPTION,
        attempt=preemptor.number,
    )
