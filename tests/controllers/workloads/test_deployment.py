"""Deployments roll from one revision to the next within their limits."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pytest

from berth.controllers.workloads.deployment import DeploymentController
from berth.controllers.workloads.replica_set import ReplicaSetController
from berth.kube.amounts.shares import resolved
from berth.kube.api_resources import DEPLOYMENTS, PODS, REPLICA_SETS
from berth.kube.manifests.manifest import load
from berth.kube.workloads.expansion import expand
from berth.server.registry.kinds import default
from tests.support.scripts.script import Script, image_of, new_image, workload

REVISION = "deployment.kubernetes.io/revision"


def script(replicas: int = 4, **spec: Any) -> Script:
    world = Script(DeploymentController, ReplicaSetController)
    world.create(DEPLOYMENTS, workload("web", replicas, **spec))
    world.settle()
    world.set_ready()
    world.settle()
    return world


def sizes(world: Script) -> dict[str, int]:
    """Image -> how many pods run it."""
    found: dict[str, int] = {}
    for pod in world.all(PODS):
        found[image_of(pod)] = found.get(image_of(pod), 0) + 1
    return found


def condition(world: Script, kind: str) -> tuple[str, str]:
    entries = {c["type"]: c for c in world.get(DEPLOYMENTS, "web")["status"]["conditions"]}
    return entries[kind]["status"], entries[kind]["reason"]


def test_a_new_deployment_becomes_available() -> None:
    """One ReplicaSet with the template's hash, revision 1, and the conditions that kubectl waits for."""
    world = script(3)
    (replica_set,) = world.all(REPLICA_SETS)
    digest = replica_set["metadata"]["labels"]["pod-template-hash"]
    assert f"web-{digest}" == replica_set["metadata"]["name"]
    assert replica_set["metadata"]["annotations"][REVISION] == "1"
    assert world.get(DEPLOYMENTS, "web")["metadata"]["annotations"][REVISION] == "1"
    assert condition(world, "Available") == ("True", "MinimumReplicasAvailable")
    assert condition(world, "Progressing") == ("True", "NewReplicaSetAvailable")


def test_a_rolling_update_stays_within_its_limits() -> None:
    """There are never more than replicas + maxSurge, and as many available as maxUnavailable leaves."""
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    world = script(4, strategy=rolling)
    world.change(DEPLOYMENTS, "web", new_image("v2"))
    seen = []
    for _ in range(30):
        world.settle()
        ready = [
            pod["metadata"]["name"]
            for pod in world.all(PODS)
            if pod.get("status", {}).get("phase") == "Running"
        ]
        seen.append((len(world.all(PODS)), len(ready)))
        waiting = [name for name in world.names(PODS) if name not in ready]
        if not waiting:
            break
        world.set_ready(waiting[0])
    assert sizes(world) == {"v2": 4}
    assert max(total for total, _ in seen) <= 5
    assert min(ready for _, ready in seen) >= 3


def test_a_broken_revision_does_not_take_the_old_one_down() -> None:
    """Pods that never become ready stop the rollout, and the deadline is reported."""
    world = script(4, progressDeadlineSeconds=60)
    world.change(DEPLOYMENTS, "web", new_image("broken"))
    world.advance(30)
    assert sizes(world)["v1"] == 3
    world.advance(40)
    assert condition(world, "Progressing") == ("False", "ProgressDeadlineExceeded")
    assert condition(world, "Available") == ("True", "MinimumReplicasAvailable")


def test_undo_goes_back_to_the_old_replica_set_with_a_new_revision() -> None:
    """Rolling back reuses the ReplicaSet; its revision becomes the newest."""
    world = script(1)
    world.change(DEPLOYMENTS, "web", new_image("v2"))
    world.settle()
    world.set_ready()
    world.settle()
    world.change(DEPLOYMENTS, "web", new_image("v1"))
    world.settle()
    world.set_ready()
    world.settle()
    revisions = {
        image_of(item["spec"]["template"]): item["metadata"]["annotations"][REVISION]
        for item in world.all(REPLICA_SETS)
    }
    assert revisions == {"v1": "3", "v2": "2"}
    assert sizes(world) == {"v1": 1}


