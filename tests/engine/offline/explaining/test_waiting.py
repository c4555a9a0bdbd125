"""What a pod waits for is what lets it fit, and its turn is told."""

import pytest
from msgspec.structs import replace

from berth.engine.offline.explaining.replicas import further_replicas
from berth.engine.offline.lookup import find
from berth.kube.objects import KubeObject, ObjectMeta, PodGroup, PodGroupSpec
from tests.support.builders import HOSTNAME, ZONE, PodBuilder, make_node, make_pod
from tests.support.snapshots import explained, new, simulated, zone_node

NODES = [zone_node("n0", "a").capacity(cpu="4", pods="9"), zone_node("n1", "b").capacity(cpu="4", pods="9")]
PLAIN: list[KubeObject] = [node.build() for node in NODES]


def on(node: str, name: str = "x", cpu: str = "3") -> KubeObject:
    return make_pod(name).labels(app="x").requests(cpu=cpu).on(node).build()


Case = tuple[list[KubeObject], PodBuilder, tuple[str, str], list[KubeObject]]
CASES: dict[str, Case] = {
    "room": (
        [*PLAIN, on("n0"), on("n1", "y")],
        new("p").requests(cpu="2"),
        ("2 cpu to be free on a node: pods to leave it", "PodDeleted"),
        [*PLAIN, on("n0")],
    ),
    "a larger node": (
        PLAIN,
        new("p").requests(cpu="6"),
        ("a node with at least 6 cpu", "NodeAdded"),
        [*PLAIN, make_node("n2").capacity(cpu="8", pods="9").build()],
    ),
    "a taint": (
        [NODES[0].taint("gpu").build()],
        new("p"),
        ("the taint gpu:NoSchedule to be taken off a node", "NodeUpdated"),
        PLAIN[:1],
    ),
    "a cordon": (
        [NODES[0].unschedulable().build()],
        new("p"),
        ("a node to be uncordoned", "NodeUpdated"),
        PLAIN[:1],
    ),
    "a label": (
        PLAIN,
        new("p").node_selector(disk="ssd"),
        ("a node with disk=ssd", "NodeUpdated"),
        [NODES[0].labels(disk="ssd").build()],
    ),
    "a peer": (
        PLAIN,
        new("p").affinity_to(app="x", topology=ZONE),
        ("a pod matching app=x to be placed", "PodAdded"),
        [*PLAIN, on("n0")],
    ),
    "no peer": (
        [*PLAIN, on("n0"), on("n1", "x2")],
        new("p").anti_affinity_to(app="x", topology=HOSTNAME),
        ("the pods matching app=x to leave a node", "PodDeleted"),
        [*PLAIN, on("n0")],
    ),
    "evenness": (
        [PLAIN[0], NODES[1].unschedulable().build(), on("n0")],
        new("p").labels(app="x").spread(ZONE, app="x"),
        ("pods matching app=x to come to the emptiest zone, or to leave a fuller one", "PodAdded"),
        [PLAIN[0], NODES[1].unschedulable().build(), on("n0"), on("n1", "x2")],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_it_fits_once_that_has_happened(name: str) -> None:
    """The event is named, and makes a node take the pod."""
    before, pod, (sentence, event), after = CASES[name]
    explanation = explained("p", *before, pod.build())
    assert explanation.state == "DoesNotFit"
    assert sentence in [wait.sentence for wait in explanation.waits]
    assert any(event in wait.events for wait in explanation.waits if wait.sentence == sentence)
    assert explained("p", *after, pod.build()).state == "Fits"


def test_a_node_that_needs_more_than_another_is_not_told_of() -> None:
    """Only the node that needs least is told of, and a taint from a condition as the node's recovery."""
    nodes = [NODES[0], NODES[1].taint("gpu"), make_node("n2").taint("node.kubernetes.io/not-ready")]
    pod = new("p").node_selector(disk="ssd").build()
    waits = explained("p", *(node.build() for node in nodes), pod).waits
    assert [(wait.sentence, wait.nodes) for wait in waits] == [("a node with disk=ssd", ("n0",))]
    (wait,) = explained("p", nodes[2].build(), new("p").build()).waits
    assert wait.sentence == "a node to be Ready again"


def test_a_pod_that_fits_waits_for_nothing() -> None:
    """Only who has no node waits."""
    assert explained("p", *PLAIN, new("p").build()).waits == []


def test_the_place_in_the_queue() -> None:
    """By priority, then as they appear; who is held back is not in it."""
    low = new("low").priority(1).build()
    gated = new("gated").priority(9).gated("later").build()
    things = [*PLAIN, low, new("p").priority(5).build(), gated]
    queue = explained("p", *things).queue
    assert queue is not None
    assert (queue.place, queue.waiting) == (1, 2)
    assert explained("gated", *things).queue is None
    assert explained("x", *PLAIN, on("n0")).queue is None


def test_further_replicas() -> None:
    """As many as fit beside everything that runs or was placed; the cluster is left as it was."""
    simulation = simulated(*PLAIN, on("n0"), new("p").requests(cpu="1").build())
    entry = find(simulation, "p", None)
    before = simulation.snapshot.cluster.pods_on("n1")
    found = further_replicas(simulation, entry)
    assert found is not None
    assert (found.count, found.most) == (4, False)
    assert found.message == "0/2 nodes are available: 2 Insufficient cpu."
    assert list(simulation.snapshot.cluster.pods_on("n1")) == list(before)


def test_preemption_that_does_not_help() -> None:
    """Who has lower priority is asked, and why it is of no use is told in kube-scheduler's words."""
    things = [*PLAIN, on("n0", cpu="1"), new("p").priority(10).requests(cpu="6").build()]
    explanation = explained("p", *things)
    assert explanation.preemption is None
    assert explanation.no_preemption.endswith("2 Preemption is not helpful for scheduling.")
    assert explained("p", *PLAIN, new("p").requests(cpu="6").build()).no_preemption == ""


def test_no_further_replica_of_what_nobody_places() -> None:
    """Gated pods, another scheduler's, and those of a group that does not fit are promised nothing."""
    gang = {"scheduling.x-k8s.io/pod-group": "g"}
    group = PodGroup(
        api_version="scheduling.x-k8s.io/v1alpha1",
        kind="PodGroup",
        metadata=ObjectMeta(name="g", namespace="default"),
        spec=PodGroupSpec(min_member=2),
    )
    elsewhere = new("other").build()
    elsewhere = replace(elsewhere, spec=replace(elsewhere.spec, scheduler_name="volcano"))
    few = new("few").labels(gang).build()
    simulation = simulated(*PLAIN, group, new("gated").gated("later").build(), elsewhere, few)
    for name in ("gated", "other", "few"):
        assert further_replicas(simulation, find(simulation, name, None)) is None
    simulation = simulated(*PLAIN, group, few, new("more").labels(gang).build())
    assert further_replicas(simulation, find(simulation, "few", None)) is not None
