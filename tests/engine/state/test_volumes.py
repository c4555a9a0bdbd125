import random

import numpy as np
import pytest

from berth.engine.placement.plan import plan_for
from berth.engine.rules.volume_binding import binds_volumes
from berth.engine.state.cluster import Cluster
from berth.engine.state.options import Options
from berth.engine.state.volumes.needs import VolumeDecisions
from berth.kube.objects import PersistentVolume, PersistentVolumeClaim
from tests.support.builders import NodeBuilder, PodBuilder, make_node, make_pod
from tests.support.storage import (
    Stored,
    class_of,
    cluster_with,
    feasible,
    make_claim,
    make_class,
    make_volume,
    store,
)

A = make_node("a").labels(zone="1", disk="a")
B = make_node("b").labels(zone="2", disk="b")
POD, OTHER = make_pod("p").mounts("data"), make_pod("q").mounts("logs")
ON_A, ON_B = {"disk": "a"}, {"disk": "b"}
LOCAL, CSI = make_class("local"), make_class("csi", "csi.example.com")


def decided(cluster: Cluster, pod: PodBuilder, node: str) -> VolumeDecisions:
    return cluster.volumes.decisions(class_of(cluster, pod), node)


def assume(cluster: Cluster, pod: PodBuilder, node: str) -> None:
    decisions = decided(cluster, pod, node)
    cluster.volumes.assume(pod.build().metadata.name or "", decisions, node)


# --- decisions ---------------------------------------------------------------------------------


def test_nothing_is_decided_for_pods_whose_claims_are_bound() -> None:
    """A pod whose claims are bound, or that has none, needs no decisions."""
    cluster = cluster_with(A, make_claim("data", volume="pv"), make_volume("pv", claim="data"))

    assert decided(cluster, POD, "a").empty
    assert decided(cluster, make_pod("bare"), "a").empty


def test_the_smallest_volume_on_the_node_is_bound() -> None:
    """The smallest volume that suits on the chosen node is bound."""
    cluster = cluster_with(
        A,
        B,
        LOCAL,
        make_claim("data", size="2Gi"),
        make_volume("larger", size="5Gi"),
        make_volume("smaller", size="3Gi", on=ON_A),
        make_volume("too-small", size="1Gi"),
    )

    assert decided(cluster, POD, "a") == VolumeDecisions(bind=(("smaller", "default", "data"),))
    assert decided(cluster, POD, "b") == VolumeDecisions(bind=(("larger", "default", "data"),))


def test_what_has_no_volume_is_made() -> None:
    """A claim without a volume is provisioned, but only if no existing volume suits."""
    cluster = cluster_with(A, B, CSI, make_claim("data", "csi"), make_volume("pv", "csi", on=ON_A))

    assert decided(cluster, POD, "a").bind == (("pv", "default", "data"),)
    assert decided(cluster, POD, "b") == VolumeDecisions(provision=(("default", "data"),))


def test_a_claim_whose_volume_is_being_made_is_still_to_wait_for() -> None:
    """A claim that has a selected node is still decided as to be provisioned."""
    cluster = cluster_with(A, CSI, make_claim("data", "csi", node="a"))

    assert decided(cluster, POD, "a") == VolumeDecisions(provision=(("default", "data"),))


def test_a_node_that_the_volumes_do_not_allow_has_no_decisions() -> None:
    """Deciding for a node the volumes do not allow is an error."""
    cluster = cluster_with(A, B, LOCAL, make_claim("data"), make_volume("pv", on=ON_A))

    with pytest.raises(ValueError, match="do not allow node b"):
        decided(cluster, POD, "b")


def test_a_profile_without_volume_binding_decides_nothing() -> None:
    """Whoever places the pod leaves its claims alone."""
    options = Options(disabled=frozenset({"VolumeBinding"}))
    cluster = cluster_with(A, CSI, make_claim("data", "csi"), options=options)

    assert not binds_volumes(class_of(cluster, POD))


# --- promises ----------------------------------------------------------------------------------


def test_a_promised_volume_is_not_available_to_others_until_it_is_forgotten() -> None:
    """A volume assumed for one pod is free for others only once it is forgotten."""
    cluster = cluster_with(A, B, LOCAL, make_claim("data"), make_claim("logs"), make_volume("pv", on=ON_A))
    assert feasible(cluster, OTHER) == ["a"]
    assume(cluster, POD, "a")

    assert feasible(cluster, OTHER) == []
    assert decided(cluster, POD, "a").bind == (("pv", "default", "data"),)
    cluster.volumes.forget("p")
    assert feasible(cluster, OTHER) == ["a"]


