"""Execution-time terms of pods that run, when their peers come and go."""

import numpy as np
import pytest

from berth.engine.rules.inter_pod_affinity import InterPodAffinity
from berth.engine.rules.inter_pod_affinity.execution import owners
from berth.engine.rules.verdicts import AFFINITY, ANTI_AFFINITY
from berth.engine.state.cluster import Cluster
from berth.kube.defaults import created, default_node
from tests.engine.rules.asking import cluster_of
from tests.support.builders import HOSTNAME, ZONE, NodeBuilder, PodBuilder, make_node, make_pod


def node(name: str, zone: str) -> NodeBuilder:
    return make_node(name).labels({HOSTNAME: name, ZONE: zone})


NODES = (node("a1", "a"), node("a2", "a"), node("b1", "b"), make_node("bare"))
LEADER = make_pod("leader").labels(app="leader")
FOLLOWER = make_pod("follower").affinity_to(app="leader", topology=ZONE, during_execution=True)
LOUD = make_pod("loud").labels(app="loud")
CALM = make_pod("calm").anti_affinity_to(app="loud", topology=HOSTNAME, during_execution=True)


def member(name: str) -> PodBuilder:
    """A pod that wants to be with others of its kind."""
    return make_pod(name).labels(app="group").affinity_to(app="group", topology=ZONE, during_execution=True)


def broken(cluster: Cluster, name: str) -> list[tuple[str, str]]:
    """What a running pod breaks: the kind of each term, and the cause."""
    key = f"default/{name}"
    known = cluster.find_pod(key)
    assert known is not None
    pods = np.array([cluster.pods.index[key]], dtype=np.intp)
    found = InterPodAffinity.execution_violations(cluster, known[0], pods)
    return [(violation.kind, violation.cause) for violation in found]


ALONE = [(AFFINITY, f"no pod matching app=leader in {ZONE}=a")]
DISTURBED = [(ANTI_AFFINITY, f"pod default/loud in {HOSTNAME}=a1 matches app=loud")]


# --- affinity -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("peers", "expected"),
    [
        ([], ALONE),
        ([LEADER.on("a1")], []),
        ([LEADER.on("a2")], []),
        ([LEADER.on("b1")], ALONE),
        ([LEADER.on("bare")], ALONE),
        ([LEADER.namespace("other").on("a1")], ALONE),
        ([LEADER.on("a1").terminating()], []),
    ],
    ids=["none", "same node", "same zone", "other zone", "no zone", "other namespace", "terminating"],
)
def test_a_running_pod_needs_a_peer_in_its_domain(
    peers: list[PodBuilder], expected: list[tuple[str, str]]
) -> None:
    """A peer counts as long as it is there, wherever in the domain it runs."""
    assert broken(cluster_of(*NODES, FOLLOWER.on("a1"), *peers), "follower") == expected


def test_affinity_breaks_when_the_last_peer_goes() -> None:
    """One of two peers may go; with the other the term is broken, until one comes back."""
    cluster = cluster_of(
        *NODES, FOLLOWER.on("a1"), LEADER.on("a1"), make_pod("deputy").labels(app="leader").on("a2")
    )
    cluster.remove_pod("default/leader")
    assert broken(cluster, "follower") == []
    cluster.remove_pod("default/deputy")
    assert broken(cluster, "follower") == ALONE
    cluster.add_pod(created(LEADER.on("a2").build()))
    assert broken(cluster, "follower") == []


def test_affinity_breaks_on_a_node_that_loses_the_label() -> None:
    """Such a node is in no domain, even with the peer on it."""
    cluster = cluster_of(*NODES, FOLLOWER.on("a1"), LEADER.on("a1"))
    cluster.add_node(default_node(make_node("a1").build()))
    assert [kind for kind, _ in broken(cluster, "follower")] == [AFFINITY]


def test_a_member_may_be_alone_as_long_as_no_other_runs_anywhere() -> None:
    """The first of a group keeps its place; with another elsewhere each is alone where it is."""
    cluster = cluster_of(*NODES, member("one").on("a1"))
    assert broken(cluster, "one") == []
    cluster.add_pod(created(member("two").on("b1").build()))
    assert broken(cluster, "one") == [(AFFINITY, f"no pod matching app=group in {ZONE}=a")]
    assert broken(cluster, "two") == [(AFFINITY, f"no pod matching app=group in {ZONE}=b")]


# --- anti-affinity --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("peers", "expected"),
    [([], []), ([LOUD.on("a1")], DISTURBED), ([LOUD.on("a2")], []), ([LOUD.namespace("other").on("a1")], [])],
    ids=["none", "same node", "other node", "other namespace"],
)
def test_a_running_pod_must_not_share_its_domain(
    peers: list[PodBuilder], expected: list[tuple[str, str]]
) -> None:
    """A peer breaks the term where it is in the same domain."""
    assert broken(cluster_of(*NODES, CALM.on("a1"), *peers), "calm") == expected


def test_anti_affinity_breaks_when_a_peer_comes() -> None:
    """It is the violation of the pod that has the term, not of the one that came; it ends with the peer."""
    cluster = cluster_of(*NODES, CALM.on("a1"))
    cluster.add_pod(created(LOUD.on("a1").build()))
    assert broken(cluster, "calm") == DISTURBED
    assert broken(cluster, "loud") == []
    cluster.remove_pod("default/loud")
    assert broken(cluster, "calm") == []


def test_pods_that_avoid_each_other_both_break_their_terms() -> None:
    """Where both have the term each is the peer of the other, and none is its own."""
    replica = make_pod("one").labels(app="loud")
    replica = replica.anti_affinity_to(app="loud", topology=HOSTNAME, during_execution=True)
    cluster = cluster_of(*NODES, replica.on("a1"))
    assert broken(cluster, "one") == []
    cluster.add_pod(
        created(LOUD.anti_affinity_to(app="loud", topology=HOSTNAME, during_execution=True).on("a1").build())
    )
    assert broken(cluster, "one") == DISTURBED
    assert broken(cluster, "loud") == [(ANTI_AFFINITY, f"pod default/one in {HOSTNAME}=a1 matches app=loud")]


def test_terms_for_scheduling_alone_are_left_out() -> None:
    """A pod with terms of both kinds breaks only those that hold during execution."""
    pod = CALM.affinity_to(app="leader", topology=ZONE).anti_affinity_to(app="other", topology=ZONE)
    other = make_pod("other").labels(app="other").on("a2")
    assert broken(cluster_of(*NODES, pod.on("a1"), other), "calm") == []


# --- whom it may concern --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pod", "keys"),
    [(LEADER, [ZONE]), (LOUD, [HOSTNAME]), (make_pod("other"), [])],
    ids=["wanted", "avoided", "other"],
)
def test_the_terms_that_a_pod_matters_to(pod: PodBuilder, keys: list[str]) -> None:
    """The coming or going of a pod matters in the topologies of the running pods whose terms select it."""
    cluster = cluster_of(*NODES, FOLLOWER.on("a1"), CALM.on("b1"))
    theirs = cluster.class_of(created(pod.build()), pinned=True).label_set
    assert [key for rules in owners(cluster, theirs) for key in rules.keys_about(theirs)] == keys
