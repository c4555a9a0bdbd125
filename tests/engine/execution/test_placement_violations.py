"""Which rules would refuse a running pod's own node, were it placed there now."""

from berth.engine.execution.violations import placement_violations
from berth.kube.defaults import created, default_node
from berth.kube.well_known import HOSTNAME
from tests.support.builders import make_node, make_pod
from tests.support.cluster import Cluster
from tests.support.engine import engine_of, verdict_of

ZONE = "zone"


def two_zones() -> tuple[Cluster, str]:
    """A pod that follows its peer into zone a and keeps to nodes with disk=ssd, and its key."""
    nodes = [make_node(f"n{z}").labels({HOSTNAME: f"n{z}", ZONE: z, "disk": "ssd"}).build() for z in "ab"]
    peer = make_pod("peer").labels(app="db").on("na").build()
    pod = (
        make_pod("web")
        .labels(app="web")
        .on("na")
        .node_selector(disk="ssd")
        .affinity_to(app="db", topology=ZONE)
        .anti_affinity_to(app="web", topology=HOSTNAME)
        .build()
    )
    return Cluster(nodes=tuple(nodes), pods=(peer, pod)), "default/web"


def broken(cluster: Cluster, key: str = "default/web") -> list[str]:
    return [violation.rule for violation in placement_violations(engine_of(cluster), [key])[key]]


def test_rules_that_hold_are_not_broken() -> None:
    """A pod does not stand in its own way, nor does it count as its own peer."""
    cluster, key = two_zones()

    assert broken(cluster, key) == []


def test_every_rule_that_stopped_holding_is_named() -> None:
    """A lost label, a peer that left and another of its like that came are each named."""
    cluster, key = two_zones()
    engine = engine_of(cluster)
    engine.add_node(default_node(make_node("na").labels({HOSTNAME: "na", ZONE: "a"}).build()))
    engine.remove_pod("default/peer")
    engine.add_pod(created(make_pod("twin").labels(app="web").on("na").build()))

    found = placement_violations(engine, [key])[key]

    assert [violation.rule for violation in found] == ["NodeAffinity", "InterPodAffinity", "InterPodAffinity"]
    assert {(violation.pod, violation.node) for violation in found} == {(key, "na")}
    assert found[0].cause == "nodeSelector wants disk=ssd, the node has no label disk"


def test_asking_changes_nothing() -> None:
    """The pod is back in every count afterwards."""
    cluster, key = two_zones()
    engine = engine_of(cluster)
    probe = make_pod("probe").labels(app="web").affinity_to(app="db", topology=ZONE).build()
    before = verdict_of(engine, probe)
    placement_violations(engine, [key])

    assert before == verdict_of(engine, probe)


def test_nothing_is_said_of_a_pod_that_does_not_run() -> None:
    """Neither of one that is not there nor of one whose node is not: not even that it breaks nothing."""
    cluster, key = two_zones()
    engine = engine_of(cluster)
    engine.remove_node("na")

    assert placement_violations(engine, [key, "default/nobody"]) == {}
