import msgspec
from msgspec.structs import replace

from berth.kube.objects import ObjectMeta, PersistentVolumeClaimStatus, Pod, StorageClass, Workload
from tests.support.builders import PodBuilder, make_pod
from tests.support.snapshots import explained, simulated, snapshot, where, zone_node
from tests.support.storage import make_claim, make_class, make_volume

A, B = zone_node("a", "1").labels(zone="1").build(), zone_node("b", "2").labels(zone="2").build()
ON_B = {"zone": "2"}


def written(pod: PodBuilder) -> Pod:
    """A pod that no API server has seen."""
    built = pod.build()
    return replace(built, metadata=replace(built.metadata, uid=None))


def default_class(storage_class: StorageClass) -> StorageClass:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    return replace(
        storage_class, metadata=ObjectMeta(name=storage_class.metadata.name, annotations=annotations)
    )


def test_pods_with_claims_are_placed_if_there_is_no_storage_object_at_all() -> None:
    """Pods with claims are placed without any storage object, since people simulate partial dumps."""
    assert where(simulated(A, make_pod("p").mounts("data").build())) == {"p": "a"}


def test_claims_that_are_not_among_the_files_are_told_of() -> None:
    """The pod is placed as if it had none, so a note names the claim and the pod, and counts the others."""
    p, q = (make_pod(name).mounts(claim).build() for name, claim in (("p", "data"), ("q", "other")))
    assert (
        "claim default/data of default/p is not among the files: nothing is known of where its volume is"
        in (snapshot(A, p).notes)
    )
    (note,) = snapshot(A, p, q).notes
    assert note == (
        "claim default/data of default/p and 1 more are not among the files: "
        "nothing is known of where their volumes are"
    )
    on_a = make_pod("r").mounts("data").on("a").build()
    assert not snapshot(A, on_a).notes
    assert not any(note.startswith("claim ") for note in snapshot(A, make_class("csi"), p).notes)


