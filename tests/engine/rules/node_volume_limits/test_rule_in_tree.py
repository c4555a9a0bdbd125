"""In-tree volumes count for the CSI drivers that have taken the place of their plugins."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from berth.engine.placement.preemption import PreemptionMemory, preempt
from berth.engine.placement.queueing_hints import can_help
from berth.engine.rules.node_volume_limits.rule import NodeVolumeLimits
from berth.engine.state.cluster_events import PodDeleted
from berth.kube.defaults import created
from berth.kube.objects import (
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    GCEPersistentDiskVolumeSource,
    ObjectMeta,
    VolumeNodeResources,
)
from tests.support.builders import make_node, make_pod
from tests.support.storage import (
    class_of,
    cluster_with,
    feasible,
    make_attachment,
    make_claim,
    make_class,
    make_volume,
    message,
    store,
)

GCE = "pd.csi.storage.gke.io"


def room_for(volumes: int) -> CSINode:
    limit = CSINodeDriver(name=GCE, allocatable=VolumeNodeResources(count=volumes))
    return CSINode(metadata=ObjectMeta(name="a"), spec=CSINodeSpec(drivers=[limit]))


def test_they_count_against_the_limit_of_the_driver() -> None:
    """Bound ones do and those that a class is to make, each once; not those only attached, as upstream."""
    cluster = cluster_with(make_node("a"), make_class("gce", "kubernetes.io/gce-pd"), room_for(2))
    for name in ("one", "two"):
        volume = make_volume(f"pv-{name}", "gce", claim=name)
        disk = GCEPersistentDiskVolumeSource(pd_name=name)
        store(cluster, replace(volume, spec=replace(volume.spec, gce_persistent_disk=disk)))
        store(cluster, make_claim(name, "gce", volume=f"pv-{name}"))
    store(cluster, make_claim("new", "gce"))
    attachment = make_attachment("a", "pv-two")
    store(cluster, replace(attachment, spec=replace(attachment.spec, attacher=GCE)))
    cluster.add_pod(created(make_pod("r").mounts("one").on("a").build()))
    pod = make_pod("p").mounts("new")

    assert feasible(cluster, pod) == ["a"]
    assert feasible(cluster, pod.mounts("one")) == ["a"]
    assert feasible(cluster, pod.mounts("two")) == []
    assert "exceed max volume count" in message(cluster, pod.mounts("two"))


def test_those_without_a_claim_count_as_well() -> None:
    """A disk counts once on a node, whatever happens to classes, and no longer when its last pod has left."""
    cluster = cluster_with(make_node("a"), make_class("gce", "kubernetes.io/gce-pd"), room_for(2))
    for name, disk in (("r1", "one"), ("r2", "one"), ("r3", "two")):
        source = {"pdName": disk, "readOnly": True}
        cluster.add_pod(created(make_pod(name).disk(gcePersistentDisk=source).on("a").build()))
    cluster.volumes.remove_class("gce")
    again, new = (
        make_pod("p").priority(9).disk(gcePersistentDisk={"pdName": disk, "readOnly": True})
        for disk in ("one", "three")
    )

    assert feasible(cluster, again) == ["a"]
    assert feasible(cluster, new) == []
    assert message(cluster, new) == "1 node(s) exceed max volume count."
    for memory in (None, PreemptionMemory()):
        found = preempt(cluster, class_of(cluster, new), budgets=[], started=lambda _: 0.0, memory=memory)
        assert found.victims == ("default/r3",)
    waiting, refused = class_of(cluster, new), {NodeVolumeLimits.name}
    helped = []
    for name in ("r1", "r2"):
        pod_class, _, _ = cluster.find_pod(f"default/{name}") or pytest.fail("it is there")
        cluster.remove_pod(f"default/{name}")
        helped.append(can_help(cluster, waiting, refused, PodDeleted(pod_class, 0)))
    assert helped == [False, True]
    assert feasible(cluster, new) == ["a"]
