import pytest

from tests.support.builders import ZONE, make_node, make_pod
from tests.support.storage import causes, cluster_with, feasible, make_claim, make_volume, message

BETA_ZONE, REGION = "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/region"
NODES = (
    make_node("a").labels({ZONE: "a", REGION: "r"}),
    make_node("b").labels({ZONE: "b", REGION: "r"}),
    make_node("old").labels({BETA_ZONE: "b"}),
    make_node("region").labels({REGION: "r"}),
    make_node("bare"),
)
POD = make_pod("p").mounts("data")


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({ZONE: "a"}, ["a", "bare"]),
        ({ZONE: "a__b"}, ["a", "b", "bare"]),
        ({ZONE: "a", REGION: "r"}, ["a", "bare"]),
        ({REGION: "r"}, ["a", "b", "region", "bare"]),
        ({BETA_ZONE: "b"}, ["b", "old", "bare"]),
        ({ZONE: "a__"}, ["a", "b", "old", "region", "bare"]),
        ({}, ["a", "b", "old", "region", "bare"]),
    ],
    ids=["one", "several", "zone and region", "region", "old label", "unreadable", "none"],
)
def test_nodes_in_the_zones_of_the_volume(labels: dict[str, str], expected: list[str]) -> None:
    """A node without any such label is in every zone; today's label answers for yesterday's."""
    volume = make_volume("pv", labels=labels, claim="data")

    assert feasible(cluster_with(*NODES, make_claim("data", volume="pv"), volume), POD) == expected


def test_the_reason_and_its_cause() -> None:
    """A volume in another zone is a reason that names the wanted zones and the node's."""
    volume = make_volume("pv", labels={ZONE: "a__c"}, claim="data")
    cluster = cluster_with(NODES[1], NODES[3], make_claim("data", volume="pv"), volume)

    assert message(cluster, POD) == "2 node(s) had no available volume zone."
    assert causes(cluster, POD, "b") == {"VolumeZone": (f"volume pv wants {ZONE} in (a,c), the node has b",)}
    assert causes(cluster, POD, "region") == {
        "VolumeZone": (f"volume pv wants {ZONE} in (a,c), the node has no label {ZONE}",)
    }
