"""Why pods were not placed, in kube-scheduler's words."""

from __future__ import annotations

from collections.abc import Callable

from berth.engine.offline.groups import group_key
from berth.engine.offline.scheduling.simulated import Simulation, UnplacedPod
from berth.engine.offline.snapshot import Entry
from berth.engine.placement.fit_error import NO_NODES, fit_error, fit_error_on
from berth.engine.placement.plan import plan_for
from berth.engine.placement.preemption import Preemption
from berth.engine.rules.verdicts import RuleVerdict
from berth.engine.state.pod_class import PodClass
from berth.kube.well_known import SCHEDULER_ERROR, UNSCHEDULABLE


class Messages:
    """Why pods were not placed, asked once a class: a thousand replicas have one answer."""

    def __init__(self, simulation: Simulation, class_of: Callable[[Entry], PodClass]) -> None:
        self._simulation = simulation
        self._cluster = simulation.snapshot.cluster
        self._class_of = class_of
        self._known: dict[PodClass, tuple[str, str]] = {}

    def unplaced(self, entry: Entry, room: Preemption | None = None) -> UnplacedPod:
        held_back = self._simulation.held_back(entry)
        if held_back is not None:
            return UnplacedPod(entry, *held_back)
        group = group_key(entry)
        if group is not None and (failure := self._simulation.failed_groups.get(group)):
            return UnplacedPod(entry, UNSCHEDULABLE, failure.message)
        if not self._cluster.nodes.live:
            return UnplacedPod(entry, UNSCHEDULABLE, NO_NODES)
        pod_class = self._class_of(entry)
        preemption = room.message if room else ""
        if entry.daemon_of is not None:
            return UnplacedPod(entry, UNSCHEDULABLE, self._of_daemon(pod_class, entry.daemon_of), preemption)
        known = self._known.get(pod_class)
        if known is None:
            known = self._known[pod_class] = self._of_class(pod_class)
        return UnplacedPod(entry, *known, preemption)

    def _of_class(self, pod_class: PodClass) -> tuple[str, str]:
        plan = plan_for(self._cluster, pod_class)
        if plan.error is not None and not plan.blocked().all():
            return SCHEDULER_ERROR, plan.error
        return UNSCHEDULABLE, fit_error(plan)[0]

    def _of_daemon(self, pod_class: PodClass, node: str) -> str:
        slot = self._cluster.nodes.slot_of[node]
        verdicts: list[RuleVerdict] = [
            verdict
            for rule in plan_for(self._cluster, pod_class).rules
            if rule.filters and (verdict := rule.verdict(slot)) is not None
        ]
        return fit_error_on(self._cluster.nodes.live, verdicts[0])
