"""The patches of bindings, in Karmada's wording."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from berth.fleet.scheduler.reasons import applied_placement
from berth.fleet.state.strategy import reschedule_required
from berth.kube.karmada import APPLIED_PLACEMENT, Binding, TargetCluster
from berth.kube.objects import RawObject
from berth.kube.pods import condition, true_condition
from berth.kube.times import stamp
from berth.kube.well_known import FALSE, TRUE, UNSCHEDULABLE
from berth.machines.requests import Conditions

SCHEDULED = "Scheduled"
SUCCESS, QUOTA_EXCEEDED = "Success", "QuotaExceeded"
SUCCEEDED, FAILED = "ScheduleBindingSucceed", "ScheduleBindingFailed"
SUCCESS_MESSAGE = "Binding has been scheduled successfully."
WAITING_MESSAGE = "Binding waits for another one of its affinity group to be placed"
# Producer and reason of an eviction task for a cluster that peers of the group had to leave.
PRODUCER, FAILOVER = "BerthFleet", "AffinityGroupFailover"

# The longest message that the API server takes in a condition.
_LONGEST = 32768


@dataclass(frozen=True, slots=True)
class ScheduledCondition:
    """The Scheduled condition to write, with what else belongs into the status.

    Attributes:
        affinity_name: The term of the cluster affinities that was used; None to leave it as it is.
        changed: Whether the clusters were written, which is when a binding was scheduled last.
    """

    reason: str
    message: str
    affinity_name: str | None = None
    changed: bool = False

    def __post_init__(self) -> None:
        if len(self.message) > _LONGEST:
            object.__setattr__(self, "message", f"{self.message[: _LONGEST - 1]}…")

    @property
    def ok(self) -> bool:
        return self.reason == SUCCESS


def spec_patch(binding: Binding, targets: Sequence[TargetCluster], leave: Iterable[str] = ()) -> RawObject:
    """The patch that sets a binding's clusters; a conflict if the binding has changed since the decision.

    It is to `leave` some clusters gracefully, to stay with its group.
    """
    placement = msgspec.json.encode(binding.spec.placement).decode()
    # A merge patch replaces lists whole, and an empty one is not written at all.
    clusters: Any = msgspec.to_builtins(list(targets)) or None
    spec: RawObject = {"clusters": clusters}
    message = "other workloads of its affinity group had to leave this cluster"
    tasks = [
        {"fromCluster": name, "reason": FAILOVER, "producer": PRODUCER, "message": message} for name in leave
    ]
    if tasks:
        spec["gracefulEvictionTasks"] = [*(binding.spec.graceful_eviction_tasks or ()), *tasks]
    return {
        "metadata": {
            "resourceVersion": binding.metadata.resource_version,
            "annotations": {APPLIED_PLACEMENT: placement},
        },
        "spec": msgspec.to_builtins(spec),
    }


def stays(binding: Binding, targets: Sequence[TargetCluster] | None) -> bool:
    """Whether a decision leaves everything where it is; None stands for one that failed."""
    return targets is not None and list(targets) == (binding.spec.clusters or [])


def changes_anything(binding: Binding, patch: RawObject) -> bool:
    """Whether a `spec_patch` is worth writing. What another scheduler applied may be spelt in another way."""
    spec = patch["spec"]
    return (
        "gracefulEvictionTasks" in spec
        or (msgspec.to_builtins(binding.spec.clusters) or None) != spec["clusters"]
        or applied_placement(binding) != binding.spec.placement
    )


def status_patch(binding: Binding, verdict: ScheduledCondition, now: float) -> RawObject:
    conditions = Conditions(binding.status.conditions, now)
    conditions.set(SCHEDULED, TRUE if verdict.ok else FALSE, verdict.reason, verdict.message)
    status: RawObject = {"conditions": conditions.list()}
    if verdict.ok:
        status["schedulerObservedGeneration"] = binding.metadata.generation or 0
        # A requested rescheduling is done even if nothing changes: lastScheduledTime tells that.
        if verdict.changed or not binding.status.last_scheduled_time or reschedule_required(binding):
            status["lastScheduledTime"] = stamp(now)
    if verdict.affinity_name is not None:
        status["schedulerObservingAffinityName"] = verdict.affinity_name
    return {"metadata": {"resourceVersion": binding.metadata.resource_version}, "status": status}


def observed_patch(binding: Binding) -> RawObject:
    """A status patch that only sets the observed generation: nothing had to be done for it."""
    return {"status": {"schedulerObservedGeneration": binding.metadata.generation or 0}}


def already_said(binding: Binding, verdict: ScheduledCondition | None) -> bool:
    """Whether the status has this condition for the present generation already; always for None."""
    if verdict is None:
        return True
    status = binding.status
    known = condition(status.conditions, SCHEDULED)
    if known is None or (known.reason, known.message) != (verdict.reason, verdict.message):
        return False
    current = not verdict.ok or status.scheduler_observed_generation == binding.metadata.generation
    return current and verdict.affinity_name in (None, status.scheduler_observing_affinity_name or "")


def waiting(binding: Binding, peer: str = "") -> ScheduledCondition | None:
    """The condition while it waits for a peer; None unless the status wrongly says that it is placed."""
    if binding.spec.clusters or true_condition(binding.status.conditions, SCHEDULED) is None:
        return None
    return ScheduledCondition(UNSCHEDULABLE, f"{WAITING_MESSAGE}{f': {peer}' if peer else ''}.")


def success_event(key: tuple[str, str], targets: Iterable[TargetCluster]) -> str:
    """The sentence of a success. Of bindings without a namespace Karmada says it without the colon."""
    colon = ":" if key[0] else ""
    told = ", ".join(f"{target.name}:{target.replicas}" for target in targets)
    return f"{SUCCESS_MESSAGE} Result{colon} {{{told}}}"
