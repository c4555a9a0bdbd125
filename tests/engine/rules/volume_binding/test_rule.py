import pytest

from berth.engine.state.options import Options
from berth.kube.defaults import default_node
from berth.kube.objects import PersistentVolumeClaim
from tests.support.builders import make_node, make_pod, make_selector
from tests.support.storage import (
    Stored,
    causes,
    cluster_with,
    feasible,
    make_claim,
    make_class,
    make_volume,
    message,
    store,
    verdict,
)

A = make_node("a").labels(zone="1", disk="a")
B = make_node("b").labels(zone="2", disk="b")
POD = make_pod("p").mounts("data")
ON_A, ON_B = {"disk": "a"}, {"disk": "b"}
UNBOUND = "pod has unbound immediate PersistentVolumeClaims."
NOT_THERE = 'persistentvolumeclaim "data" not found.'


# --- claims as a whole ------------------------------------------------------------------------


def test_pods_without_claims_know_nothing_of_volumes() -> None:
    """The rules are not even listed for them."""
    found = verdict(cluster_with(A), make_pod("p"))

    assert not {name for name in found.prefilter if name.startswith("Volume")}


def test_claims_do_not_matter_while_the_objects_are_not_known() -> None:
    """Partial dumps are simulated without complaint."""
    cluster = cluster_with(A, B, known=False)

    assert feasible(cluster, POD) == ["a", "b"]
    assert "VolumeBinding" not in verdict(cluster, POD).prefilter


def test_a_missing_claim_is_a_reason() -> None:
    """A pod whose claim does not exist fits nowhere and says so."""
    assert message(cluster_with(A), POD) == NOT_THERE
    assert not feasible(cluster_with(A), POD)


@pytest.mark.parametrize(
    ("claim", "expected", "words"),
    [
        (make_claim("data", None), UNBOUND, "Pending: it has no class, and no volume is bound to it"),
        (make_claim("data", "unknown"), UNBOUND, "Pending: its StorageClass unknown is not there"),
        (make_claim("data", "now"), UNBOUND, "Pending: StorageClass now has not given it a volume yet"),
        (
            make_claim("data", "later", volume="pv", completed=False),
            UNBOUND,
            "Pending: it is not bound to volume pv yet",
        ),
        (
            make_claim("data", deleting=True),
            'persistentvolumeclaim "data" is being deleted.',
            "being deleted",
        ),
        (
            make_claim("data", volume="gone", phase="Lost"),
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "gone".',
            "Lost: its volume gone is not there",
        ),
    ],
)
def test_claims_that_no_node_can_serve(claim: PersistentVolumeClaim, expected: str, words: str) -> None:
    """A claim no node can serve keeps the pod away in kube-scheduler's words; ours name it and its state."""
    classes = make_class("now", "csi.example.com", immediate=True), make_class("later", "csi.example.com")
    cluster = cluster_with(A, claim, make_volume("pv", claim="data"), *classes)

    assert message(cluster, POD) == expected
    assert not feasible(cluster, POD)
    assert causes(cluster, POD, "a") == {"VolumeBinding": (f"claim data is {words}",)}


def test_a_disabled_rule_leaves_volumes_alone() -> None:
    """A profile may do without all of them."""
    rules = {"VolumeBinding", "VolumeZone", "VolumeRestrictions", "NodeVolumeLimits"}
    options = Options(disabled=frozenset(rules))

    assert feasible(cluster_with(A, options=options), POD) == ["a"]


def test_without_volume_binding_the_others_refuse_what_is_not_there() -> None:
    """With VolumeBinding off, missing claims and volumes still keep a pod away."""
    options = Options(disabled=frozenset({"VolumeBinding"}))
    cluster = cluster_with(A, options=options)

    assert not feasible(cluster, POD)
    assert message(cluster, POD) == NOT_THERE
    store(cluster, make_claim("data", volume="gone"))
    assert not feasible(cluster, POD)
    assert message(cluster, POD) == 'persistentvolume "gone" not found.'


# --- bound claims -------------------------------------------------------------------------------


def test_a_bound_volume_is_only_reachable_from_its_nodes() -> None:
    """Only the nodes a bound volume allows are feasible, and the cause names its term."""
    cluster = cluster_with(A, B, make_claim("data", volume="pv"), make_volume("pv", on=ON_B, claim="data"))

    assert feasible(cluster, POD) == ["b"]
    assert causes(cluster, POD, "a") == {
        "VolumeBinding": ("volume pv of claim data wants disk=b, the node has disk=a",)
    }