@pytest.mark.parametrize("number", ["²", "٣", "--5", "-5", "", "1_0", "9" * 5000])
def test_annotations_that_are_no_numbers_are_as_good_as_none(number: str) -> None:
    """Whoever writes nonsense where the controller keeps its numbers holds nothing up; they begin anew."""
    world = script(4)
    kept = (REVISION, "deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas")
    world.change(
        REPLICA_SETS, world.names(REPLICA_SETS)[0], {"metadata": {"annotations": dict.fromkeys(kept, number)}}
    )
    world.change(DEPLOYMENTS, "web", {"metadata": {"annotations": {REVISION: number}}})
    world.change(DEPLOYMENTS, "web", new_image("v2"))
    for _ in range(9):
        world.settle()
        world.set_ready()
    world.settle()
    assert sizes(world) == {"v2": 4}
    assert world.get(DEPLOYMENTS, "web")["metadata"]["annotations"][REVISION] == "1"


def test_recreate_waits_until_every_old_pod_is_gone() -> None:
    """With the Recreate strategy no two revisions run side by side."""
    world = script(2, strategy={"type": "Recreate"})
    for name in world.names(PODS):
        world.change(PODS, name, {"spec": {"nodeName": "n"}})
    world.settle()
    world.change(DEPLOYMENTS, "web", new_image("v2"))
    world.settle()
    assert sizes(world) == {"v1": 2}, "they are terminating"
    for name in world.names(PODS):
        world.delete(PODS, name, grace=0)
    world.settle()
    assert sizes(world) == {"v2": 2}


def test_scaling_during_a_rollout_is_shared_in_proportion() -> None:
    """Both revisions grow when a Deployment is scaled in the middle of an update."""
    rolling = {"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
    world = script(10, strategy=rolling)
    world.change(DEPLOYMENTS, "web", new_image("v2"))
    world.settle()
    assert sizes(world) == {"v1": 8, "v2": 5}
    world.change(DEPLOYMENTS, "web", {"spec": {"replicas": 15}})
    world.settle()
    assert sizes(world) == {"v1": 11, "v2": 7}


def test_a_paused_deployment_scales_but_does_not_roll() -> None:
    """Pausing keeps the revision, not the size."""
    world = script(2)
    world.change(DEPLOYMENTS, "web", {"spec": {"paused": True}})
    world.change(DEPLOYMENTS, "web", new_image("v2"))
    world.change(DEPLOYMENTS, "web", {"spec": {"replicas": 3}})
    world.settle()
    assert sizes(world) == {"v1": 3}
    assert condition(world, "Progressing") == ("Unknown", "DeploymentPaused")


def test_old_revisions_beyond_the_limit_are_removed() -> None:
    """revisionHistoryLimit says how many idle ReplicaSets are kept."""
    world = script(1, revisionHistoryLimit=1)
    for image in ("v2", "v3", "v4"):
        world.change(DEPLOYMENTS, "web", new_image(image))
        world.settle()
        world.set_ready()
        world.settle()
    assert len(world.all(REPLICA_SETS)) == 2


@pytest.mark.parametrize(
    ("value", "total", "up", "expected"),
    [(2, 10, True, 2), ("25%", 10, True, 3), ("25%", 10, False, 2), ("0%", 5, True, 0), (None, 4, True, 1)],
)
def test_numbers_and_percentages(value: int | str | None, total: int, up: bool, expected: int) -> None:
    """Surges round up, unavailability rounds down."""
    assert expected == resolved(value, total, default="25%", up=up)


def test_its_pods_are_named_as_from_a_file() -> None:
    """The hash is that of the template as the server stores it, be it read from a file or from the server."""
    deployment = workload("web", 1)
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    container |= {"resources": {"requests": {"cpu": 0.5}}, "ports": [{"name": "http", "containerPort": 80}]}
    container |= {"env": [{"name": "ZONE", "value": "a"}], "readinessProbe": {"httpGet": {"port": "http"}}}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", **deployment}
    (offline,) = expand(load(["-"], io.BytesIO(msgspec.json.encode(deployment)))).replica_sets
    default("apps", "Deployment", deployment)
    assert container["terminationMessagePolicy"] == "File"
    world = Script(DeploymentController, ReplicaSetController)
    world.create(DEPLOYMENTS, deployment)
    world.settle()
    assert world.names(REPLICA_SETS) == [offline.metadata.name]
    assert offline.metadata.labels == world.all(REPLICA_SETS)[0]["metadata"]["labels"]
