import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from berth.engine.execution.violations import affected_pods, all_violations
from berth.engine.rules.verdicts import NODE, RuleViolation
from berth.engine.state.cluster import Cluster as EngineCluster
from berth.engine.state.cluster_events import (
    ClusterEvent,
    NamespaceUpdated,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    OwnersChanged,
    PodAdded,
    PodDeleted,
    VolumesChanged,
    node_change,
)
from berth.kube.defaults import created, default_node
from berth.kube.objects import Node
from tests.support import changes
from tests.support.builders import (
    HOSTNAME,
    ZONE,
    NodeBuilder,
    PodBuilder,
    make_namespace,
    make_node,
    make_pod,
)
from tests.support.cluster import Cluster, key_of
from tests.support.cluster_events import follow
from tests.support.engine import engine_of
from tests.support.generated import execution_rules

FOLLOWERS, LONERS = {"default/f-a", "default/f-b"}, {"default/l-a", "default/l-b"}


def node(name: str, zone: str) -> NodeBuilder:
    return make_node(name).labels({HOSTNAME: name, ZONE: zone})


def pod(name: str) -> PodBuilder:
    return make_pod(name)


@pytest.fixture
def engine() -> EngineCluster:
    """In each of two zones a pod that wants a leader, one that wants no web, and one without a rule."""
    pods = [
        placed.on(f"n-{zone}").build()
        for zone in "ab"
        for placed in (
            pod(f"f-{zone}").affinity_to(app="leader", topology=ZONE, during_execution=True),
            pod(f"l-{zone}").anti_affinity_to(app="web", topology=ZONE, during_execution=True),
            pod(f"x-{zone}").anti_affinity_to(app="web", topology=ZONE),
        )
    ]
    nodes = tuple(node(f"n-{zone}", zone).build() for zone in "ab")
    return engine_of(Cluster(nodes=nodes, pods=tuple(pods)))


def came(engine: EngineCluster, pod: PodBuilder, node: str) -> PodAdded:
    built = created(pod.on(node).build())
    engine.add_pod(built)
    return PodAdded(engine.class_of(built), engine.nodes.slot_of[node])


def left(engine: EngineCluster, pod: PodBuilder, node: str) -> PodDeleted:
    return PodDeleted(engine.class_of(created(pod.build())), engine.nodes.slot_of[node])


def test_a_pod_concerns_those_who_care_for_it_in_its_domain(engine: EngineCluster) -> None:
    """A pod that comes or goes affects the execution rules of its domain that match it."""
    leader, web = pod("leader").labels(app="leader"), pod("web").labels(app="web")

    assert affected_pods(engine, left(engine, leader, "n-a")) == {"default/f-a"}
    assert affected_pods(engine, left(engine, web, "n-b")) == {"default/l-b"}
    assert affected_pods(engine, came(engine, leader, "n-b")) == {"default/f-b"}
    assert affected_pods(engine, came(engine, web, "n-a")) == {"default/l-a"}
    assert affected_pods(engine, came(engine, pod("other").labels(app="other"), "n-a")) == set()


def test_a_pod_that_comes_has_rules_of_its_own(engine: EngineCluster) -> None:
    """One record may stand for all arrivals of equal pods."""
    one, two = (
        pod(name).affinity_to(app="x", topology=HOSTNAME, during_execution=True) for name in ("one", "two")
    )
    came(engine, one, "n-a")
    change = came(engine, two, "n-b")

    assert affected_pods(engine, change) == {"default/one", "default/two"}


def test_the_first_of_a_group_is_concerned_wherever_a_second_comes(engine: EngineCluster) -> None:
    """From then on it is not alone any more, and may be in the wrong place."""
    came(engine, pod("g").labels(app="g").affinity_to(app="g", topology=ZONE, during_execution=True), "n-a")

    assert affected_pods(engine, came(engine, pod("h").labels(app="g"), "n-b")) == {"default/g"}


