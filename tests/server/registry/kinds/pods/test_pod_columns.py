"""The STATUS, READY and RESTARTS columns of pods."""

from __future__ import annotations

from typing import Any

import pytest

from berth.server.registry.kinds.pods.pods import STRATEGIES, status_of

NOW = 1000.0


def running(*, ready: bool = True, restarts: int = 0) -> dict[str, Any]:
    return {"name": "c", "ready": ready, "restartCount": restarts, "state": {"running": {}}}


def ended(code: int = 0, reason: str = "Completed", **more: Any) -> dict[str, Any]:
    return {"name": "c", "state": {"terminated": {"exitCode": code, "reason": reason, **more}}}


def waiting(reason: str) -> dict[str, Any]:
    return {"name": "c", "state": {"waiting": {"reason": reason}}}


def condition(kind: str, *, reason: str = "", met: bool = True) -> dict[str, str]:
    return {"type": kind, "status": str(met), "reason": reason}


def pod(phase: str = "Running", *, deleted: bool = False, init: int = 0, **rest: Any) -> dict[str, Any]:
    metadata = {"name": "p", "creationTimestamp": "1970-01-01T00:00:00Z"}
    if deleted:
        metadata["deletionTimestamp"] = "1970-01-01T00:00:10Z"
    return {
        "metadata": metadata,
        "spec": {"containers": [{"name": "c"}], "initContainers": [{"name": f"i{n}"} for n in range(init)]},
        "status": {"phase": phase, **rest},
    }


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (pod("Pending"), "Pending"),
        (pod(containerStatuses=[running()]), "Running"),
        (pod("Failed", reason="Evicted"), "Evicted"),
        (pod("Failed", reason="NodeAffinity"), "NodeAffinity"),
        (pod("Pending", conditions=[condition("PodScheduled", reason="SchedulingGated")]), "SchedulingGated"),
        (pod("Pending", containerStatuses=[waiting("ContainerCreating")]), "ContainerCreating"),
        (pod(containerStatuses=[waiting("CrashLoopBackOff")]), "CrashLoopBackOff"),
        (pod("Succeeded", containerStatuses=[ended()]), "Completed"),
        (pod("Failed", containerStatuses=[ended(1, "Error")]), "Error"),
        (pod("Failed", containerStatuses=[ended(2, "")]), "ExitCode:2"),
        (pod("Failed", containerStatuses=[ended(137, "", signal=9)]), "Signal:9"),
        (pod(containerStatuses=[ended(), running()], conditions=[condition("Ready")]), "Running"),
        (pod(containerStatuses=[ended(), running()]), "NotReady"),
        (pod(containerStatuses=[ended(), ended(1, "Error")]), "Error"),
        (pod("Pending", init=2, initContainerStatuses=[waiting("PodInitializing")]), "Init:0/2"),
        (pod("Pending", init=2, initContainerStatuses=[ended(), waiting("PodInitializing")]), "Init:1/2"),
        (pod("Pending", init=1, initContainerStatuses=[waiting("ErrImagePull")]), "Init:ErrImagePull"),
        (pod("Pending", init=1, initContainerStatuses=[ended(1, "Error")]), "Init:Error"),
        (pod("Pending", init=1, initContainerStatuses=[ended(3, "")]), "Init:ExitCode:3"),
        (pod(deleted=True), "Terminating"),
        (pod("Failed", deleted=True), "Failed"),
        (pod(deleted=True, reason="NodeLost"), "Unknown"),
        ({}, ""),
    ],
)
def test_status(obj: dict[str, Any], expected: str) -> None:
    """The STATUS column of a pod is what kubectl shows."""
    assert expected == status_of(obj)


def cells(obj: dict[str, Any]) -> dict[str, Any]:
    return {column.name: column.cell(obj, NOW) for column in STRATEGIES[0].columns}


def test_ready_counts_containers_and_sidecars() -> None:
    """READY counts containers and sidecars."""
    obj = pod(
        containerStatuses=[running()],
        initContainerStatuses=[{"name": "side", "started": True, "ready": True, "state": {"running": {}}}],
    )
    obj["spec"]["initContainers"] = [{"name": "side", "restartPolicy": "Always"}]
    assert cells(obj)["Ready"] == "2/2"
    assert status_of(obj) == "Running"
    assert cells(pod(containerStatuses=[running(ready=False)]))["Ready"] == "0/1"


def test_restarts_tell_when() -> None:
    """RESTARTS says how many and how long ago."""
    held = running(restarts=3)
    held["lastState"] = {"terminated": {"finishedAt": "1970-01-01T00:10:00Z"}}
    assert cells(pod(containerStatuses=[held]))["Restarts"] == "3 (6m40s ago)"
    assert cells(pod(containerStatuses=[running()]))["Restarts"] == "0"


def test_wide_columns() -> None:
    """Wide output shows IP, node, nominated node and readiness gates."""
    obj = pod(podIPs=[{"ip": "10.0.0.1"}], conditions=[condition("a"), condition("b", met=False)])
    obj["spec"] |= {"nodeName": "n1", "readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}]}
    shown = cells(obj)
    assert tuple(shown[name] for name in ("IP", "Node", "Nominated Node", "Readiness Gates")) == (
        "10.0.0.1",
        "n1",
        "<none>",
        "1/2",
    )
