"""The columns of pods, of what makes them, and of disruption budgets.

A pod's STATUS is what a person wants to know, not a field: see :func:`status`.
"""

from __future__ import annotations

from berth.kube.times import seconds_of
from berth.kube.well_known import POD_SCHEDULED, SCHEDULING_GATED
from berth.server.fields import at, condition, is_true, items, mapping, number
from berth.server.tables.cells import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    Column,
    Object,
    age,
    containers,
    count,
    flag,
    human_duration,
    label_selector,
    labels,
    size,
    text,
)

_TERMINAL = frozenset({"Succeeded", "Failed"})
_NOT_GIVEN = "N/A"
_TEMPLATE = ("spec", "template")
_JOB_TEMPLATE = ("spec", "jobTemplate", "spec")


def _sidecars(pod: Object) -> set[object]:
    """The names of the init containers that go on running."""
    wanted = items(pod, "spec", "initContainers")
    return {at(each, "name") for each in wanted if at(each, "restartPolicy") == "Always"}


def _ended(terminated: Object) -> str:
    """One word for how a container ended."""
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _initializing(pod: Object) -> str | None:
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


def _running(pod: Object, reason: str) -> str:
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


def status(pod: Object) -> str:
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


def _ready(pod: Object, _: float) -> str:
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


def _restarts(pod: Object, now: float) -> str:
    through = _initializing(pod) is None or is_true(pod, "Initialized")
    sidecars, counted = _sidecars(pod), items(pod, "status", "initContainerStatuses")
    if through:
        lasting = [each for each in counted if at(each, "name") in sidecars]
        counted = lasting + items(pod, "status", "containerStatuses")
    total = sum(number(each, "restartCount") for each in counted)
    ends = [seconds_of(at(each, "lastState", "terminated", "finishedAt")) for each in counted]
    known = [end for end in ends if end is not None]
    return f"{total} ({human_duration(now - max(known))} ago)" if total and known else str(total)


def _ip(pod: Object, _: float) -> str:
    addresses = items(pod, "status", "podIPs")
    return str((at(addresses[0], "ip") if addresses else at(pod, "status", "podIP")) or NONE)


def _gates(pod: Object, _: float) -> str:
    gates = items(pod, "spec", "readinessGates")
    if not gates:
        return NONE
    return f"{sum(is_true(pod, str(at(gate, 'conditionType'))) for gate in gates)}/{len(gates)}"


POD = (
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


def _ready_of_wanted(obj: Object, _: float) -> str:
    return f"{number(obj, 'status', 'readyReplicas')}/{number(obj, 'spec', 'replicas')}"


DEPLOYMENT = (
    NAME,
    Column("Ready", _ready_of_wanted),
    Column("Up-to-date", count("status", "updatedReplicas")),
    Column("Available", count("status", "availableReplicas")),
    AGE,
    *containers(*_TEMPLATE),
    label_selector("spec", "selector"),
)

_REPLICAS = (
    NAME,
    Column("Desired", count("spec", "replicas"), type="integer"),
    Column("Current", count("status", "replicas"), type="integer"),
    Column("Ready", count("status", "readyReplicas"), type="integer"),
    AGE,
    *containers(*_TEMPLATE),
)
REPLICA_SET = (*_REPLICAS, label_selector("spec", "selector"))
REPLICATION_CONTROLLER = (
    *_REPLICAS,
    Column("Selector", lambda obj, _: labels(mapping(obj, "spec", "selector")), wide=True),
)

STATEFUL_SET = (NAME, Column("Ready", _ready_of_wanted), AGE, *containers(*_TEMPLATE))

DAEMON_SET = (
    NAME,
    Column("Desired", count("status", "desiredNumberScheduled"), type="integer"),
    Column("Current", count("status", "currentNumberScheduled"), type="integer"),
    Column("Ready", count("status", "numberReady"), type="integer"),
    Column("Up-to-date", count("status", "updatedNumberScheduled"), type="integer"),
    Column("Available", count("status", "numberAvailable"), type="integer"),
    Column("Node Selector", lambda obj, _: labels(mapping(obj, *_TEMPLATE, "spec", "nodeSelector"))),
    AGE,
    *containers(*_TEMPLATE),
    label_selector("spec", "selector"),
)


def _job_status(job: Object, _: float) -> str:
    for kind in ("Complete", "Failed"):
        if is_true(job, kind):
            return kind
    if at(job, "metadata", "deletionTimestamp"):
        return "Terminating"
    for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if is_true(job, kind):
            return kind
    return "Running"


def _completions(job: Object, _: float) -> str:
    done, wanted = number(job, "status", "succeeded"), at(job, "spec", "completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallel = number(job, "spec", "parallelism")
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _duration(job: Object, now: float) -> str:
    start = seconds_of(at(job, "status", "startTime"))
    if start is None:
        return ""
    end = seconds_of(at(job, "status", "completionTime"))
    return human_duration((now if end is None else end) - start)


JOB = (
    NAME,
    Column("Status", _job_status),
    Column("Completions", _completions),
    Column("Duration", _duration),
    AGE,
    *containers(*_TEMPLATE),
    label_selector("spec", "selector"),
)


def _last_schedule(obj: Object, now: float) -> str:
    last = at(obj, "status", "lastScheduleTime")
    return age(last, now) if last else NONE


CRON_JOB = (
    NAME,
    Column("Schedule", text("spec", "schedule")),
    Column("Timezone", text("spec", "timeZone", otherwise=NONE)),
    Column("Suspend", lambda obj, _: str(flag("spec", "suspend")(obj, 0))),
    Column("Active", size("status", "active"), type="integer"),
    Column("Last Schedule", _last_schedule),
    AGE,
    *containers(*_JOB_TEMPLATE, "template"),
    label_selector(*_JOB_TEMPLATE, "selector"),
)

POD_DISRUPTION_BUDGET = (
    NAME,
    Column("Min Available", text("spec", "minAvailable", otherwise=_NOT_GIVEN)),
    Column("Max Unavailable", text("spec", "maxUnavailable", otherwise=_NOT_GIVEN)),
    Column("Allowed Disruptions", count("status", "disruptionsAllowed"), type="integer"),
    AGE,
)

HORIZONTAL_POD_AUTOSCALER = (
    NAME,
    Column(
        "Reference",
        lambda obj, _: (
            f"{at(obj, 'spec', 'scaleTargetRef', 'kind')}/{at(obj, 'spec', 'scaleTargetRef', 'name')}"
        ),
    ),
    Column("Targets", lambda obj, _: UNKNOWN if at(obj, "spec", "metrics") else NONE),
    Column("MinPods", text("spec", "minReplicas", otherwise=UNSET)),
    Column("MaxPods", count("spec", "maxReplicas")),
    Column("Replicas", count("status", "currentReplicas")),
    AGE,
)


def _controller(obj: Object, _: float) -> str:
    for owner in at(obj, "metadata", "ownerReferences") or ():
        if at(owner, "controller"):
            group = str(at(owner, "apiVersion")).rpartition("/")[0]
            kind = str(at(owner, "kind")).lower()
            return f"{kind}.{group}/{at(owner, 'name')}" if group else f"{kind}/{at(owner, 'name')}"
    return NONE


CONTROLLER_REVISION = (
    NAME,
    Column("Controller", _controller),
    Column("Revision", count("revision")),
    AGE,
)

POD_TEMPLATE = (
    NAME,
    *(column._replace(wide=False) for column in containers("template")),
    Column("Pod Labels", lambda obj, _: labels(mapping(obj, "template", "metadata", "labels"))),
)
