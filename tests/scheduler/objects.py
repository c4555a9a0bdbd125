"""Claims, volumes and groups of pods for the scheduler's tests."""

from __future__ import annotations

from typing import Any

from berth.kube.api_resources import (
    CLAIMS,
    POD_GROUPS,
    STORAGE_CLASSES,
    VOLUMES,
)
from tests.support.builders import HOSTNAME
from tests.support.scripts.scheduler import SchedulerScript

LABEL = "scheduling.x-k8s.io/pod-group"


def storage_class(story: SchedulerScript, name: str = "fast", provisioner: str = "csi.example.com") -> None:
    mode = "WaitForFirstConsumer"
    story.create(
        STORAGE_CLASSES, {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}
    )


def claim(story: SchedulerScript, name: str = "data", storage: str = "fast") -> None:
    spec = {
        "storageClassName": storage,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    story.create(CLAIMS, {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Pending"}})


def volume(story: SchedulerScript, name: str, node: str, storage: str = "fast") -> None:
    on_node = {"key": HOSTNAME, "operator": "In", "values": [node]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}}
    spec = {
        "storageClassName": storage,
        "capacity": {"storage": "2Gi"},
        "accessModes": ["ReadWriteOnce"],
        "nodeAffinity": affinity,
    }
    story.create(VOLUMES, {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Available"}})


def mounts(name: str = "data") -> list[dict[str, Any]]:
    return [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]


def gang(story: SchedulerScript, name: str, minimum: int) -> None:
    policy = {"gang": {"minCount": minimum}}
    story.create(POD_GROUPS, {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy}})


def member(story: SchedulerScript, name: str, group: str = "ring", **spec: Any) -> None:
    story.pod(name, schedulingGroup={"podGroupName": group}, **spec)