def test_claims_that_a_stateful_set_makes_are_not_missing() -> None:
    """Nothing is noted of claims that its pods get as they are made."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}
    spec = {
        "replicas": 2,
        "selector": {"matchLabels": {"a": "b"}},
        "template": template,
        "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
    }
    metadata = {"name": "db", "namespace": "default", "uid": "u"}
    made = msgspec.convert({"kind": "StatefulSet", "metadata": metadata, "spec": spec}, Workload)
    result = snapshot(A, made)
    assert len(result.pending) == 2
    assert not result.notes


def test_a_missing_claim_counts_once_there_is_one_storage_object() -> None:
    """A missing claim keeps a pod away as soon as the input has any storage object."""
    result = simulated(A, make_class("csi"), make_pod("p").mounts("data").build())

    (unplaced,) = result.unplaced
    assert unplaced.message == '0/1 nodes are available: persistentvolumeclaim "data" not found.'


def test_bound_volumes_draw_pods_to_their_nodes() -> None:
    """A simulated pod goes to the node of its bound volume."""
    claim, volume = make_claim("data", volume="pv"), make_volume("pv", on=ON_B, claim="data")

    assert where(simulated(A, B, claim, volume, make_pod("p").mounts("data").build())) == {"p": "b"}


def test_each_volume_is_given_to_one_claim() -> None:
    """The second pod finds the only volume promised to the first."""
    claims = make_claim("data-0"), make_claim("data-1")
    pods = [make_pod(f"p{i}").mounts(f"data-{i}").build() for i in range(2)]
    result = simulated(A, B, make_class("local"), *claims, make_volume("pv", on=ON_B), *pods)

    assert where(result) == {"p0": "b"}
    assert [unplaced.entry.name for unplaced in result.unplaced] == ["p1"]


def test_a_claim_is_made_where_its_first_pod_goes() -> None:
    """Pods that share it follow, however much better the other node looks."""
    pods = [make_pod(f"p{i}").labels(app="x").mounts("data").build() for i in range(3)]
    result = simulated(A, B, make_class("csi", "csi.example.com"), make_claim("data", "csi"), *pods)

    assert len(set(where(result).values())) == 1
    assert len(result.placements) == 3


def test_explaining_a_pod_goes_back_to_before_its_volume_was_promised() -> None:
    """Explaining a placed pod ignores the volume that was promised to it."""
    claims = make_claim("data-0"), make_claim("data-1")
    pods = [make_pod(f"p{i}").mounts(f"data-{i}").build() for i in range(2)]
    found = explained("p0", A, B, make_class("local"), *claims, make_volume("pv", on=ON_B), *pods)

    assert found.node == "b"
    assert [node.name for node in found.nodes if node.feasible] == ["b"]


def test_a_volume_written_by_hand_is_available() -> None:
    """A volume without a status in a file counts as available."""
    claim, volume = make_claim("data", uid=None), make_volume("pv", on=ON_B, phase=None)

    assert where(
        simulated(A, B, make_class("local"), claim, volume, written(make_pod("p").mounts("data")))
    ) == {"p": "b"}


def test_a_claim_written_by_hand_is_bound_by_the_time_its_pod_is_placed() -> None:
    """No controller has seen it, so that it is unbound says nothing; volumes that are there count."""
    claim, pod = make_claim("data", "fast", uid=None), written(make_pod("p").mounts("data"))
    immediate = make_class("fast", "csi.example.com", immediate=True)
    no_provisioner = make_class("fast", immediate=True)
    volume = make_volume("pv", "fast", on=ON_B, phase=None)

    assert where(simulated(A, claim, pod)) == {"p": "a"}
    assert where(simulated(A, claim, immediate, pod)) == {"p": "a"}
    assert where(simulated(A, B, claim, no_provisioner, volume, pod)) == {"p": "b"}
    assert where(simulated(A, claim, no_provisioner, pod)) == {}


def test_a_claim_written_by_hand_gets_the_default_class() -> None:
    """A claim without a class in a file gets the default class."""
    storage_class = default_class(make_class("csi", "csi.example.com", zones=["2"]))
    pod = written(make_pod("p").mounts("data"))

    assert where(simulated(A, B, storage_class, make_claim("data", None, uid=None), pod)) == {"p": "b"}


def test_a_claim_that_a_server_knows_is_taken_as_it_is() -> None:
    """A claim with a UID is not treated as one written by hand."""
    immediate = make_class("fast", "csi.example.com", immediate=True)
    result = simulated(A, make_claim("data", "fast"), immediate, make_pod("p").mounts("data").build())

    (unplaced,) = result.unplaced
    assert "pod has unbound immediate PersistentVolumeClaims" in unplaced.message


def test_the_claims_of_ephemeral_volumes_are_made() -> None:
    """Each pod has its own, and a class that allows one zone decides."""
    storage_class = make_class("csi", "csi.example.com", zones=["2"])
    pods = [written(make_pod(f"p{i}").ephemeral_volume("scratch", "csi")) for i in range(2)]

    assert where(simulated(A, B, storage_class, *pods)) == {"p0": "b", "p1": "b"}


def test_a_written_claim_that_is_said_to_be_pending_was_left_so() -> None:
    """With the status of a server it is judged as the server's: only a class that waits lets it be placed."""
    written_claim = make_claim("data", "fast", uid=None)
    claim = replace(written_claim, status=PersistentVolumeClaimStatus(phase="Pending"))
    pod = written(make_pod("p").mounts("data"))
    immediate, waiting = (make_class("fast", "csi.example.com", immediate=each) for each in (True, False))

    assert where(simulated(A, waiting, claim, pod)) == {"p": "a"}
    for classes in ((immediate,), ()):
        (unplaced,) = simulated(A, *classes, claim, pod).unplaced
        assert unplaced.message.endswith("pod has unbound immediate PersistentVolumeClaims.")


def test_a_missing_storage_class_is_noted() -> None:
    """It is said what becomes of its claims; a class that only volumes have needs no object."""
    claim = make_claim("data", "fast", uid=None)
    pending = replace(claim, status=PersistentVolumeClaimStatus(phase="Pending"))
    missing = "there is no StorageClass fast among the files: its claims "

    assert snapshot(A, claim).notes == [f"{missing}are taken to find a volume on any node"]
    assert snapshot(A, pending).notes == [f"{missing}stay Pending"]
    assert not snapshot(A, claim, make_volume("pv", "fast", on=ON_B)).notes
    assert not snapshot(A, claim, make_class("fast", "csi.example.com")).notes
