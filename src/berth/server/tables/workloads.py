"""The columns of what makes pods, and of disruption budgets."""

from __future__ import annotations

from berth.kube.times import seconds_of
from berth.server.tables.cells import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    Column,
    Object,
    age,
    at,
    containers,
    count,
    flag,
    human_duration,
    is_true,
    label_selector,
    labels,
    mapping,
    number,
    size,
    text,
)

_NOT_GIVEN = "N/A"
_TEMPLATE = ("spec", "template")
_JOB_TEMPLATE = ("spec", "jobTemplate", "spec")


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