def test_a_promised_claim_is_feasible_on_its_node_only() -> None:
    """Another pod with the same claim has to go there, too."""
    cluster = cluster_with(A, B, CSI, make_claim("data", "csi"))
    same_claim = make_pod("r").labels(app="r").mounts("data")
    assert feasible(cluster, same_claim) == ["a", "b"]
    assume(cluster, POD, "b")

    assert feasible(cluster, same_claim) == ["b"]
    cluster.volumes.forget("p")
    assert feasible(cluster, same_claim) == ["a", "b"]


def test_a_claim_promised_to_two_pods_stays_promised_to_the_second() -> None:
    """Forgetting one of two pods leaves their shared claim promised."""
    cluster = cluster_with(A, B, CSI, make_claim("data", "csi"))
    assume(cluster, POD, "b")
    assume(cluster, make_pod("r").mounts("data"), "b")
    cluster.volumes.forget("p")

    assert feasible(cluster, POD) == ["b"]


def test_a_pod_that_is_assumed_again_is_promised_only_the_last() -> None:
    """Assuming a pod again frees the volume assumed before."""
    cluster = cluster_with(A, B, LOCAL, make_claim("data"), make_claim("logs"), make_volume("pv-a", on=ON_A))
    store(cluster, make_volume("pv-b", on=ON_B))
    assume(cluster, POD, "a")
    cluster.volumes.assume("p", VolumeDecisions(bind=(("pv-b", "default", "data"),)), "b")

    assert feasible(cluster, OTHER) == ["a"]


def test_forgetting_what_was_never_promised_does_nothing() -> None:
    """Forgetting a pod that was never assumed leaves the promises of others alone."""
    cluster = cluster_with(A, LOCAL, make_claim("data"), make_claim("logs"), make_volume("pv", on=ON_A))
    assume(cluster, POD, "a")
    cluster.volumes.forget("nobody")
    assert decided(cluster, POD, "a").bind == (("pv", "default", "data"),)
    assert feasible(cluster, OTHER) == []


def test_a_promise_that_the_api_server_confirms_can_be_forgotten() -> None:
    """A confirmed binding holds after the assumption is forgotten."""
    cluster = cluster_with(A, B, LOCAL, make_claim("data"), make_claim("logs"), make_volume("pv", on=ON_A))
    assume(cluster, POD, "a")
    store(cluster, make_volume("pv", on=ON_A, claim="data", claim_uid="uid-data", phase="Bound"))
    store(cluster, make_claim("data", volume="pv"))
    cluster.volumes.forget("p")

    assert feasible(cluster, POD) == ["a"]
    assert feasible(cluster, OTHER) == []


# --- binding is complete --------------------------------------------------------------------------


def test_all_bound_wants_both_sides_of_every_claim() -> None:
    """A pod's claims are all bound only when claim and volume say so for each."""
    cluster = cluster_with(A, CSI, make_claim("data", "csi"))
    pod_class = class_of(cluster, POD.mounts("logs"))
    steps = []
    for claim in (
        make_claim("logs", volume="pv-logs"),
        make_claim("data", "csi", volume="pv", completed=False),
        make_claim("data", "csi", volume="pv"),
    ):
        steps.append(cluster.volumes.all_bound(pod_class))
        store(cluster, claim)

    assert steps == [False, False, False]
    assert cluster.volumes.all_bound(pod_class)
    assert cluster.volumes.all_bound(class_of(cluster, make_pod("bare")))


# --- changes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "visible"),
    [
        (make_claim("data"), make_claim("data"), False),
        (make_claim("data"), make_claim("data", phase="Pending"), False),
        (make_claim("data"), make_claim("data", volume="pv"), True),
        (make_claim("data"), make_claim("data", node="a"), True),
        (make_volume("pv"), make_volume("pv"), False),
        (make_volume("pv"), make_volume("pv", phase="Released"), True),
        (make_class("local"), make_class("local"), False),
        (make_class("local"), make_class("local", zones=["1"]), True),
    ],
)
def test_what_placement_can_see(before: Stored, after: Stored, visible: bool) -> None:
    """A change of storage is reported exactly when placement can see it."""
    cluster = cluster_with(before)

    assert store(cluster, after) is visible