def test_the_reason_for_a_volume_elsewhere() -> None:
    """A node the bound volume does not allow is rejected in kube-scheduler's words."""
    cluster = cluster_with(A, make_claim("data", volume="pv"), make_volume("pv", on=ON_B, claim="data"))

    assert message(cluster, POD) == "1 node(s) didn't match PersistentVolume's node affinity."


def test_a_relabelled_node_may_reach_the_volume() -> None:
    """Single nodes are asked again when they change."""
    cluster = cluster_with(A, B, make_claim("data", volume="pv"), make_volume("pv", on=ON_B, claim="data"))
    assert feasible(cluster, POD) == ["b"]
    cluster.add_node(default_node(A.labels(disk="b").build()))

    assert feasible(cluster, POD) == ["a", "b"]


def test_a_bound_volume_that_is_not_there() -> None:
    """VolumeZone finds it missing before any node is looked at."""
    cluster = cluster_with(A, make_claim("data", volume="gone"))

    assert message(cluster, POD) == 'persistentvolume "gone" not found.'
    assert causes(cluster, POD, "a") == {
        "VolumeBinding": ("claim data is bound to volume gone, which is not there",)
    }


def test_without_volume_zone_each_node_is_refused_for_a_volume_that_is_not_there() -> None:
    """With VolumeZone off, a missing volume is a reason on each node."""
    options = Options(disabled=frozenset({"VolumeZone"}))
    cluster = cluster_with(A, make_claim("data", volume="gone"), options=options)

    expected = "1 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)."
    assert message(cluster, POD) == expected


# --- volumes to choose from --------------------------------------------------------------------


def waiting(*things: Stored) -> list[str]:
    """Where a pod fits whose claim waits for its first consumer, in a class that makes no volumes."""
    return feasible(cluster_with(A, B, make_class("local"), *things), POD)


def test_a_waiting_claim_needs_an_available_volume() -> None:
    """A claim that waits fits where a free volume is reachable, and nowhere without one."""
    assert waiting(make_claim("data"), make_volume("pv", on=ON_B)) == ["b"]
    assert waiting(make_claim("data"), make_volume("pv")) == ["a", "b"]
    assert waiting(make_claim("data")) == []


def test_the_reason_for_no_volume() -> None:
    """A node without a free volume is rejected in kube-scheduler's words, with its cause."""
    cluster = cluster_with(A, make_class("local"), make_claim("data"), make_volume("pv", on=ON_B))

    assert message(cluster, POD) == "1 node(s) didn't find available persistent volumes to bind."
    assert causes(cluster, POD, "a") == {
        "VolumeBinding": ("claim data finds no volume here, and none can be made",)
    }


@pytest.mark.parametrize(
    ("claim", "unsuitable"),
    [
        (make_claim("data", size="2Gi"), make_volume("pv", size="1Gi")),
        (make_claim("data"), make_volume("pv", "other")),
        (make_claim("data", modes=["ReadWriteMany"]), make_volume("pv")),
        (make_claim("data", volume_mode="Block"), make_volume("pv")),
        (make_claim("data", selector=make_selector(tier="fast")), make_volume("pv", labels={"tier": "slow"})),
        (make_claim("data"), make_volume("pv", phase="Released")),
        (make_claim("data"), make_volume("pv", claim="another")),
        (make_claim("data"), make_volume("pv", claim="data", claim_uid="uid-of-its-predecessor")),
    ],
    ids=["size", "class", "access", "mode", "selector", "phase", "taken", "uid"],
)
def test_volumes_that_do_not_suit(claim: PersistentVolumeClaim, unsuitable: Stored) -> None:
    """A volume of another size, class, mode, label, phase or claim does not suit."""
    assert waiting(claim, unsuitable) == []


def test_a_volume_that_suits_in_every_respect() -> None:
    """A volume that meets every wish of the claim suits."""
    claim = make_claim(
        "data", size="1Gi", modes=["ReadWriteOnce"], selector=make_selector(tier="fast"), volume_mode="Block"
    )
    modes = ["ReadWriteOnce", "ReadWriteMany"]

    assert waiting(
        claim, make_volume("pv", size="1Gi", modes=modes, labels={"tier": "fast"}, volume_mode="Block")
    ) == ["a", "b"]


def test_a_volume_meant_for_the_claim_is_the_only_one() -> None:
    """Others are not looked at, and its phase does not matter."""
    meant = make_volume("meant", on=ON_B, claim="data", phase="Bound")

    assert waiting(make_claim("data"), meant, make_volume("pv", on=ON_A)) == ["b"]


def test_two_claims_need_two_volumes() -> None:
    """Two claims of a pod need two different volumes."""
    pod = POD.mounts("logs")
    things = (make_class("local"), make_claim("data"), make_claim("logs"), make_volume("pv-1"))
    one_on_a = cluster_with(A, B, *things, make_volume("pv-2", on=ON_A))

    assert feasible(cluster_with(A, B, *things), pod) == []
    assert feasible(one_on_a, pod) == ["a"]
    assert causes(one_on_a, pod, "b") == {
        "VolumeBinding": ("claim logs finds no volume here, and none can be made",)
    }


