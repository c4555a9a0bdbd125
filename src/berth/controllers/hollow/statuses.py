"""Pod statuses as a kubelet would write them for containers that are not there."""

from __future__ import annotations

from berth.controllers.workloads.pods import restarts
from berth.kube.objects import Container, LivePod, RawObject
from berth.kube.pods import pod_condition
from berth.kube.times import stamp
from berth.kube.well_known import FAILED, FALSE, READY, RUNNING, SUCCEEDED, TRUE

_EVERY = ("PodReadyToStartContainers", "Initialized", "ContainersReady")


def running(pod: LivePod, now: float, host: str, address: str, count: int = 0) -> RawObject:
    started = (pod.status.start_time if pod.status else None) or stamp(now)
    conditions = _conditions(dict.fromkeys(_EVERY, TRUE), now)
    conditions.insert(-1, ready_condition(pod, now))
    init = pod.spec.init_containers or []
    status: RawObject = {
        "phase": RUNNING,
        "conditions": conditions,
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": started,
        "containerStatuses": [
            _container(pod, c, {"running": {"startedAt": stamp(now)}}, count=count)
            for c in pod.spec.containers or ()
        ],
    }
    if init:
        status["initContainerStatuses"] = [
            _container(pod, c, {"running": {"startedAt": stamp(now)}})
            if c.restart_policy == "Always"
            else _container(pod, c, _terminated(0, now), ready=True)
            for c in init
        ]
    return status


def ready_condition(pod: LivePod, now: float) -> RawObject:
    """Whether a pod whose containers run is ready: also by the conditions that it names as gates."""
    closed = []
    for gate in pod.spec.readiness_gates or ():
        name = gate.condition_type
        found = pod_condition(pod, name or "")
        if found is None:
            closed.append(f'corresponding condition of pod readiness gate "{name}" does not exist.')
        elif found.status != TRUE:
            closed.append(f'the status of pod readiness gate "{name}" is not "True", but {found.status}')
    if not closed:
        return _conditions({READY: TRUE}, now)[0]
    reason, message = "ReadinessGatesNotReady", ", ".join(closed)
    return {**_conditions({READY: FALSE}, now, {READY: reason})[0], "message": message}


def finished(pod: LivePod, now: float, exit_code: int, *, reason: str = "", message: str = "") -> RawObject:
    """Containers that ended with the code; `reason` is set if the kubelet ended them."""
    phase = SUCCEEDED if exit_code == 0 else FAILED
    why = "PodCompleted" if phase == SUCCEEDED else reason or "PodFailed"
    states = {"Initialized": TRUE, READY: FALSE, "ContainersReady": FALSE, "PodReadyToStartContainers": FALSE}
    reasons = {READY: why, "ContainersReady": why}
    if phase == SUCCEEDED:
        reasons["Initialized"] = why
    status: RawObject = {
        "phase": phase,
        "conditions": _conditions(states, now, reasons),
        "containerStatuses": [
            _container(pod, c, _terminated(exit_code, now), count=restarts(pod))
            for c in pod.spec.containers or ()
        ],
    }
    if reason:
        status["reason"] = reason
    if message:
        status["message"] = message
    return status


def rejected(reason: str, message: str, now: float) -> RawObject:
    return {
        "phase": FAILED,
        "reason": reason,
        "message": f"Pod was rejected: {message}",
        "startTime": stamp(now),
    }


def _conditions(states: dict[str, str], now: float, reasons: dict[str, str] | None = None) -> list[RawObject]:
    return [
        {
            "type": kind,
            "status": status,
            "lastProbeTime": None,
            "lastTransitionTime": stamp(now),
            **({"reason": reasons[kind]} if reasons and kind in reasons else {}),
        }
        for kind, status in states.items()
    ]


def _terminated(code: int, now: float) -> RawObject:
    return {
        "terminated": {
            "exitCode": code,
            "reason": "Completed" if code == 0 else "Error",
            "startedAt": stamp(now),
            "finishedAt": stamp(now),
        }
    }


def _container(
    pod: LivePod, container: Container, state: RawObject, *, ready: bool | None = None, count: int = 0
) -> RawObject:
    runs = "running" in state
    return {
        "name": container.name,
        "image": container.image or "",
        "imageID": f"hollow://{container.image or ''}",
        "containerID": f"hollow://{pod.metadata.uid}/{container.name}/{count}",
        "ready": runs if ready is None else ready,
        "started": runs,
        "restartCount": count,
        "state": state,
        "lastState": {},
    }
