"""Features that a pod relies on and a node declares."""

from msgspec.structs import replace

from berth.engine.placement.queueing_hints import can_help
from berth.engine.state.cluster_events import node_change
from berth.kube.defaults import default_node
from berth.kube.objects import Container, ContainerRestartRule, Node, NodeStatus
from tests.support.builders import PodBuilder, make_node, make_pod
from tests.support.storage import class_of, cluster_with, feasible, message

FEATURE = "RestartAllContainersOnContainerExits"
RULE = ContainerRestartRule(action="RestartAllContainers")


def restarting() -> PodBuilder:
    pod = make_pod("p").build()
    (container,) = pod.spec.containers or [Container()]
    spec = replace(pod.spec, containers=[replace(container, restart_policy_rules=[RULE])])
    return PodBuilder(replace(pod, spec=spec))


def declaring(node: Node) -> Node:
    status = replace(node.status or NodeStatus(), declared_features=[FEATURE])
    return default_node(replace(node, status=status))


def test_a_pod_goes_where_its_features_are_declared() -> None:
    """A node that does not say that it has the feature is refused, whatever else it has."""
    cluster = cluster_with(make_node("old"), make_node("new"))
    pod = restarting()
    assert message(cluster, pod) == "2 node(s) didn't match Pod's required features."
    cluster.add_node(declaring(make_node("new").build()))
    assert feasible(cluster, pod) == ["new"]


def test_only_a_newly_declared_feature_helps() -> None:
    """A pod that waits for a feature is tried again when a node declares it, not when one is relabelled."""
    cluster = cluster_with(make_node("a"))
    assert not feasible(cluster, restarting())
    pod = class_of(cluster, restarting())
    before = default_node(make_node("a").build())
    for after, helps in (
        (default_node(make_node("a").labels(x="y").build()), False),
        (declaring(before), True),
    ):
        change = node_change(0, before, after)
        cluster.add_node(after)
        assert change is not None
        assert can_help(cluster, pod, {"NodeDeclaredFeatures"}, change) is helps
