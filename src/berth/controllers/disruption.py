"""How many pods a PodDisruptionBudget lets go at the moment.

Upstream: pkg/controller/disruption.
"""

from __future__ import annotations

from collections.abc import Iterator

from berth.controllers.workloads.pods import wanted
from berth.kube.api_resources import BUDGETS, DEPLOYMENTS, PODS, REPLICA_SETS, STATEFUL_SETS
from berth.kube.disruption import wanted_pods
from berth.kube.objects import (
    Key,
    LivePod,
    LiveWorkload,
    PodDisruptionBudget,
    PodDisruptionBudgetStatus,
    RawObject,
    key_of,
)
from berth.kube.ownership import WITHOUT_SCALE, controller_of, counts_replicas
from berth.kube.pods import is_finished, is_ready, is_terminating
from berth.kube.selectors import is_guarded
from berth.kube.times import seconds
from berth.kube.well_known import FALSE, TRUE
from berth.machines.contract import Action, Event
from berth.machines.controller import Controller
from berth.machines.requests import Conditions, status_patch

# An eviction whose pod is still there after this long did not happen.
EVICTION_TIMEOUT = 120.0
_FAILED = "SyncFailed"
# What a budget counts, in the order in which it is passed on here.
_NUMBERS = ("currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed")


class DisruptionController(Controller):
    name = "disruption-controller"
    watches = (BUDGETS, PODS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS)

    def handle(self, event: Event) -> None:
        if event.resource == BUDGETS:
            self.queue.add(event.key)
            return
        seen = [each.metadata for each in (event.object, event.old) if each is not None]
        if event.resource != PODS and event.old and event.old.spec.replicas == event.object.spec.replicas:
            return
        for budget in self.cache.all(BUDGETS, PodDisruptionBudget):
            near = budget.metadata.namespace == event.key[0]
            if near and (event.resource != PODS or any(is_guarded(each, budget) for each in seen)):
                self.queue.add(key_of(budget.metadata))

    def sync(self, key: Key, now: float) -> Iterator[Action]:
        budget = self.cache.get(BUDGETS, key, PodDisruptionBudget)
        if budget is None:
            return
        pods = [
            pod
            for pod in self.cache.pods_in(key[0])
            if not is_finished(pod) and is_guarded(pod.metadata, budget)
        ]
        owners = {owner.kind for pod in pods if (owner := controller_of(pod.metadata)) is not None}
        unscaled = sorted(WITHOUT_SCALE[kind] for kind in owners if kind in WITHOUT_SCALE)
        if unscaled and counts_replicas(budget.spec):
            yield from self._fail(budget, f"{unscaled[0]} does not implement the scale subresource", now)
            return
        expected, desired = wanted_pods(budget.spec, len(pods), lambda: self._scale(pods))
        disrupted = self._disrupted(key, budget, pods, now)
        healthy = sum(
            is_ready(pod) and not is_terminating(pod) and (pod.metadata.name or "") not in disrupted
            for pod in pods
        )
        allowed = max(healthy - desired, 0) if expected > 0 else 0
        yield from self._write(budget, (healthy, desired, expected, allowed), disrupted, now)

    def _scale(self, pods: list[LivePod]) -> int:
        """What the workloads behind the pods are meant to run."""
        found = map(self._workload_of, pods)
        return sum({each.metadata.uid: wanted(each) for each in found if each is not None}.values())

    def _workload_of(self, pod: LivePod) -> LiveWorkload | None:
        found = self.cache.controller(pod.metadata, LiveWorkload, STATEFUL_SETS, REPLICA_SETS)
        return (found and self.cache.controller(found.metadata, LiveWorkload, DEPLOYMENTS)) or found

    def _disrupted(
        self, key: Key, budget: PodDisruptionBudget, pods: list[LivePod], now: float
    ) -> dict[str, str]:
        """Evictions that were granted and are not yet seen."""
        there = {pod.metadata.name: pod for pod in pods}
        kept = {}
        for name, since in ((budget.status and budget.status.disrupted_pods) or {}).items():
            pod, until = there.get(name), seconds(since) + EVICTION_TIMEOUT
            if pod is not None and not is_terminating(pod) and self.queue.put_off(key, until, now):
                kept[name] = since
        return kept

    def _write(
        self, budget: PodDisruptionBudget, numbers: tuple[int, ...], disrupted: dict[str, str], now: float
    ) -> Iterator[Action]:
        old = budget.status or PodDisruptionBudgetStatus()
        *_, allowed = numbers
        conditions = Conditions(old.conditions, now)
        told = (TRUE, "SufficientPods") if allowed > 0 else (FALSE, "InsufficientPods")
        conditions.set("DisruptionAllowed", *told)
        generation = budget.metadata.generation or 0
        if (condition := conditions.get("DisruptionAllowed")) is not None:
            condition["observedGeneration"] = generation
        known = (old.current_healthy, old.desired_healthy, old.expected_pods, old.disruptions_allowed)
        failed = any(each.reason == _FAILED for each in old.conditions or ())
        same = known == numbers and not failed and (old.observed_generation or 0) == generation
        if same and (old.disrupted_pods or {}) == disrupted:
            return
        gone = dict.fromkeys(name for name in old.disrupted_pods or {} if name not in disrupted)
        status: RawObject = {
            **dict(zip(_NUMBERS, numbers, strict=True)),
            "observedGeneration": generation,
            "disruptedPods": {**disrupted, **gone},
            "conditions": conditions.list(),
        }
        yield status_patch(BUDGETS, budget, status)

    def _fail(self, budget: PodDisruptionBudget, why: str, now: float) -> Iterator[Action]:
        """Nobody knows how many pods there should be, so none may go."""
        old = budget.status or PodDisruptionBudgetStatus()
        told = any(each.reason == _FAILED and each.message == why for each in old.conditions or ())
        if told and old.disruptions_allowed == 0:
            return
        conditions = Conditions(old.conditions, now)
        conditions.set("DisruptionAllowed", FALSE, _FAILED, why)
        kept = (old.current_healthy or 0, old.desired_healthy or 0, old.expected_pods or 0, 0)
        status = {**dict(zip(_NUMBERS, kept, strict=True)), "conditions": conditions.list()}
        yield status_patch(BUDGETS, budget, status)
