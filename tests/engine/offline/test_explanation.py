"""Explaining one pod: the sentence, the nodes, the scores, and what would help."""

import numpy as np
import pytest

from berth.engine.offline.explaining.replicas import further_replicas
from berth.engine.offline.explanation import explain
from berth.engine.offline.lookup import find
from berth.engine.offline.simulation import simulate
from berth.kube.objects import KubeObject, ObjectMeta, PriorityClass
from tests.support.builders import HOSTNAME, ZONE, PodBuilder, make_node, make_pod
from tests.support.builders import where as having
from tests.support.snapshots import explained, helps, new, sentences, simulated, snapshot, workload, zone_node

# --- the sentence ------------------------------------------------------------------------


def test_every_node_counts_once_by_the_first_rule_that_refuses_it() -> None:
    """Entries are sorted as strings, and a node refused by several rules is counted for the first."""
    small = [make_node(f"small{i}").capacity(cpu="1").labels(disk="ssd").build() for i in range(2)]
    other = [make_node(f"other{i}").capacity(cpu="1").build() for i in range(11)]
    pod = new("p").requests(cpu="2").node_selector(disk="ssd")
    explanation = explained("p", *small, *other, pod.build())
    assert (
        explanation.message
        == "0/13 nodes are available: 11 node(s) didn't match Pod's node affinity/selector, "
        "2 Insufficient cpu."
    )


def test_two_resources_of_one_rule_count_both() -> None:
    """One node that lacks cpu and memory appears under both reasons."""
    pod = new("p").requests(cpu="2", memory="2Gi")
    explanation = explained("p", make_node("n1").capacity(cpu="1", memory="1Gi").build(), pod.build())
    assert explanation.message == "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory."