def test_removing_says_whether_there_was_anything() -> None:
    """Removing storage says whether there was anything to remove."""
    volumes = cluster_with(make_claim("data"), make_volume("pv"), LOCAL).volumes
    for _ in range(2):
        removed = [
            volumes.remove_claim("default", "data"),
            volumes.remove_volume("pv"),
            volumes.remove_class("local"),
        ]
        assert len(set(removed)) == 1
    assert removed == [False] * 3


def test_every_change_that_matters_reaches_a_plan_that_was_made_before() -> None:
    """Nobody asks for new plans, and yet each change from a missing claim to a bound one is seen."""
    cluster = cluster_with(A, B)
    seen = [feasible(cluster, POD)]
    for thing in (
        make_claim("data"),
        LOCAL,
        make_volume("pv", on=ON_A),
        make_volume("pv", on=ON_B),
        make_class("local", "csi.example.com", zones=["1"]),
        make_claim("data", volume="pv"),
        make_volume("pv", on=ON_A, claim="data"),
    ):
        store(cluster, thing)
        seen.append(feasible(cluster, POD))
    cluster.volumes.remove_claim("default", "data")
    seen.append(feasible(cluster, POD))

    assert seen == [[], [], [], ["a"], ["b"], ["a", "b"], ["b"], ["a"], []]


def test_a_volume_of_another_class_leaves_plans_alone() -> None:
    """Volumes of another class, and claims the pod does not use, leave its plan alone."""
    cluster = cluster_with(A, LOCAL, make_claim("data"), make_volume("pv"))
    pod_class = class_of(cluster, POD)
    plan = plan_for(cluster, pod_class)
    store(cluster, make_volume("other", "csi"))
    store(cluster, make_claim("logs"))

    assert pod_class.plan is plan


def test_pods_without_claims_keep_their_plans() -> None:
    """Changes of storage do not drop the plans of pods without claims."""
    cluster = cluster_with(A)
    pod_class = class_of(cluster, make_pod("bare"))
    plan = plan_for(cluster, pod_class)
    for thing in (LOCAL, make_claim("data"), make_volume("pv")):
        store(cluster, thing)

    assert pod_class.plan is plan


# --- all nodes at once -----------------------------------------------------------------------------


def random_cluster(rng: random.Random) -> Cluster:
    nodes: list[NodeBuilder] = [
        make_node(f"n{i}").labels(zone=rng.choice("123"), disk=f"d{i % 5}") for i in range(12)
    ]
    classes = [make_class("local"), make_class("csi", "csi.example.com", zones=rng.sample("123", 2))]
    claims: list[PersistentVolumeClaim] = [
        make_claim(name, rng.choice(["local", "csi"]), size=f"{rng.randint(1, 3)}Gi") for name in "xyz"
    ]
    volumes: list[PersistentVolume] = [
        make_volume(
            f"pv-{i}",
            rng.choice(["local", "local", "csi"]),
            size=f"{rng.randint(1, 4)}Gi",
            on=rng.choice([None, {"zone": rng.choice("123")}, {"disk": f"d{rng.randrange(5)}"}]),
            claim=rng.choice([None, None, None, "x", "stranger"]),
        )
        for i in range(8)
    ]
    return cluster_with(*nodes, *classes, *claims, *volumes)


@pytest.mark.parametrize("seed", range(30))
def test_all_nodes_at_once_are_judged_as_one_by_one(seed: int) -> None:
    """All nodes at once equal one by one, and decisions use no volume twice."""
    rng = random.Random(seed)  # noqa: S311 - repeatable
    cluster = random_cluster(rng)
    pod = make_pod("p")
    for name in rng.sample("xyz", rng.randint(1, 3)):
        pod = pod.mounts(name)
    pod_class = class_of(cluster, pod)
    rule = next(r for r in plan_for(cluster, pod_class).node_rules if r.name == "VolumeBinding")
    every = np.arange(cluster.nodes.count)

    one_by_one = [rule.verdict(int(slot)) is None for slot in every]
    assert rule.feasible(every).tolist() == one_by_one
    assert [rule.feasible_at(int(slot)) for slot in every] == one_by_one
    for slot in np.flatnonzero(one_by_one):
        found = cluster.volumes.decisions(pod_class, cluster.nodes.names[slot] or "")
        served = [*found.provision, *((namespace, claim) for _, namespace, claim in found.bind)]
        assert sorted(served) == sorted(("default", use.name) for use in pod_class.claims)
        assert len({volume for volume, *_ in found.bind}) == len(found.bind)
