"""The pod condition `DisruptionTarget`, which says of a pod that it is about to be evicted, and why."""

from __future__ import annotations

from berth.eviction.metrics import NODE_KIND, POD_KIND
from berth.eviction.records import EvictionPurpose, PodRecord
from berth.kube.api_resources import PODS
from berth.kube.objects import LivePod
from berth.kube.pods import pod_condition
from berth.kube.times import stamp
from berth.kube.well_known import STRATEGIC_PATCH
from berth.machines.contract import Patch

DISRUPTION_TARGET = "DisruptionTarget"
REASONS = {NODE_KIND: "RequiredNodeAffinityViolation", POD_KIND: "RequiredPodAffinityViolation"}
RULES_HOLD = "AffinityRulesHold"


def is_marked(pod: LivePod, *kinds: str) -> bool:
    """Whether the pod is said to go for a rule of these kinds; of any, if none is given."""
    condition = pod_condition(pod, DISRUPTION_TARGET)
    reasons = [REASONS[kind] for kind in kinds or REASONS]
    return condition is not None and condition.status == "True" and condition.reason in reasons


def mark(
    record: PodRecord, pod: LivePod, *, purpose: EvictionPurpose, reason: str, message: str, now: float
) -> Patch:
    """Set the pod's condition: as a step of its eviction only if the pod is still as it was seen."""
    metadata, known = pod.metadata, pod_condition(pod, DISRUPTION_TARGET)
    status = "False" if reason == RULES_HOLD else "True"
    changed = stamp(now)
    if known is not None and known.status == status and known.last_transition_time:
        changed = known.last_transition_time
    guard = {"uid": metadata.uid}
    if purpose is EvictionPurpose.STEP:
        guard["resourceVersion"] = metadata.resource_version
    entry = {
        "type": DISRUPTION_TARGET,
        "status": status,
        "reason": reason,
        "message": message[:1024],
        "lastProbeTime": stamp(now),
        "lastTransitionTime": changed,
    }
    return Patch(
        resource=PODS,
        key=(metadata.namespace or "", metadata.name or ""),
        namespace=metadata.namespace or "",
        name=metadata.name or "",
        purpose=purpose,
        attempt=record.number,
        body={"metadata": guard, "status": {"conditions": [entry]}},
        subresource="status",
        form=STRATEGIC_PATCH,
        why=message,
    )