def test_named_nodes_leave_the_others_to_prefilter() -> None:
    """Where node affinity names a node, the others were never looked at."""
    pod = new("p").node_affinity(fields=[having("metadata.name", "In", "n1")]).requests(cpu="2")
    nodes = [make_node(f"n{i}").capacity(cpu="1").build() for i in range(3)]
    assert (
        explained("p", *nodes, pod.build()).message
        == "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )


def test_conflicting_names_are_refused_as_a_whole() -> None:
    """Two names that exclude each other end the attempt before any node is looked at."""
    pod = (
        new("p")
        .node_affinity(fields=[having("metadata.name", "In", "n1")])
        .node_affinity(fields=[having("metadata.name", "In", "n2")], during_execution=True)
    )
    nodes = [make_node(f"n{i}").build() for i in range(3)]
    assert (
        explained("p", *nodes, pod.build()).message == "0/3 nodes are available: pod affinity terms conflict."
    )


# --- nodes and scores ---------------------------------------------------------------------------


def test_every_node_has_every_failing_rule_with_its_cause() -> None:
    """Later rules are told too, with the label, the taint or the peer that stands in the way."""
    node = zone_node("n1", "a").taint("gpu", "yes").build()
    running = make_pod("peer").labels(app="x").on("n1").build()
    pod = new("p").node_selector(disk="ssd").anti_affinity_to({"app": "x"}, topology=ZONE).build()
    (verdict,) = explained("p", node, running, pod).nodes
    assert [
        ("TaintToleration", ("taint gpu=yes:NoSchedule is not tolerated",)),
        ("NodeAffinity", ("nodeSelector wants disk=ssd, the node has no label disk",)),
        ("InterPodAffinity", (f"pod default/peer in {ZONE}=a matches app=x",)),
    ] == [(rejection.rule, rejection.causes) for rejection in verdict.verdicts]


def test_scores_add_up_rule_by_rule() -> None:
    """The total is the sum of weight times normalized score, and the best node comes first."""
    nodes = [make_node("n1").build(), make_node("n2").labels(disk="ssd").build()]
    explanation = explained("p", *nodes, new("p").prefers_nodes(weight=5, disk="ssd").build())
    assert (explanation.state, explanation.node) == ("Fits", "n2")
    assert [node.name for node in explanation.nodes] == ["n2", "n1"]
    for node in explanation.nodes:
        assert node.total == sum(score.weight * score.normalized for score in node.scores)


def test_the_deciding_rule_is_named() -> None:
    """For a pod that fits, the explanation says what put the best node ahead."""
    nodes = [make_node("n1").build(), make_node("n2").labels(disk="ssd").build()]
    explanation = explained("p", *nodes, new("p").prefers_nodes(weight=5, disk="ssd").build())
    assert explanation.decision is not None
    assert "mostly by NodeAffinity: +200" in explanation.decision


def test_a_placed_pod_is_judged_at_its_turn() -> None:
    """Pods placed after it do not take part in the verdict."""
    node = make_node("n1").capacity(pods="1").build()
    explanation = explained("first", node, new("first").build(), new("second").build())
    assert (explanation.state, explanation.node) == ("Fits", "n1")
    later = explained("second", node, new("first").build(), new("second").build())
    assert (later.state, later.message) == ("DoesNotFit", "0/1 nodes are available: 1 Too many pods.")


def test_a_scoring_error_is_told() -> None:
    """An attempt that ends in an error shows the error instead of a node."""
    pod = new("p").prefers_nodes(having("a", "Gt", "x"), weight=1).build()
    explanation = explained("p", make_node("n1").build(), pod)
    assert explanation.state == "SchedulerError"
    assert explanation.message.startswith("PreScore NodeAffinity: ")


# --- pods that run ------------------------------------------------------------------------------------


def test_a_running_pod_whose_rules_hold() -> None:
    """A pod is not in its own way: an exclusive pod alone on its node is fine there."""
    pod = make_pod("p").labels(app="x").anti_affinity_to({"app": "x"}, topology=HOSTNAME).on("n1").build()
    explanation = explained("p", zone_node("n1", "a").build(), pod)
    assert (explanation.state, explanation.node, explanation.broken) == ("Running", "n1", ())


def test_a_running_pod_whose_rules_broke() -> None:
    """The rule that no longer holds is named with its cause."""
    pod = make_pod("p").node_selector(disk="ssd").on("n1").build()
    explanation = explained("p", make_node("n1").build(), pod)
    assert [rejection.rule for rejection in explanation.broken] == ["NodeAffinity"]
    assert explanation.message == "default/p runs on n1, where it would not be placed again: NodeAffinity."


def test_a_pod_that_tolerates_a_node_that_went_silent() -> None:
    """A pod on a silent node is not said to run, even if its rules hold there."""
    node = make_node("n1").condition("Ready", "Unknown", reason="NodeStatusUnknown").build()
    pod = make_pod("p").tolerates().on("n1").build()
    explanation = explained("p", node, pod)
    assert (explanation.state, explanation.broken) == ("NodeNotReady", ())
    assert explanation.message == (
        "default/p is assigned to n1, which has not been heard of (NodeStatusUnknown)."
    )


@pytest.mark.parametrize(
    ("taint", "told"),
    [("not-ready", "is NotReady"), ("unreachable", "has not been heard of")],
)
def test_a_node_that_is_not_ready_by_its_taint(taint: str, told: str) -> None:
    """A dump without conditions says by its taints which nodes are not ready."""
    node = make_node("n1").taint(f"node.kubernetes.io/{taint}", effect="NoExecute").build()
    explanation = explained("p", node, make_pod("p").tolerates().on("n1").build())
    assert (explanation.state, explanation.message) == (
        "NodeNotReady",
        f"default/p is assigned to n1, which {told}.",
    )


def test_a_pod_that_has_not_started() -> None:
    """A pod with a node whose phase is Pending does not run yet."""
    explanation = explained("p", make_node("n1").build(), make_pod("p").on("n1").phase("Pending").build())
    assert explanation.message == "default/p is starting on n1, and all its rules hold there."


def test_a_pod_that_nobody_has_heard_of() -> None:
    """Phase Unknown is not running: it says so."""
    explanation = explained("p", make_node("n1").build(), make_pod("p").on("n1").phase("Unknown").build())
    assert explanation.message == "default/p is, in phase Unknown, on n1, and all its rules hold there."


def test_a_pod_that_is_being_deleted() -> None:
    """It is neither said to run nor to stay, and no node is judged for it."""
    pod = make_pod("p").node_selector(disk="ssd").on("n1").terminating().build()
    explanation = explained("p", make_node("n1").build(), make_node("n2").build(), pod)
    assert explanation.message == "default/p is being deleted; it is on n1 until it has stopped."
    assert (explanation.state, explanation.node, explanation.nodes) == ("Terminating", "n1", [])
    assert (explanation.decision, explanation.broken) == (None, ())


def test_a_pod_that_cannot_be_deleted() -> None:
    """That its node is not ready is told, too: nobody there stops it."""
    node = make_node("n1").condition("Ready", "Unknown", reason="NodeStatusUnknown").build()
    explanation = explained("p", node, make_pod("p").on("n1").terminating().build())
    assert explanation.state == "NodeNotReady"
    assert explanation.message == (
        "default/p is being deleted; it is on n1 until it has stopped, "
        "but that node has not been heard of (NodeStatusUnknown)."
    )


def test_a_pod_that_is_deleted_before_it_has_a_node() -> None:
    """It is found although it is not placed."""
    explanation = explained("p", make_node("n1").build(), make_pod("p").terminating().build())
    assert (explanation.state, explanation.node, explanation.nodes) == ("Terminating", None, [])
    assert explanation.message == "default/p is being deleted before it was given a node. It is not placed."


def test_a_pod_whose_node_is_not_there() -> None:
    """It is assigned, not said to run nor to stay; where it could be is shown."""
    nodes = (make_node("n1").build(), make_node("n2").build())
    explanation = explained("p", *nodes, make_pod("p").on("n9").build())
    assert (explanation.state, explanation.node) == ("NodeNotFound", "n9")
    assert explanation.message == "default/p is assigned to n9, which is not among the files."
    assert (explanation.decision, [node.feasible for node in explanation.nodes]) == (None, [True, True])
    explanation = explained("p", *nodes, make_pod("p").on("n9").terminating().build())
    assert explanation.state == "NodeNotFound"
    assert explanation.message == "default/p is being deleted; its node n9 is not among the files."


def test_a_gated_pod_shows_where_it_would_go() -> None:
    """Gates keep the pod, but its nodes are judged all the same."""
    explanation = explained("p", make_node("n1").build(), new("p").gated("example.com/wait").build())
    assert (explanation.state, explanation.node) == ("SchedulingGated", None)
    assert [node.feasible for node in explanation.nodes] == [True]


def test_no_node_is_taken_by_a_gated_pod() -> None:
    """Of nodes that are equally good none is said to be taken by a pod that is not placed."""
    nodes = (make_node("n1").build(), make_node("n2").build())
    decision = explained("p", *nodes, new("p").gated("example.com/wait").build()).decision
    assert decision is not None
    assert decision.startswith("2 nodes have the highest total, ")
    assert "taken" not in decision


def test_no_room_for_a_pod_whose_node_is_not_there() -> None:
    """What would help it is tried as for any other pod that fits nowhere."""
    pod = make_pod("p").node_selector(disk="ssd").on("n9").build()
    explanation = explained("p", make_node("n1").build(), pod)
    assert explanation.state == "NodeNotFound"
    assert sentences(explanation)[0] == "without the nodeSelector disk=ssd, n1 fits"


# --- workloads -----------------------------------------------------------------------------------------


def test_the_next_replica_of_a_satisfied_deployment() -> None:
    """Where all replicas run, the one that would come next is explained."""
    template = workload("Deployment", "web", 0).spec.template
    assert template is not None
    nodes = [make_node("n1").capacity(pods="2").build()]
    explanation = explained("deployment/web", *nodes, workload("Deployment", "web", 0))
    assert (explanation.state, explanation.entry.owner) == ("Fits", "Deployment/web")


def test_the_next_replica_has_the_priority_of_its_class() -> None:
    """A pod that a workload would make is judged as the API server would store it."""
    important = PriorityClass(metadata=ObjectMeta(name="important"), value=7)
    web = workload("Deployment", "web", 0, new("web").priority_class("important"))
    assert find(simulated(make_node("n1").build(), important, web), "deploy/web", None).priority == 7


def test_an_unplaced_replica_is_preferred() -> None:
    """Of several pending replicas the one that did not fit is explained."""
    explanation = explained(
        "deploy/web", make_node("n1").capacity(pods="1").build(), workload("Deployment", "web", 3)
    )
    assert explanation.state == "DoesNotFit"


# --- what would help -------------------------------------------------------------------------------------


def test_pairs_if_nothing_helps_alone() -> None:
    """Two changes together, where each alone is not enough."""
    node = make_node("n1").taint("gpu").capacity(cpu="1").build()
    assert helps(node, pod=new("p").requests(cpu="2")) == [
        "with 1 less cpu (at most 1) and with a toleration for the taint gpu:NoSchedule, n1 fits"
    ]


def test_a_minimal_set_if_no_pair_is_enough() -> None:
    """Three things in the way of the only node: all three are told, and no fourth."""
    nodes = [make_node("n1").taint("gpu").unschedulable().capacity(cpu="1").build()]
    (sentence,) = helps(*nodes, pod=new("p").requests(cpu="2"))
    assert [word for word in ("cpu", "gpu", "uncordoned", "label") if word in sentence] == [
        "cpu",
        "gpu",
        "uncordoned",
    ]


def test_everything_at_once() -> None:
    """However much is in the way, a set that is enough is found, and nothing in it is superfluous."""
    node = zone_node("n1", "a").taint("gpu").capacity(cpu="1", memory="1Gi").build()
    running = make_pod("r").labels(app="x").on("n1").build()
    pod = (
        new("p")
        .requests(cpu="2", memory="2Gi")
        .spread("rack", app="y")
        .anti_affinity_to({"app": "x"}, topology=HOSTNAME)
        .affinity_to({"app": "none"}, topology=ZONE)
    )
    explanation = explained("p", node, running, pod.build())
    (relaxation,) = explanation.relaxations
    assert {change.kind for change in relaxation.changes} == {
        "resource-request",
        "toleration",
        "spread-constraint",
        "pod-affinity-term",
        "pod-anti-affinity-term",
    }
    assert relaxation.nodes == ["n1"]


@pytest.mark.parametrize(
    ("kind", "status", "words"),
    [
        ("Ready", "False", "with n1 Ready again, n1 fits"),
        ("Ready", "Unknown", "with n1 Ready again, n1 fits"),
        ("MemoryPressure", "True", "with n1 without MemoryPressure, n1 fits"),
    ],
)
def test_nobody_is_told_to_tolerate_a_node_that_is_down(kind: str, status: str, words: str) -> None:
    """A node that is not ready or short of something takes no pod, tainted or not; its recovery helps."""
    node = make_node("n1").condition(kind, status).build()
    assert helps(node, pod=new("p")) == [words]
    tainted = make_node("n1").condition("Ready", "False")
    for effect in ("NoSchedule", "NoExecute"):
        tainted = tainted.taint("node.kubernetes.io/not-ready", effect=effect)
    assert helps(tainted.build(), pod=new("p")) == ["with n1 Ready again, n1 fits"]


def test_a_daemon_keeps_its_node() -> None:
    """For a pod of a DaemonSet going elsewhere is no way out."""
    agent = workload("DaemonSet", "agent", None, make_pod("agent").requests(cpu="2"))
    nodes = [make_node("big").build(), make_node("small").capacity(cpu="1").build()]
    assert sentences(explained("agent-small", *nodes, agent)) == ["with 1 less cpu (at most 1), small fits"]


def test_a_daemon_set_that_makes_no_pod() -> None:
    """Asked for it, every node says why it is not wanted there, and no replicas are promised."""
    agent = workload("DaemonSet", "agent", None, make_pod("agent").node_selector(rack="rack1"))
    explanation = explained("daemonset/agent", make_node("n1").labels(rack="rack-1").build(), agent)
    assert (explanation.state, explanation.clues) == (
        "DoesNotFit",
        ["no node has the label rack=rack1; rack=rack-1 is on n1"],
    )
    assert sentences(explanation) == ["without the nodeSelector rack=rack1, n1 fits"]
    simulation = simulated(make_node("n1").build(), agent)
    assert further_replicas(simulation, find(simulation, "ds/agent", None)) is None


def test_a_daemon_that_needs_two_changes() -> None:
    """Leaving its node would be the one change that helps, but it is not a change for a daemon."""
    agent = workload("DaemonSet", "agent", None, make_pod("agent").requests(cpu="2", memory="2Gi"))
    nodes = [make_node("big").build(), make_node("small").capacity(cpu="1", memory="1Gi").build()]
    found = sentences(explained("agent-small", *nodes, agent))
    assert found == ["with 1 less cpu (at most 1) and with 1Gi less memory (at most 1Gi), small fits"]


def test_running_pods_are_judged_beside_running_pods() -> None:
    """Pods that only the simulation placed do not break a running pod's rules."""
    node = zone_node("n1", "a").build()
    running = make_pod("p").labels(app="x").spread(HOSTNAME, app="x").on("n1").build()
    other = zone_node("n2", "b").unschedulable().build()
    late = [new(f"late{i}").labels(app="x").build() for i in range(3)]
    assert explained("p", node, other, running, *late).broken == ()


def test_a_seeded_placement_is_the_one_explained() -> None:
    """Where a seed chose among equal nodes, the explanation is about the node that was taken."""
    taken = snapshot(*(make_node(f"n{i}").build() for i in range(9)), new("p").build())
    simulation = simulate(taken, rng=np.random.default_rng(3))
    (placement,) = simulation.placements
    assert explain(simulation, placement.entry).node == placement.node != "n0"


@pytest.mark.parametrize(
    "pod",
    [
        new("p").requests(cpu="2000"),
        new("p").labels(app="x").spread(ZONE, app="x").node_selector(disk="ssd"),
        new("p").anti_affinity_to(topology=HOSTNAME).affinity_to({"app": "none"}, topology=ZONE),
    ],
    ids=["resources", "spread", "affinity"],
)
def test_trying_changes_leaves_the_cluster_as_it_was(pod: PodBuilder) -> None:
    """Explaining twice gives the same answer: every change that was tried is taken back."""
    things: list[KubeObject] = [
        zone_node("n1", "a").taint("gpu").build(),
        zone_node("n2", "b").unschedulable().build(),
        make_pod("r1").labels(app="x").anti_affinity_to({"app": "y"}, topology=ZONE).on("n1").build(),
        make_pod("r2").labels(app="x").anti_affinity_to(topology=HOSTNAME).on("n2").build(),
    ]
    simulation = simulated(*things, pod.build())
    entry = find(simulation, "p", None)
    first, second = explain(simulation, entry), explain(simulation, entry)
    assert (first.message, first.nodes, sentences(first)) == (second.message, second.nodes, sentences(second))
    assert first.relaxations


# --- the queue -------------------------------------------------------------------------------------------


def test_who_comes_later_is_not_in_the_way() -> None:
    """What a pod lacks is told as it is at its turn, not with pods of lower priority on the nodes."""
    node = make_node("n1").capacity(cpu="8").build()
    running = make_pod("r").requests(cpu="6").on("n1").build()
    low = new("low").requests(cpu="2").build()
    explanation = explained("p", node, running, low, new("p").priority(900).requests(cpu="4").build())
    assert explanation.nodes[0].verdicts[0].causes == ("cpu: 4 wanted, 2 of 8 free",)
    assert sentences(explanation) == ["with 2 less cpu (at most 2), n1 fits"]


def test_a_peer_that_comes_later_stays() -> None:
    """A pod that seeks others is judged with those it found, though they come after it."""
    nodes = [zone_node("n1", "a").capacity(cpu="2").build(), zone_node("n2", "b").capacity(cpu="1").build()]
    leader = new("leader").labels(app="x").requests(cpu="2").build()
    pod = new("p").priority(5).requests(cpu="1").affinity_to({"app": "x"}, topology=ZONE).build()
    causes = {node.name: node.verdicts[-1].causes for node in explained("p", *nodes, leader, pod).nodes}
    assert causes["n1"] == ("cpu: 1 wanted, 0 of 2 free",)
    assert "no pod matching app=x" in causes["n2"][0]


def test_a_pod_that_others_overtook_is_not_said_to_fit() -> None:
    """Where those behind it took the room while it missed a peer, they are in the way."""
    node = zone_node("n1", "a").capacity(cpu="2").build()
    leader, filler = new("leader").labels(app="x").requests(cpu="1"), new("filler").requests(cpu="1")
    pod = new("p").priority(5).requests(cpu="1").affinity_to({"app": "x"}, topology=ZONE)
    explanation = explained("p", node, leader.build(), filler.build(), pod.build())
    assert (explanation.state, explanation.nodes[0].verdicts[0].causes) == (
        "DoesNotFit",
        ("cpu: 1 wanted, 0 of 2 free",),
    )


def test_a_running_pod_that_is_about_to_make_room() -> None:
    """Who is preempted is told so, and for whom; who stays is not."""
    node = make_node("n1").capacity(cpu="4").build()
    low = make_pod("low").requests(cpu="3").on("n1").build()
    things = (node, low, make_pod("small").on("n1").build())
    high = new("high").requests(cpu="3").priority(100).build()
    said = explained("low", *things, high).message
    assert said.startswith("default/low runs on n1, and all its rules hold there. ")
    assert "It is preempted for default/high, which has priority 100" in said
    assert "preempted" not in explained("small", *things, high).message
    assert "preempted" not in explained("low", *things).message
