"""Pods go where their volumes are, or say where volumes shall be made."""

from __future__ import annotations

from typing import Any

from tests.support.api.client import Json
from tests.support.builders import HOSTNAME, ZONE, PodBuilder, make_pod
from tests.support.worlds.cluster import CORE, STORAGE, ClusterWorld, zoned

SELECTED_NODE = "volume.kubernetes.io/selected-node"
_SIZE = {"storage": "1Gi"}


def two_zones(world: ClusterWorld) -> None:
    world.nodes(zoned("n1", "a"), zoned("n2", "b"))


def storage_class(world: ClusterWorld, mode: str, provisioner: str = "example.com/disks") -> str:
    name = f"{world.namespace}-{mode.lower()}"
    body = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}
    world.make(f"{STORAGE}/storageclasses", body)
    return name


def claim(world: ClusterWorld, name: str = "data", **spec: Any) -> Json:
    full = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": _SIZE}, **spec}
    return world.make(world.path("persistentvolumeclaims"), {"metadata": {"name": name}, "spec": full})


def volume(world: ClusterWorld, claimed: Json, *, labels: dict[str, str] | None = None, **spec: Any) -> str:
    """A volume made for a claim."""
    name = f"pv-{claimed['metadata']['uid']}"
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": world.namespace,
        "name": claimed["metadata"]["name"],
        "uid": claimed["metadata"]["uid"],
    }
    body = {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "capacity": _SIZE,
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "example.com", "volumeHandle": name},
            "storageClassName": claimed["spec"].get("storageClassName", ""),
            "claimRef": reference,
            **spec,
        },
    }
    world.make(f"{CORE}/persistentvolumes", body)
    world.patch(f"{CORE}/persistentvolumes/{name}/status", {"status": {"phase": "Bound"}})
    return name


def bind(world: ClusterWorld, claimed: Json, volume_name: str) -> None:
    """What the volume controller does when a claim has its volume."""
    path = world.path("persistentvolumeclaims", claimed["metadata"]["name"])
    annotations = {"pv.kubernetes.io/bind-completed": "yes"}
    world.patch(path, {"metadata": {"annotations": annotations}, "spec": {"volumeName": volume_name}})
    status = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": _SIZE}
    world.patch(f"{path}/status", {"status": status})


def only_on(*nodes: str) -> dict[str, Any]:
    expression = {"key": HOSTNAME, "operator": "In", "values": list(nodes)}
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}


def with_claim(builder: PodBuilder, world: ClusterWorld, name: str = "data") -> str:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    return world.pod(builder, volumes=volumes)


def test_a_pod_goes_where_its_volume_can_be_used(scheduled: ClusterWorld) -> None:
    """The node affinity of a bound volume is a rule like the pod's own."""
    two_zones(scheduled)
    data = claim(scheduled, storageClassName="")
    bind(scheduled, data, volume(scheduled, data, **only_on("n2")))
    with_claim(make_pod("db"), scheduled)

    assert scheduled.bound("db") == "n2"


def test_a_pod_goes_to_the_zone_of_its_volume(scheduled: ClusterWorld) -> None:
    """Older volumes say it with a label."""
    two_zones(scheduled)
    data = claim(scheduled, storageClassName="")
    bind(scheduled, data, volume(scheduled, data, labels={ZONE: "b"}))
    with_claim(make_pod("db"), scheduled)

    assert scheduled.bound("db") == "n2"


def test_a_volume_out_of_reach_is_a_reason(scheduled: ClusterWorld) -> None:
    """The pod waits, says why, and is placed on the node that joins with access to it."""
    two_zones(scheduled)
    data = claim(scheduled, storageClassName="")
    bind(scheduled, data, volume(scheduled, data, **only_on("n3")))
    with_claim(make_pod("db"), scheduled)
    message = scheduled.refused("db")
    assert "2 node(s) didn't match PersistentVolume's node affinity" in message
    scheduled.nodes(zoned("n3", "c"))

    assert scheduled.bound("db") == "n3"