def test_small_claims_are_served_first() -> None:
    """The small claim must not take the large volume, in whatever order the pod has them."""
    things = (
        make_class("local"),
        make_claim("data", size="5Gi"),
        make_claim("logs", size="1Gi"),
        make_volume("large", size="10Gi"),
        make_volume("small", size="2Gi"),
    )

    assert feasible(cluster_with(A, *things), POD.mounts("logs")) == ["a"]


def test_a_claim_that_only_one_pod_volume_mounts_twice_is_one_claim() -> None:
    """A claim that is mounted twice needs one volume."""
    cluster = cluster_with(A, make_class("local"), make_claim("data"), make_volume("pv"))

    assert feasible(cluster, POD.mounts("data")) == ["a"]


# --- volumes to be made --------------------------------------------------------------------------


def test_a_class_can_make_volumes_for_the_nodes_it_allows() -> None:
    """A provisioning class makes a node feasible where its topology allows."""
    claim = make_claim("data", "csi")
    anywhere = cluster_with(A, B, claim, make_class("csi", "csi.example.com"))
    only_2 = cluster_with(A, B, claim, make_class("csi", "csi.example.com", zones=["2", "3"]))

    assert feasible(anywhere, POD) == ["a", "b"]
    assert feasible(only_2, POD) == ["b"]
    assert causes(only_2, POD, "a") == {
        "VolumeBinding": ("claim data finds no volume here, and class csi makes them for zone in (2,3)",)
    }


def test_a_selected_node_is_the_only_one() -> None:
    """The volume is being made for it."""
    claim = make_claim("data", "csi", node="b")
    cluster = cluster_with(A, B, claim, make_class("csi", "csi.example.com"))

    assert feasible(cluster, POD) == ["b"]
    assert causes(cluster, POD, "a") == {
        "VolumeBinding": ("the volume of claim data is being made for node b",)
    }


def test_a_volume_meant_for_the_claim_elsewhere_does_not_keep_one_from_being_made() -> None:
    """A volume reserved for the claim elsewhere does not rule out provisioning here."""
    meant = make_volume("meant", "csi", on=ON_B, claim="data")
    cluster = cluster_with(A, B, make_claim("data", "csi"), meant, make_class("csi", "csi.example.com"))

    assert feasible(cluster, POD) == ["a", "b"]


def test_a_mismatch_of_bound_and_of_waiting_claims_are_two_reasons() -> None:
    """Bound and waiting claims that fail on one node give two reasons."""
    cluster = cluster_with(
        A,
        make_class("local"),
        make_claim("logs", volume="pv"),
        make_volume("pv", on=ON_B, claim="logs"),
        make_claim("data"),
    )

    assert message(cluster, POD.mounts("logs")) == (
        "1 node(s) didn't find available persistent volumes to bind, "
        "1 node(s) didn't match PersistentVolume's node affinity."
    )


# --- ephemeral volumes ---------------------------------------------------------------------------

SCRATCH = make_pod("p").ephemeral_volume("scratch")


def test_the_claim_of_an_ephemeral_volume_has_to_be_made_first() -> None:
    """A pod waits until the claim of its ephemeral volume was made."""
    expected = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch".'

    assert message(cluster_with(A), SCRATCH) == expected


def test_the_claim_of_an_ephemeral_volume_must_belong_to_the_pod() -> None:
    """A claim that another pod owns does not serve an ephemeral volume."""
    things = A, make_class("csi", "csi.example.com")
    strange = cluster_with(*things, make_claim("p-scratch", "csi", owner="uid-q"))
    own = cluster_with(*things, make_claim("p-scratch", "csi", owner="uid-p"))

    assert message(strange, SCRATCH) == (
        "PVC default/p-scratch was not created for pod default/p (pod is not owner)."
    )
    assert feasible(own, SCRATCH) == ["a"]


def test_replicas_with_ephemeral_volumes_are_judged_by_their_own_claims() -> None:
    """Each replica is judged by the claim of its own ephemeral volume."""
    cluster = cluster_with(A, B, make_class("csi", "csi.example.com"))
    store(cluster, make_claim("p-scratch", "csi", owner="uid-p", node="a"))
    store(cluster, make_claim("q-scratch", "csi", owner="uid-q", node="b"))

    assert feasible(cluster, SCRATCH) == ["a"]
    assert feasible(cluster, make_pod("q").ephemeral_volume("scratch")) == ["b"]