def test_a_node_that_moves_concerns_the_domain_it_left_and_the_one_it_joined(engine: EngineCluster) -> None:
    """Labels that are no topology of any rule concern nobody."""

    def relabelled(before: NodeBuilder, after: NodeBuilder) -> NodeUpdated:
        old, new = default_node(before.build()), default_node(after.build())
        change = node_change(engine.add_node(new), old, new)
        assert change is not None
        return change

    assert affected_pods(engine, relabelled(node("n-c", "a"), node("n-c", "a").labels(disk="ssd"))) == set()
    assert affected_pods(engine, relabelled(node("n-c", "a"), node("n-c", "c"))) == {
        "default/f-a",
        "default/l-a",
    }
    assert affected_pods(engine, relabelled(node("n-a", "a"), node("n-a", "b"))) == FOLLOWERS | LONERS
    assert affected_pods(engine, relabelled(node("n-a", "b"), make_node("n-a"))) == FOLLOWERS | LONERS


def test_a_node_that_leaves_concerns_its_pods_and_those_of_its_domains(engine: EngineCluster) -> None:
    """A node that leaves affects the pods of its domains, or all if unknown; an empty new one nobody."""
    old = default_node(node("n-a", "a").build())
    slot = engine.nodes.slot_of["n-a"]
    engine.remove_node("n-a")

    assert affected_pods(engine, NodeDeleted(slot, old)) == {"default/f-a", "default/l-a"}
    assert affected_pods(engine, NodeDeleted(slot)) == FOLLOWERS | LONERS
    fresh = engine.add_node(default_node(node("n-c", "b").build()))
    assert affected_pods(engine, NodeAdded(fresh)) == set()
    back = engine.add_node(old)
    assert affected_pods(engine, NodeAdded(back)) == {"default/f-a", "default/l-a"}


def test_a_namespace_concerns_those_who_select_namespaces(engine: EngineCluster) -> None:
    """Services and volumes concern nobody."""
    selective = pod("s").affinity_to(
        app="x", topology=ZONE, namespace_selector={"env": "dev"}, during_execution=True
    )
    came(engine, selective, "n-a")
    engine.set_namespace(make_namespace("team-a").labels(env="dev").build())

    assert affected_pods(engine, NamespaceUpdated()) == {"default/s"}
    assert affected_pods(engine, OwnersChanged()) == affected_pods(engine, VolumesChanged()) == set()


# --- nobody is missed ---------------------------------------------------------------------


def _about_pods(engine: EngineCluster) -> dict[str, set[tuple[str, str]]]:
    found: dict[str, set[tuple[str, str]]] = {}
    for violation in all_violations(engine):
        if violation.kind != NODE:
            found.setdefault(violation.pod, set()).add(_told(violation))
    return found


def _told(violation: RuleViolation) -> tuple[str, str]:
    return violation.node, violation.path or ""


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data(), execution_rules.clusters(most_pods=6), st.integers(1, 4))
def test_whoever_is_judged_differently_was_affected(data: st.DataObject, cluster: Cluster, most: int) -> None:
    """Who is judged differently was named, also if several things happened before anybody looked."""
    engine = engine_of(cluster)
    gone: list[Node] = []
    for step in range(4):
        before = _about_pods(engine)
        records: list[ClusterEvent] = []
        for part in range(data.draw(st.integers(1, most))):
            change = data.draw(execution_rules.next_change(cluster, gone, f"new{step}-{part}"))
            old = cluster
            cluster, more = follow(engine, old, change)
            records += more
            present = {node.metadata.name for node in cluster.nodes}
            gone = [node for node in (*gone, *old.nodes) if node.metadata.name not in present]
        after = _about_pods(engine)
        there = {key_of(pod) for pod in cluster.pods}
        different = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
        affected = {key for record in records for key in affected_pods(engine, record)}

        assert different & there <= affected


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data(), execution_rules.clusters())
def test_one_record_may_stand_for_all_arrivals_of_equal_pods(data: st.DataObject, cluster: Cluster) -> None:
    """One record stands for all arrivals of equal pods, whichever of their nodes it names."""
    engine = engine_of(cluster)
    names = [node.metadata.name or "" for node in cluster.nodes]
    arrival = data.draw(execution_rules.pods("new"))
    before = _about_pods(engine)
    slots = []
    for i, name in enumerate(data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3))):
        metadata = msgspec.structs.replace(arrival.metadata, name=f"new{i}")
        engine.add_pod(created(msgspec.structs.replace(changes.bound(arrival, name), metadata=metadata)))
        slots.append(engine.nodes.slot_of[name])
    after = _about_pods(engine)
    different = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    record = PodAdded(engine.class_of(created(arrival)), data.draw(st.sampled_from(slots)))

    assert different <= affected_pods(engine, record)
