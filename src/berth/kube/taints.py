"""Which taints follow from what a node reports, and which a pod tolerates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from berth.kube.objects import Condition, Node, Pod, Taint, Toleration
from berth.kube.pods import condition, true_condition
from berth.kube.text.near import nearest
from berth.kube.times import seconds
from berth.kube.well_known import FALSE, READY, TRUE, UNKNOWN

NO_EXECUTE = "NoExecute"
SOFT_EFFECT = "PreferNoSchedule"
EFFECTS = ("NoSchedule", SOFT_EFFECT, NO_EXECUTE)
HARD_EFFECTS = ("NoSchedule", NO_EXECUTE)
# What upstream adds to a node that is cordoned.
CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def tolerates(tolerations: Iterable[Toleration] | None, taint: Taint) -> bool:
    return any(_tolerates_one(t, taint) for t in tolerations or ())


def _tolerates_one(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != (taint.effect or ""):
        return False
    if toleration.key and toleration.key != (taint.key or ""):
        return False
    if toleration.operator == "Exists":
        return True
    # Lt and Gt belong to a feature that is off in v1.36: such a toleration matches nothing.
    return toleration.operator in (None, "", "Equal") and (toleration.value or "") == (taint.value or "")


def untolerated(tolerations: Iterable[Toleration] | None, taints: Iterable[Taint]) -> Iterable[Taint]:
    """The taints that keep a pod away."""
    return (t for t in taints if t.effect in HARD_EFFECTS and not tolerates(tolerations, t))


def first_untolerated(tolerations: Iterable[Toleration] | None, taints: Iterable[Taint]) -> Taint | None:
    """The first taint that keeps a pod away."""
    return next(iter(untolerated(tolerations, taints)), None)


def near_miss(toleration: Toleration, taint: Taint) -> str | None:
    """What keeps a toleration from matching, if it was meant to."""
    if (toleration.key or "") != (taint.key or ""):
        meant = nearest(toleration.key or "", (taint.key or "",)) if toleration.key else None
        return f"the key is {taint.key}" if meant else None
    if toleration.effect and toleration.effect != taint.effect:
        return f"the effect is {taint.effect}"
    return f"the value is {taint.value}" if taint.value else "the taint has no value"


def described(taint: Taint | Toleration) -> str:
    """``key=value:effect``, as kubectl writes it."""
    value = f"={taint.value}" if taint.value else ""
    effect = f":{taint.effect}" if taint.effect else ""
    return f"{taint.key}{value}{effect}"


def taints_of(node: Node) -> list[Taint]:
    return (node.spec.taints if node.spec else None) or []


def no_execute_taints(node: Node) -> list[Taint]:
    """Those that drive out running pods."""
    return [taint for taint in taints_of(node) if taint.effect == NO_EXECUTE]


def evicted_at(pod: Pod, node: Node, now: float = 0) -> float | None:
    """When the node's taints drive the pod away; None if they do not."""
    limits = (_tolerated_until(pod, taint, now) for taint in no_execute_taints(node))
    return min((limit for limit in limits if limit is not None), default=None)


def _tolerated_until(pod: Pod, taint: Taint, now: float) -> float | None:
    """Until when the pod may stay; None for ever."""
    matching = [t for t in pod.spec.tolerations or () if _tolerates_one(t, taint)]
    if not matching:
        return now
    bounded = [t.toleration_seconds for t in matching if t.toleration_seconds is not None]
    if not bounded:
        return None
    since = seconds(taint.time_added) if taint.time_added else now
    return since + max(min(bounded), 0)


# --- what nodes report about themselves -----------------------------------------------------------
# Upstream: pkg/controller/nodelifecycle.

PREFIX = "node.kubernetes.io/"
NOT_READY, UNREACHABLE = f"{PREFIX}not-ready", f"{PREFIX}unreachable"
_PRESSURES = {
    "MemoryPressure": f"{PREFIX}memory-pressure",
    "DiskPressure": f"{PREFIX}disk-pressure",
    "PIDPressure": f"{PREFIX}pid-pressure",
    "NetworkUnavailable": f"{PREFIX}network-unavailable",
}
# Key of a taint -> the condition it follows from.
CONDITION_OF = {NOT_READY: READY, UNREACHABLE: READY} | {taint: kind for kind, taint in _PRESSURES.items()}
# The same, as people are told.
_TOLD = CONDITION_OF | {NOT_READY: "NotReady", UNREACHABLE: "Ready=Unknown"}


def condition_taints(node: Node) -> Iterator[tuple[str, str]]:
    """Key and effect of the taints a node should have for what it reports."""
    failing = _reported_unready(node)
    if failing is not None:
        key = UNREACHABLE if failing.status == UNKNOWN else NOT_READY
        yield key, "NoSchedule"
        yield key, NO_EXECUTE
    for entry in (node.status.conditions if node.status else None) or ():
        if entry.type in _PRESSURES and entry.status == TRUE:
            yield _PRESSURES[entry.type], "NoSchedule"


def ready_condition(node: Node) -> Condition | None:
    return condition(node.status.conditions if node.status else None, READY)


def is_node_ready(node: Node) -> bool:
    return true_condition(node.status.conditions if node.status else None, READY) is not None


def unready(node: Node) -> Condition | None:
    """The condition by which a node is known not to be ready; None if it is, or nothing is known.

    Of a node that reports nothing the taints tell, which somebody gave it for a condition.
    """
    if ready_condition(node) is not None:
        return _reported_unready(node)
    keys = {taint.key for taint in taints_of(node)}
    statuses = {NOT_READY: FALSE, UNREACHABLE: UNKNOWN}
    return next((Condition(type=READY, status=statuses[key]) for key in statuses if key in keys), None)


def _reported_unready(node: Node) -> Condition | None:
    ready = ready_condition(node)
    return None if ready is None or ready.status == TRUE else ready


def condition_notes(nodes: Iterable[Node]) -> Iterator[str]:
    """What to say of nodes that are judged with taints they have not got yet."""
    found: dict[str, list[str]] = {}
    for node in nodes:
        said = " and ".join(sorted({_TOLD[key] for key, _ in condition_taints(node)}))
        found.setdefault(said, []).append(node.metadata.name or "")
    for said, names in found.items():
        if (more := len(names) - 1) > 0:
            yield f"nodes {names[0]} and {more} more report {said}: they are judged with the taint for it"
        else:
            yield f"node {names[0]} reports {said}: it is judged with the taint for it"
