"""Pods whose claims wait for a node: the claim is told, and the pod is bound when the claim is."""

from __future__ import annotations

from typing import Any

from berth.engine.state.options import Options
from berth.kube.api_resources import CLAIMS, CSI_DRIVERS, CSI_NODES, PODS, VOLUMES
from tests.scheduler.objects import claim, mounts, storage_class, volume
from tests.support.scripts.scheduler import SchedulerScript

SELECTED = "volume.kubernetes.io/selected-node"
DRIVER = "csi.example.com"


def bind_claim(story: SchedulerScript, name: str, volume_name: str) -> None:
    """What a provisioner and the volume controller do."""
    uid = story.get(CLAIMS, name)["metadata"]["uid"]
    reference = {"namespace": "default", "name": name, "uid": uid}
    story.change(VOLUMES, volume_name, {"spec": {"claimRef": reference}, "status": {"phase": "Bound"}})
    done = {"pv.kubernetes.io/bind-completed": "yes"}
    change: dict[str, Any] = {
        "metadata": {"annotations": done},
        "spec": {"volumeName": volume_name},
        "status": {"phase": "Bound"},
    }
    story.change(CLAIMS, name, change)


def selected_node(story: SchedulerScript, name: str = "data") -> str | None:
    node: str | None = story.get(CLAIMS, name)["metadata"].get("annotations", {}).get(SELECTED)
    return node


def test_a_bound_volume_decides_the_node() -> None:
    """A pod goes to the node its bound volume is on."""
    story = SchedulerScript()
    story.nodes("n1", "n2")
    storage_class(story)
    claim(story)
    volume(story, "pv", "n2")
    bind_claim(story, "data", "pv")
    story.pod("p", volumes=mounts())
    story.settle()
    assert story.placements == {"p": "n2"}


def test_a_missing_claim_is_a_reason() -> None:
    """A pod whose claim does not exist says so, and goes on when it is created."""
    story = SchedulerScript()
    story.nodes("n1")
    storage_class(story)
    story.pod("p", volumes=mounts("nowhere"))
    story.settle()
    assert 'persistentvolumeclaim "nowhere" not found' in (story.condition("p") or ("", ""))[1]
    claim(story, "nowhere")
    story.advance(2)
    assert selected_node(story, "nowhere") == "n1"


def test_a_waiting_claim_is_told_the_node_and_the_pod_waits_for_it() -> None:
    """The claim is told the selected node, and the pod is bound once the claim is."""
    story = SchedulerScript()
    story.nodes("n1")
    storage_class(story)
    claim(story)
    story.pod("p", volumes=mounts())
    story.advance(30)
    assert selected_node(story) == "n1"
    assert story.bindings == []
    volume(story, "pv", "n1")
    bind_claim(story, "data", "pv")
    story.settle()
    assert story.placements == {"p": "n1"}


def test_a_pod_that_waits_for_its_volume_counts_on_its_node() -> None:
    """A pod that waits for its volume keeps its room on the node."""
    story = SchedulerScript()
    story.nodes("n1")
    storage_class(story)
    claim(story)
    story.pod("p", cpu="3", volumes=mounts())
    story.settle()
    story.pod("q", cpu="3")
    story.settle()
    assert story.bindings == []


def test_a_provisioner_that_gives_up_makes_the_pod_be_placed_anew() -> None:
    """It takes the node's name off the claim."""
    story = SchedulerScript()
    story.nodes("n1")
    storage_class(story)
    claim(story)
    story.pod("p", volumes=mounts())
    story.settle()
    assert selected_node(story) == "n1"
    story.nodes("n2")
    story.change(CLAIMS, "data", {"metadata": {"annotations": {SELECTED: None}}})
    story.settle()
    assert story.bindings == []
    story.advance(2)
    assert selected_node(story) in ("n1", "n2")


def test_waiting_for_a_volume_has_an_end() -> None:
    """Waiting for a volume ends after the timeout with an event."""
    story = SchedulerScript(volume_timeout=60.0)
    story.nodes("n1")
    storage_class(story)
    claim(story)
    story.pod("p", volumes=mounts())
    story.advance(61)
    assert story.events("FailedScheduling")[-1].startswith("binding rejected: binding volumes: timed out")


def test_a_volume_that_is_there_is_promised_to_the_claim() -> None:
    """Nobody provisions for this class: the volume is told whom it belongs to."""
    story = SchedulerScript()
    story.nodes("n1", "n2")
    storage_class(story, "local", "kubernetes.io/no-provisioner")
    claim(story, "data", "local")
    volume(story, "pv", "n2", "local")
    story.pod("p", volumes=mounts())
    story.settle()
    reference = story.get(VOLUMES, "pv")["spec"]["claimRef"]
    assert (reference["namespace"], reference["name"]) == ("default", "data")
    assert reference["uid"] == story.get(CLAIMS, "data")["metadata"]["uid"]
    bind_claim(story, "data", "pv")
    story.settle()
    assert story.placements == {"p": "n2"}


