import numpy as np

from berth.engine.placement.plan import plan_for
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import PodDeleted, VolumesChanged
from berth.engine.state.hypothetical_removal import HypotheticalRemoval, RemovablePods
from berth.kube.defaults import created
from berth.kube.well_known import UNSCHEDULABLE
from tests.support.builders import PodBuilder, make_node, make_pod
from tests.support.storage import (
    causes,
    class_of,
    cluster_with,
    feasible,
    make_claim,
    make_volume,
    message,
    verdict,
)

A, B = make_node("a"), make_node("b")
EXCLUSIVE = make_claim("data", volume="pv", modes=["ReadWriteOncePod"])
SHARED = make_claim("data", volume="pv")
VOLUME = make_volume("pv", claim="data")
POD, USER = make_pod("p").mounts("data"), make_pod("user").mounts("data")


def run(cluster: Cluster, pod: PodBuilder) -> None:
    cluster.add_pod(created(pod.build()))


def test_a_claim_for_one_pod_is_taken_while_a_pod_uses_it() -> None:
    """On every node, whatever the pod's plan was made before."""
    cluster = cluster_with(A, B, EXCLUSIVE, VOLUME)
    assert feasible(cluster, POD) == ["a", "b"]
    run(cluster, USER.on("a"))
    assert feasible(cluster, POD) == []
    cluster.remove_pod("default/user")

    assert feasible(cluster, POD) == ["a", "b"]


def test_the_reason_names_the_pod_and_preemption_may_help() -> None:
    """A claim in use is a reason that names its user and that preemption can remove."""
    cluster = cluster_with(A, EXCLUSIVE, VOLUME)
    run(cluster, USER.on("a"))

    assert message(cluster, POD) == (
        "1 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
        "already in-use by another pod."
    )
    assert causes(cluster, POD, "a") == {"VolumeRestrictions": ("claim data is in use by pod default/user",)}
    assert [r.code for r in verdict(cluster, POD).verdicts[0]] == [UNSCHEDULABLE]


def test_other_access_modes_and_other_namespaces_do_not_matter() -> None:
    """Only a ReadWriteOncePod claim of the same namespace keeps others away."""
    shared, elsewhere = cluster_with(A, SHARED, VOLUME), cluster_with(A, EXCLUSIVE, VOLUME)
    run(shared, USER.on("a"))
    run(elsewhere, USER.namespace("other").on("a"))

    assert feasible(shared, POD) == ["a"]
    assert feasible(elsewhere, POD) == ["a"]


def test_pods_of_unknown_nodes_do_not_count() -> None:
    """A pod on an unknown node does not hold its claim."""
    cluster = cluster_with(A, EXCLUSIVE, VOLUME)
    run(cluster, USER.on("gone"))

    assert feasible(cluster, POD) == ["a"]


def test_only_the_node_of_the_user_is_free_if_the_user_were_gone() -> None:
    """Each node is judged as if its own pods had left."""
    cluster = cluster_with(A, B, EXCLUSIVE, VOLUME)
    run(cluster, USER.on("b"))
    plan = plan_for(cluster, class_of(cluster, POD))
    rule = next(rule for rule in plan.topology_rules if rule.name == "VolumeRestrictions")
    removed = RemovablePods(cluster, np.array([cluster.pods.index["default/user"]], dtype=np.intp))
    gone = HypotheticalRemoval(removed, np.ones(1, dtype=np.bool_))

    (refusal,) = rule.verdicts(np.arange(2, dtype=np.intp), gone)
    assert [cluster.nodes.names[slot] for slot in refusal.slots] == ["a"]


def test_it_helps_when_the_last_user_leaves() -> None:
    """A pod that leaves helps only when it was the last user of the claim."""
    cluster = cluster_with(A, EXCLUSIVE, VOLUME)
    run(cluster, USER.on("a"))
    plan = plan_for(cluster, class_of(cluster, POD))
    rule = next(rule for rule in plan.topology_rules if rule.name == "VolumeRestrictions")
    left = PodDeleted(class_of(cluster, USER), 0)

    assert not rule.helped_by(left)
    assert rule.helped_by(VolumesChanged())
    cluster.remove_pod("default/user")
    assert rule.helped_by(left)
