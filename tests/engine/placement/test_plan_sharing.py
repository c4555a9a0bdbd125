"""What the rules about single nodes say is shared by pods that ask the same of a node."""

from berth.engine.placement.plan import plan_for
from berth.engine.state.cluster import Cluster
from berth.kube.defaults import created, default_node
from berth.kube.well_known import HOSTNAME
from tests.support.builders import PodBuilder, make_node, make_pod


def cluster_with(*names: str) -> Cluster:
    cluster = Cluster()
    for name in names:
        cluster.add_node(default_node(make_node(name).labels({HOSTNAME: name}).build()))
    return cluster


def share(cluster: Cluster, one: PodBuilder, other: PodBuilder) -> bool:
    first, second = (plan_for(cluster, cluster.class_of(created(pod.build()))) for pod in (one, other))
    return first is not second and first.node_rules is second.node_rules


def test_pods_that_differ_in_their_labels_share_answers() -> None:
    """Neither labels nor rules about other pods matter to a single node."""
    cluster = cluster_with("a")
    web = make_pod("web").labels(app="web")
    db = make_pod("db").labels(app="db").anti_affinity_to(app="db", topology=HOSTNAME)

    assert share(cluster, web, db)


def test_pods_that_ask_for_other_nodes_do_not() -> None:
    """A node selector, a request or a toleration makes other answers."""
    cluster = cluster_with("a")
    plain = make_pod("plain")

    assert not share(cluster, plain, make_pod("picky").node_selector(disk="ssd"))
    assert not share(cluster, plain, make_pod("large").requests(cpu="2"))


def test_shared_answers_follow_the_nodes() -> None:
    """A node that goes after one class was placed is not offered to another."""
    cluster = cluster_with("a", "b")
    web, db = (cluster.class_of(created(make_pod(name).labels(app=name).build())) for name in ("web", "db"))
    assert plan_for(cluster, web).choose() == cluster.nodes.slot_of["a"]
    assert plan_for(cluster, db).choose() == cluster.nodes.slot_of["a"]

    cluster.remove_node("a")

    assert plan_for(cluster, db).choose() == cluster.nodes.slot_of["b"]
    assert plan_for(cluster, web).choose() == cluster.nodes.slot_of["b"]
