"""The columns of a pod's table.

Its STATUS is what a person wants to know, not a field: see :func:`status`.
"""

from __future__ import annotations

from berth.kube.objects import RawObject
from berth.kube.times import seconds_of
from berth.kube.well_known import POD_SCHEDULED, SCHEDULING_GATED
from berth.server.fields import at, condition, is_true, items, number
from berth.server.tables import AGE, NAME, NONE, Column, human_duration, text

_TERMINAL = frozenset({"Succeeded", "Failed"})


def _sidecars(pod: RawObject) -> set[object]:
    """The names of the init containers that go on running."""
    wanted = items(pod, "spec", "initContainers")
    return {at(each, "name") for each in wanted if at(each, "restartPolicy") == "Always"}


def _ended(terminated: RawObject) -> str:
    """One word for how a container ended."""
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _initializing(pod: RawObject) -> str | None:
    """What initialization is busy with or failed at, None once it is through."""
    wanted, sidecars = items(pod, "spec", "initContainers"), _sidecars(pod)
    for index, container in enumerate(items(pod, "status", "initContainerStatuses")):
        terminated = at(container, "state", "terminated")
        if isinstance(terminated, dict):
            if terminated.get("exitCode", 0) == 0:
                continue
            return f"Init:{_ended(terminated)}"
        if at(container, "started") and at(container, "name") in sidecars:
            continue
        waiting = at(container, "state", "waiting", "reason")
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{index}/{len(wanted)}"
    return None


def _running(pod: RawObject, reason: str) -> str:
    """The first container with something to say, but one still running outweighs a finished one."""
    failed, running = "", False
    for container in reversed(items(pod, "status", "containerStatuses")):
        waiting = at(container, "state", "waiting", "reason")
        terminated = at(container, "state", "terminated")
        if waiting:
            reason = str(waiting)
        elif isinstance(terminated, dict):
            reason = _ended(terminated)
            failed = reason if terminated.get("exitCode", 0) else failed
        elif at(container, "ready") and at(container, "state", "running") is not None:
            running = True
    if reason != "Completed":
        return reason
    if running and is_true(pod, "Ready"):
        return "Running"
    return failed or ("NotReady" if running else reason)


def status(pod: RawObject) -> str:
    """The word in the STATUS column: the phase, or the most telling reason there is."""
    phase = str(at(pod, "status", "phase") or "")
    cause = at(pod, "status", "reason")
    if at(pod, "metadata", "deletionTimestamp"):
        if cause == "NodeLost":
            return "Unknown"
        if phase not in _TERMINAL:
            return "Terminating"
    reason = str(cause or phase)
    if condition(pod, POD_SCHEDULED).get("reason") == SCHEDULING_GATED:
        reason = SCHEDULING_GATED
    initializing = _initializing(pod)
    if initializing is not None and not is_true(pod, "Initialized"):
        return initializing
    return _running(pod, initializing or reason)


def _ready(pod: RawObject, _: float) -> str:
    sidecars = _sidecars(pod)
    ready = sum(
        bool(at(each, "ready") and at(each, "started"))
        for each in items(pod, "status", "initContainerStatuses")
        if at(each, "name") in sidecars
    ) + sum(
        bool(at(each, "ready") and at(each, "state", "running") is not None)
        for each in items(pod, "status", "containerStatuses")
    )
    return f"{ready}/{len(items(pod, 'spec', 'containers')) + len(sidecars)}"


def _restarts(pod: RawObject, now: float) -> str:
    through = _initializing(pod) is None or is_true(pod, "Initialized")
    sidecars, counted = _sidecars(pod), items(pod, "status", "initContainerStatuses")
    if through:
        lasting = [each for each in counted if at(each, "name") in sidecars]
        counted = lasting + items(pod, "status", "containerStatuses")
    total = sum(number(each, "restartCount") for each in counted)
    ends = [seconds_of(at(each, "lastState", "terminated", "finishedAt")) for each in counted]
    known = [end for end in ends if end is not None]
    return f"{total} ({human_duration(now - max(known))} ago)" if total and known else str(total)


def _ip(pod: RawObject, _: float) -> str:
    addresses = items(pod, "status", "podIPs")
    return str((at(addresses[0], "ip") if addresses else at(pod, "status", "podIP")) or NONE)


def _gates(pod: RawObject, _: float) -> str:
    gates = items(pod, "spec", "readinessGates")
    if not gates:
        return NONE
    return f"{sum(is_true(pod, str(at(gate, 'conditionType'))) for gate in gates)}/{len(gates)}"


COLUMNS = (
    NAME,
    Column("Ready", _ready),
    Column("Status", lambda pod, _: status(pod)),
    Column("Restarts", _restarts),
    AGE,
    Column("IP", _ip, wide=True),
    Column("Node", text("spec", "nodeName", otherwise=NONE), wide=True),
    Column("Nominated Node", text("status", "nominatedNodeName", otherwise=NONE), wide=True),
    Column("Readiness Gates", _gates, wide=True),
)
