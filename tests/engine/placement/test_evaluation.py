"""The sentence about a pod that fits nowhere, where versions of kube-scheduler word it differently."""

import pytest

from berth.engine.placement.evaluation import fit_error
from berth.engine.placement.plan import plan_for
from berth.engine.rules import RULES, in_order
from berth.engine.state.cluster import Cluster
from berth.engine.state.options import Options
from berth.kube.defaults import default_node
from berth.kube.objects import Pod
from berth.kube.versions import NEWEST, VERSIONS
from tests.support.builders import PodBuilder, make_node, make_pod, where

NODES = ("a", "b", "c")


def cluster_of(version: str) -> Cluster:
    cluster = Cluster(Options(version=VERSIONS[version]))
    for name in NODES:
        cluster.add_node(default_node(make_node(name).capacity(cpu="1").build()))
    return cluster


def sentence(version: str, pod: Pod) -> str:
    cluster = cluster_of(version)
    return fit_error(plan_for(cluster, cluster.class_of(pod, pinned=True)))[0]


def naming(node: str) -> PodBuilder:
    return make_pod("p").on(node).requests(cpu="2")


@pytest.mark.parametrize(
    ("version", "others"),
    [
        ("1.36", "2 node(s) didn't match the requested node name"),
        ("1.37", "2 node(s) didn't satisfy plugin(s) [NodeName]"),
    ],
)
def test_a_pod_that_names_its_node(version: str, others: str) -> None:
    """The other nodes were asked in 1.36, and are left out before any is asked since 1.37."""
    expected = f"0/3 nodes are available: 1 Insufficient cpu, {others}."
    assert sentence(version, naming("a").build()) == expected


def test_a_node_that_is_not_there() -> None:
    """A pod that names no node of the cluster has none to be asked."""
    expected = "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeName]."
    assert sentence("1.37", naming("gone").build()) == expected


def test_two_rules_that_leave_no_node_between_them() -> None:
    """A pod that names one node, and another in its affinity, is told which rules do not go together."""
    pod = naming("a").node_affinity(fields=[where("metadata.name", "In", "b")]).build()
    words = "node(s) didn't satisfy plugin(s) [NodeAffinity NodeName] simultaneously"
    assert sentence("1.37", pod) == f"0/3 nodes are available: {words}."


@pytest.mark.parametrize(
    ("version", "first"),
    [("1.36", ["NodeUnschedulable", "NodeName"]), ("1.37", ["NodeName", "NodeUnschedulable"])],
)
def test_the_order_of_rules(version: str, first: list[str]) -> None:
    """Rules are asked in the order of the version; only the first two changed places."""
    cluster = cluster_of(version)
    pod_class = cluster.class_of(make_pod("p").build())
    compiled = [rule(cluster, pod_class) for rule in RULES]
    names = [rule.name for rule in in_order(compiled, VERSIONS[version])]
    assert names[:2] == first
    assert names[2:] == [rule.name for rule in in_order(compiled, NEWEST)][2:]