def test_a_deleted_pod_gives_its_volume_back() -> None:
    """The volume chosen for a pod is free for another when the pod is deleted."""
    story = SchedulerScript()
    story.nodes("n1")
    storage_class(story, "local", "kubernetes.io/no-provisioner")
    claim(story, "one", "local")
    claim(story, "two", "local")
    volume(story, "pv", "n1", "local")
    story.pod("p", volumes=mounts("one"))
    story.settle()
    story.pod("q", volumes=mounts("two"))
    story.settle()
    assert "claimRef" in story.get(VOLUMES, "pv")["spec"]
    assert story.condition("q") is not None
    story.leave("p")
    story.change(VOLUMES, "pv", {"spec": {"claimRef": None}})
    story.advance(10)
    assert story.get(VOLUMES, "pv")["spec"]["claimRef"]["name"] == "two"
    assert story.names(PODS) == ["q"]


def test_a_volume_that_was_taken_meanwhile_is_left_alone() -> None:
    """The watch lags: the volume belongs to somebody else by now."""
    story = SchedulerScript()
    story.nodes("n1")
    storage_class(story, "local", "kubernetes.io/no-provisioner")
    claim(story, "data", "local")
    volume(story, "pv", "n1", "local")
    story.held.add(VOLUMES)
    theirs = {"namespace": "other", "name": "theirs", "uid": "u"}
    story.change(VOLUMES, "pv", {"spec": {"claimRef": theirs}, "status": {"phase": "Bound"}})
    story.pod("p", volumes=mounts())
    story.settle()
    assert story.get(VOLUMES, "pv")["spec"]["claimRef"] == theirs
    assert story.placements == {"p": None}


def test_a_node_that_goes_while_volumes_are_awaited_is_not_bound_to() -> None:
    """A node that goes while its volume is made is not bound to."""
    story = SchedulerScript()
    story.nodes("n1")
    storage_class(story)
    claim(story)
    story.pod("p", volumes=mounts())
    story.settle()
    story.drop_node("n1")
    volume(story, "pv", "n1")
    bind_claim(story, "data", "pv")
    story.settle()
    assert story.bindings == []


def test_a_profile_without_volume_binding_binds_at_once() -> None:
    """With VolumeBinding disabled a pod is bound without waiting for its claim."""
    story = SchedulerScript(profiles={"berth": Options(disabled=frozenset({"VolumeBinding"}))})
    story.nodes("n1")
    storage_class(story)
    claim(story)
    story.pod("p", volumes=mounts())
    story.settle()
    assert story.placements == {"p": "n1"}


def csi_node(name: str, most: int) -> dict[str, Any]:
    drivers = [{"name": "csi.example.com", "allocatable": {"count": most}}]
    return {"metadata": {"name": name}, "spec": {"drivers": drivers}}


def test_a_node_takes_no_more_volumes_than_its_driver_says() -> None:
    """The second pod waits, with kube-scheduler's reason, until the driver says that there is more room."""
    story = SchedulerScript()
    story.nodes("n1")
    storage_class(story)
    story.create(CSI_NODES, csi_node("n1", 1))
    for name in ("one", "two"):
        claim(story, name)
        volume(story, f"pv-{name}", "n1")
        bind_claim(story, name, f"pv-{name}")
        story.change(VOLUMES, f"pv-{name}", {"spec": {"csi": {"driver": DRIVER, "volumeHandle": name}}})
        story.pod(name, volumes=mounts(name))
        story.settle()
    assert story.placements == {"one": "n1", "two": None}
    assert "1 node(s) exceed max volume count" in (story.condition("two") or ("", ""))[1]
    story.change(CSI_NODES, "n1", csi_node("n1", 2))
    story.advance(60.0)
    assert story.placements == {"one": "n1", "two": "n1"}


def test_a_node_without_a_driver_that_wants_to_be_there() -> None:
    """A pod waits until the driver of its volume is installed, if that driver asks for it."""
    story = SchedulerScript()
    story.nodes("n1")
    storage_class(story)
    spec = {"preventPodSchedulingIfMissing": True}
    story.create(CSI_DRIVERS, {"metadata": {"name": DRIVER}, "spec": spec})
    claim(story)
    story.pod("p", volumes=mounts())
    story.settle()
    assert selected_node(story) is None
    story.create(CSI_NODES, csi_node("n1", 5))
    story.advance(60.0)
    assert selected_node(story) == "n1"
