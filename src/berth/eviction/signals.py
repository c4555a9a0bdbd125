"""What people are told about an eviction: a condition of the pod, and events."""

from __future__ import annotations

from collections.abc import Sequence

from berth.engine.execution.eviction_ceiling import (
    HOME_NAMESPACE,
    RELEASE_ANNOTATION,
    Halt,
    name_of,
)
from berth.engine.execution.eviction_set import PodToEvict
from berth.engine.execution.violations import NODE, Violation
from berth.eviction.metrics import NODE_KIND, POD_KIND
from berth.eviction.pacing import Returns, owner_id
from berth.kube.api_resources import NAMESPACES, NODES, PODS
from berth.kube.objects import LivePod, Namespace, Node
from berth.kube.pods import pod_condition
from berth.kube.times import stamp
from berth.machines.contract import STRATEGIC, Outcome, Patch, Purpose
from berth.machines.recorder import NORMAL, WARNING, Recorder

COMPONENT = "affinity-eviction"
DISRUPTION_TARGET = "DisruptionTarget"
REASONS = {NODE_KIND: "RequiredNodeAffinityViolation", POD_KIND: "RequiredPodAffinityViolation"}
EVENTS = {NODE_KIND: "NodeAffinityEviction", POD_KIND: "PodAffinityEviction"}
FAILURES = {NODE_KIND: "FailedNodeAffinityEviction", POD_KIND: "FailedPodAffinityEviction"}
_MOST_NODES = 20


def kind_of(departure: PodToEvict) -> str:
    """Which of the two controllers a pod goes for."""
    own = any(breach.kind == NODE and breach.pod == departure.pod for breach in departure.violations)
    return NODE_KIND if own else POD_KIND


def told(breach: Violation, pod: str) -> str:
    """A broken rule in words, from the point of view of a pod that goes for it."""
    whose = "" if breach.pod == pod else f" of pod {breach.pod}"
    return f"{breach.path}{whose} does not hold on node {breach.node}: {breach.cause}"


def reasons_of(departure: PodToEvict) -> str:
    return "; ".join(told(breach, departure.pod) for breach in departure.violations)


def is_marked(pod: LivePod, departure: PodToEvict) -> bool:
    condition = pod_condition(pod, DISRUPTION_TARGET)
    return condition is not None and (condition.status, condition.reason) == (
        "True",
        REASONS[kind_of(departure)],
    )


def is_marked_by_us(pod: LivePod) -> bool:
    condition = pod_condition(pod, DISRUPTION_TARGET)
    return condition is not None and condition.status == "True" and condition.reason in REASONS.values()


class EvictionPurpose(Purpose):
    STEP = "step"  # takes an attempt further
    ABSOLVE = "absolve"  # takes a pod's condition back
    EXPLAIN = "explain"  # writes the cause on a pod that was evicted; what becomes of it does not matter


STEP, ABSOLVE, EXPLAIN = EvictionPurpose
AFTERMATH = frozenset({ABSOLVE, EXPLAIN})


def mark(
    pod: LivePod,
    *,
    purpose: EvictionPurpose,
    reason: str,
    message: str,
    now: float,
    status: str = "True",
    attempt: int = 0,
) -> Patch:
    """Set the pod's condition: as a step of an eviction only if the pod is still as it was seen."""
    metadata, known = pod.metadata, pod_condition(pod, DISRUPTION_TARGET)
    changed = stamp(now)
    if known is not None and known.status == status and known.last_transition_time:
        changed = known.last_transition_time
    guard = {"uid": metadata.uid}
    if purpose is STEP:
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
        attempt=attempt,
        body={"metadata": guard, "status": {"conditions": [entry]}},
        subresource="status",
        form=STRATEGIC,
        why=message,
    )


class Signals:
    def __init__(self) -> None:
        self.recorder = Recorder(COMPONENT)

    def evicted(self, pod: LivePod, departure: PodToEvict, lands: str | None, now: float) -> None:
        target = (
            f"Its replacement would go to node {lands}." if lands else "No node could take its replacement."
        )
        message = f"Evicted: {reasons_of(departure)}. {target}"
        self.recorder.record(now, PODS, pod, NORMAL, EVENTS[kind_of(departure)], message)

    def failed(self, pod: LivePod, departure: PodToEvict, why: str, now: float) -> None:
        message = f"Could not evict: {why} ({reasons_of(departure)})"
        self.recorder.record(now, PODS, pod, WARNING, FAILURES[kind_of(departure)], message)

    def came_back(self, pod: LivePod, returns: Returns, now: float) -> None:
        owner = owner_id(pod)
        until, times = returns.until(owner), returns.times(owner)
        message = (
            f"The replacement of an evicted pod was placed where its rules are broken ({times} in a row): "
            f"no pod of this owner is evicted before {stamp(until)}. "
            "Is it placed by a scheduler that knows its rules?"
        )
        self.recorder.record(now, PODS, pod, WARNING, "EvictionBackOff", message)

    def invalid(self, pod: LivePod, why: str, now: float) -> None:
        message = f"The rules of the annotation are not enforced: {why}"
        self.recorder.record(now, PODS, pod, WARNING, "InvalidAffinityAnnotation", message)

    def halted(
        self, halt: Halt, home: Namespace | None, nodes: Sequence[Node], max_share: float, now: float
    ) -> None:
        message = (
            f"Affinity evictions are halted in {name_of(halt.domain)}: {halt}, more than {max_share:.0%}. "
            f"They go on when the labels are back, or with the annotation {RELEASE_ANNOTATION}={halt.domain} "
            f"on namespace {HOME_NAMESPACE}"
        )
        if home is not None:
            self.recorder.record(now, NAMESPACES, home, WARNING, "EvictionsHalted", message)
        for node in nodes[:_MOST_NODES]:
            self.recorder.record(now, NODES, node, WARNING, "EvictionsHalted", message)

    def resumed(self, domain: str, home: Namespace | None, now: float) -> None:
        if home is not None:
            message = f"Affinity evictions go on in {name_of(domain)}"
            self.recorder.record(now, NAMESPACES, home, NORMAL, "EvictionsResumed", message)


def refusal(outcome: Outcome) -> str:
    """Why the server said no, with the budget it names."""
    causes = [str(cause.get("message", "")) for cause in outcome.details.get("causes") or ()]
    message = outcome.message or outcome.reason or "no answer"
    return " ".join([message, *filter(None, causes)])