def test_a_missing_claim_is_a_reason(scheduled: ClusterWorld) -> None:
    """A pod without its claim says so and is placed when the claim comes."""
    two_zones(scheduled)
    with_claim(make_pod("db"), scheduled)
    assert 'persistentvolumeclaim "data" not found' in scheduled.refused("db")
    data = claim(scheduled, storageClassName="")
    bind(scheduled, data, volume(scheduled, data, **only_on("n1")))

    assert scheduled.bound("db") == "n1"


def test_a_claim_that_is_bound_by_others_is_waited_for(scheduled: ClusterWorld) -> None:
    """An unbound claim of a class that binds at once is not the scheduler's to decide."""
    two_zones(scheduled)
    data = claim(scheduled, storageClassName=storage_class(scheduled, "Immediate"))
    with_claim(make_pod("db"), scheduled)
    assert "pod has unbound immediate PersistentVolumeClaims" in scheduled.refused("db")
    bind(scheduled, data, volume(scheduled, data, **only_on("n2")))

    assert scheduled.bound("db") == "n2"


def selected_node(world: ClusterWorld) -> str | None:
    found = world.get(world.path("persistentvolumeclaims", "data"))
    annotations: dict[str, str] = found["metadata"].get("annotations") or {}
    return annotations.get(SELECTED_NODE)


def test_a_claim_that_waits_for_its_consumer_is_told_the_node(scheduled: ClusterWorld) -> None:
    """The pod is bound only after the volume was made there."""
    two_zones(scheduled)
    data = claim(scheduled, storageClassName=storage_class(scheduled, "WaitForFirstConsumer"))
    with_claim(make_pod("db").node_selector({ZONE: "b"}), scheduled)
    scheduled.until(lambda: selected_node(scheduled) == "n2", "the claim is told n2")
    scheduled.passed_over("db")
    bind(scheduled, data, volume(scheduled, data, **only_on("n2")))

    assert scheduled.bound("db") == "n2"


def test_the_pod_that_waits_for_its_volume_keeps_its_room(scheduled: ClusterWorld) -> None:
    """Nobody else gets the room of a pod that waits for its volume."""
    scheduled.nodes(zoned("n1", "a").capacity(cpu="2"))
    data = claim(scheduled, storageClassName=storage_class(scheduled, "WaitForFirstConsumer"))
    with_claim(make_pod("db").requests(cpu="2"), scheduled)
    scheduled.until(lambda: selected_node(scheduled) == "n1", "the claim is told n1")
    scheduled.pod(make_pod("web").requests(cpu="1"))
    scheduled.refused("web", "1 Insufficient cpu")
    bind(scheduled, data, volume(scheduled, data, **only_on("n1")))

    assert scheduled.bound("db") == "n1"
    assert scheduled.node_of("web") is None


def test_a_volume_is_made_where_there_is_room(scheduled: ClusterWorld) -> None:
    """A driver that tells how much is left is asked; the pod waits, and goes where room turns up."""
    two_zones(scheduled)
    driver = f"{scheduled.namespace}.example.com"
    spec = {"storageCapacity": True, "attachRequired": False}
    scheduled.make(f"{STORAGE}/csidrivers", {"metadata": {"name": driver}, "spec": spec})
    name = storage_class(scheduled, "WaitForFirstConsumer", provisioner=driver)
    left = {
        "metadata": {"name": "zone-b"},
        "storageClassName": name,
        "capacity": "100Mi",
        "nodeTopology": {"matchLabels": {ZONE: "b"}},
    }
    path = scheduled.path("csistoragecapacities", prefix=STORAGE)
    scheduled.make(path, left)
    claim(scheduled, storageClassName=name)
    with_claim(make_pod("db"), scheduled)
    assert "2 node(s) did not have enough free storage" in scheduled.refused("db")
    scheduled.patch(f"{path}/zone-b", {"capacity": "10Gi"})

    scheduled.until(lambda: selected_node(scheduled) == "n2", "the claim is told n2")
