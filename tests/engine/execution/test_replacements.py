from typing import Any

from hypothesis import HealthCheck, given, settings

from berth.engine.execution.eviction_set import PodToEvict, eviction_set, replacement_nodes
from berth.engine.execution.violations import all_violations
from berth.engine.state.cluster import Cluster as EngineCluster
from berth.kube.defaults import created
from berth.kube.objects import Node, Pod
from tests.support.builders import HOSTNAME, NodeBuilder, PodBuilder, make_node, make_pod
from tests.support.cluster import Cluster, key_of
from tests.support.engine import engine_of, verdict_of
from tests.support.generated import execution_rules


def node(name: str, **labels: str) -> NodeBuilder:
    return make_node(name).labels({HOSTNAME: name, **labels})


def built(*things: NodeBuilder | PodBuilder) -> EngineCluster:
    objects = [thing.build() for thing in things]
    nodes = tuple(thing for thing in objects if isinstance(thing, Node))
    return engine_of(Cluster(nodes=nodes, pods=tuple(thing for thing in objects if isinstance(thing, Pod))))


def decide(engine: EngineCluster) -> dict[str, str | None]:
    return replacement_nodes(engine, eviction_set(engine, all_violations(engine)))


def tenant(name: str) -> PodBuilder:
    return make_pod(name).on("old").node_affinity(userB="allow", during_execution=True)


def test_a_replacement_goes_where_the_rule_holds() -> None:
    """A replacement goes where the rule holds, and never back to where it is broken."""
    engine = built(node("old"), node("other"), node("new", userB="allow"), tenant("a"))

    assert decide(engine) == {"default/a": "new"}


def test_a_replacement_that_fits_nowhere_has_no_node() -> None:
    """Its pod is as it was, and another that fits is not kept from its place."""
    engine = built(node("old"), node("new", userB="allow"), tenant("b").requests(cpu="2000"), tenant("a"))

    assert decide(engine) == {"default/b": None, "default/a": "new"}
    assert "default/b" in dict(engine.pods_on("old"))


def test_all_other_rules_count_and_earlier_replacements_are_in_place() -> None:
    """Two that keep apart take two nodes, and for the third there is none left."""
    pods = [
        tenant(name).labels(app="b").anti_affinity_to(app="b", topology=HOSTNAME) for name in ("x", "y", "z")
    ]
    engine = built(node("old"), node("new-1", userB="allow"), node("new-2", userB="allow"), *pods)

    assert decide(engine) == {"default/z": "new-1", "default/y": "new-2", "default/x": None}


def test_those_who_leave_later_are_still_there() -> None:
    """The room they take is free only once they go."""
    first = make_pod("first").on("a").requests(cpu="3").node_affinity(disk="ssd", during_execution=True)
    later = make_pod("later").on("b").requests(cpu="3").node_affinity(disk="hdd", during_execution=True)
    nodes = node("a", disk="hdd").capacity(cpu="4"), node("b", disk="ssd").capacity(cpu="4")
    engine = built(*nodes, first, later)

    gone = [PodToEvict("default/first", ()), PodToEvict("default/later", ())]
    assert replacement_nodes(engine, gone) == {"default/first": None, "default/later": "a"}


def test_pods_that_are_not_there_are_left_out() -> None:
    """Pods that left before anybody asked are left out of the answer."""
    assert replacement_nodes(built(node("n")), [PodToEvict("default/nobody", ())]) == {}


def _state(engine: EngineCluster) -> dict[str, Any]:
    table = engine.pods
    slots = {
        key: (pod, int(table.node[pod]), bool(table.terminating[pod])) for key, pod in table.index.items()
    }
    labels = {key: engine.labels_of(pod) for key, pod in table.index.items()}
    requested = engine.nodes.requested.tolist()
    return {"slots": slots, "labels": labels, "requested": requested, "free": list(table._free)}


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(execution_rules.clusters(), execution_rules.pods("probe"))
def test_asking_changes_nothing(cluster: Cluster, probe: Pod) -> None:
    """The cluster is the same in every detail, and judges like one built afresh."""
    engine = engine_of(cluster)
    verdict_of(engine, probe)  # so that there are counts to be kept up to date
    engine.class_of(created(probe))
    before = _state(engine)
    found = replacement_nodes(engine, [PodToEvict(key_of(pod), ()) for pod in cluster.pods])
    fresh = engine_of(cluster)

    assert set(found) == {key_of(pod) for pod in cluster.pods}
    assert _state(engine) == before
    assert verdict_of(engine, probe) == verdict_of(fresh, probe)
    assert all_violations(engine) == all_violations(fresh)
