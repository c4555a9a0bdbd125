"""Affinity and anti-affinity between pods, in both directions."""

import pytest

from tests.engine.rules.asking import judged, violated
from tests.support.builders import HOSTNAME, ZONE, PodBuilder, make_node, make_pod

A1, A2, B, BARE = (
    make_node("a1").labels({HOSTNAME: "a1", ZONE: "a"}),
    make_node("a2").labels({HOSTNAME: "a2", ZONE: "a"}),
    make_node("b").labels({HOSTNAME: "b", ZONE: "b"}),
    make_node("bare"),
)
NODES = (A1, A2, B, BARE)
DB = make_pod("db").labels(app="db").on("a1")
AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"


@pytest.mark.parametrize(
    ("pod", "refused"),
    [
        pytest.param(make_pod("p"), {}, id="no rules"),
        pytest.param(
            make_pod("p").affinity_to(app="db", topology=ZONE),
            {"b": AFFINITY, "bare": AFFINITY},
            id="same zone",
        ),
        pytest.param(
            make_pod("p").affinity_to(app="db", topology=HOSTNAME),
            dict.fromkeys(("a2", "b", "bare"), AFFINITY),
            id="same node",
        ),
        pytest.param(
            make_pod("p").affinity_to(app="web", topology=ZONE),
            dict.fromkeys(("a1", "a2", "b", "bare"), AFFINITY),
            id="no such pod",
        ),
        pytest.param(
            make_pod("p").labels(app="web").affinity_to(app="web", topology=ZONE),
            {"bare": AFFINITY},
            id="first of its group",
        ),
        pytest.param(
            make_pod("p").anti_affinity_to(app="db", topology=ZONE),
            dict.fromkeys(("a1", "a2"), ANTI_AFFINITY),
            id="another zone",
        ),
        pytest.param(
            make_pod("p").anti_affinity_to(app="db", topology=HOSTNAME),
            {"a1": ANTI_AFFINITY},
            id="another node",
        ),
        pytest.param(
            make_pod("p").namespace("other").anti_affinity_to(app="db", topology=ZONE),
            {},
            id="another namespace",
        ),
    ],
)
def test_which_nodes_are_near_enough_and_far_enough(pod: PodBuilder, refused: dict[str, str]) -> None:
    """A node without the topology's label is in no domain: affinity refuses it, anti-affinity does not."""
    found = judged("InterPodAffinity", pod, *NODES, DB).refused

    assert {node: reasons[0] for node, reasons in found.items()} == refused


def test_anti_affinity_of_running_pods_is_kept() -> None:
    """Whoever was there first: a pod that wants none of its kind near is left alone."""
    shy = make_pod("shy").anti_affinity_to(app="web", topology=ZONE).on("a1")
    found = judged("InterPodAffinity", make_pod("p").labels(app="web"), *NODES, shy)

    assert found.refused == {"a1": (EXISTING,), "a2": (EXISTING,)}
    assert found.causes["a1"] == (f"pod default/shy in {ZONE}=a has anti-affinity to this pod",)


def test_causes_name_the_domain_and_the_peer() -> None:
    """Causes say what is missing in the domain, or who is in the way there."""
    near, far = (
        make_pod("p").affinity_to(app="db", topology=ZONE),
        make_pod("p").anti_affinity_to(app="db", topology=ZONE),
    )

    assert judged("InterPodAffinity", near, *NODES, DB).causes["b"] == (
        f"no pod matching app=db in {ZONE}=b",
    )
    assert judged("InterPodAffinity", far, *NODES, DB).causes["a1"] == (
        f"pod default/db in {ZONE}=a matches app=db",
    )


def test_preferences_count_in_both_directions() -> None:
    """The pod's own weights, and those of running pods that like it or do not."""
    fan = make_pod("fan").prefers_affinity_to(app="web", topology=ZONE, weight=20).on("b")
    pod = make_pod("p").labels(app="web").prefers_affinity_to(app="db", topology=ZONE, weight=10)
    found = judged("InterPodAffinity", pod, A1, B, DB, fan)

    assert found.raw == {"a1": 10, "b": 20}
    assert found.scores == {"a1": 0, "b": 100}


@pytest.mark.parametrize("execution", [False, True])
def test_a_running_pod_that_lost_its_peer_breaks_affinity(execution: bool) -> None:
    """Only where the term must hold during execution does that mean that it has to go."""
    pod = make_pod("p").affinity_to(app="db", topology=ZONE, during_execution=execution).on("b")
    (found,) = violated("InterPodAffinity", pod, *NODES, DB)

    assert (found.reason, found.execution, found.of_peer) == (AFFINITY, execution, False)


def test_the_rule_of_a_peer_is_told_as_the_peers() -> None:
    """The pod breaks no rule of its own, but that of another."""
    shy = make_pod("shy").anti_affinity_to(app="web", topology=HOSTNAME, during_execution=True).on("a1")
    (found,) = violated("InterPodAffinity", make_pod("p").labels(app="web").on("a1"), *NODES, shy)

    assert (found.reason, found.execution, found.of_peer) == (EXISTING, True, True)


def test_a_pod_is_not_its_own_peer() -> None:
    """It may be alone with a rule about its own kind."""
    pod = make_pod("p").labels(app="web").anti_affinity_to(app="web", topology=ZONE).on("a1")

    assert violated("InterPodAffinity", pod, *NODES) == []
