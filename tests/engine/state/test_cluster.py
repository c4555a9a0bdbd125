import numpy as np
import pytest

from berth.engine.placement.plan import plan_for, plans_kept
from berth.engine.state import classes
from berth.engine.state.cluster import Cluster
from berth.engine.state.options import Options
from berth.kube.defaults import created, default_node
from berth.kube.objects import ObjectMeta, Pod, Service
from berth.kube.objects.cluster import ServiceSpec
from berth.kube.well_known import HOSTNAME
from tests.support.builders import NodeBuilder, PodBuilder, make_node, make_pod

INDEX = "apps.kubernetes.io/pod-index"


def cluster_of(*nodes: NodeBuilder, options: Options | None = None) -> Cluster:
    cluster = Cluster(options)
    for node in nodes:
        cluster.add_node(default_node(node.build()))
    return cluster


def host(name: str) -> NodeBuilder:
    return make_node(name).labels({HOSTNAME: name})


def placed(cluster: Cluster, pod: PodBuilder, rng: np.random.Generator | None = None) -> str | None:
    """Place a pod and count it where it went."""
    built: Pod = created(pod.build())
    pod_class = cluster.class_of(built)
    best = plan_for(cluster, pod_class).best(rng)
    if best is None:
        return None
    name = cluster.nodes.names[best[0]] or ""
    key = f"default/{built.metadata.name}"
    cluster.assume(key, pod_class, name, identity=cluster.identity_of(built))
    return name


def alone(name: str) -> PodBuilder:
    """A pod that keeps away from its like."""
    return make_pod(name).labels(app="x").anti_affinity_to(app="x", topology=HOSTNAME)


def test_ties_go_to_the_node_that_came_first() -> None:
    """A node that takes over a removed one's slot is still the youngest."""
    cluster = cluster_of(host("a"), host("b"))
    cluster.remove_node("a")
    cluster.add_node(default_node(host("c").build()))

    assert placed(cluster, make_pod("p").labels(app="x")) == "b"


def test_seeded_ties_are_repeatable() -> None:
    """The same seed draws the same nodes, and not always the first one."""
    draws = []
    for _ in range(2):
        cluster, rng = cluster_of(*(host(f"n{i}") for i in range(8))), np.random.default_rng(7)
        draws.append([placed(cluster, alone(f"p{i}"), rng) for i in range(8)])

    assert draws[0] == draws[1]
    assert sorted(draws[0], key=str) == [f"n{i}" for i in range(8)]
    assert draws[0] != sorted(draws[0], key=str)


def test_pods_of_a_removed_node_return_with_it() -> None:
    """They do not count while their node is gone, and count again when it comes back."""
    cluster = cluster_of(host("a"), host("b"))
    cluster.add_pod(created(alone("p").on("a").build()))
    cluster.remove_node("a")
    cluster.add_node(default_node(host("a").build()))

    assert placed(cluster, alone("q")) == "b"
    assert placed(cluster, alone("r")) is None


def test_a_pod_of_an_unknown_node_can_be_removed() -> None:
    """A pod may come before its node, and go before it, too."""
    cluster = cluster_of(host("a"))
    cluster.add_pod(created(make_pod("p").on("late").build()))
    cluster.remove_pod("default/p")
    cluster.add_node(default_node(host("late").build()))

    assert list(cluster.pods_on("late")) == []


def test_a_heartbeat_changes_nothing() -> None:
    """An update that says nothing new leaves everything that was computed in place."""
    cluster = cluster_of(host("a"))
    placed(cluster, make_pod("p"))
    version = cluster.nodes.version
    cluster.add_node(default_node(host("a").build()))

    assert version == cluster.nodes.version


def test_replicas_of_a_stateful_set_share_a_class() -> None:
    """The labels that number replicas do not split them into classes."""
    cluster = cluster_of(host("a"))
    first, second = (
        created(make_pod(f"db-{i}").labels({"app": "db", INDEX: str(i)}).build()) for i in (0, 1)
    )

    assert cluster.class_of(first) is cluster.class_of(second)


def test_an_identity_label_counts_once_it_is_mentioned() -> None:
    """A selector that asks for one replica finds it, although replicas shared a class before."""
    cluster = cluster_of(host("a"), host("b"))
    for i, node in enumerate("ab"):
        cluster.add_pod(created(make_pod(f"db-{i}").labels({"app": "db", INDEX: str(i)}).on(node).build()))
    follower = make_pod("follower").affinity_to({INDEX: "1"}, topology=HOSTNAME)

    assert placed(cluster, follower) == "b"


def test_a_label_of_many_values_does_not_tell_pods_apart() -> None:
    """Pods that each have their own value of a label nobody asks for share classes."""
    cluster = cluster_of(host("a"))
    for i in range(300):
        cluster.add_pod(created(make_pod(f"p{i}").labels(app="x", run=f"run-{i}").on("a").build()))

    assert len(cluster.classes.by_key) < 100


def test_a_label_of_many_values_counts_once_it_is_mentioned() -> None:
    """The one pod with the value that is asked for is found, also if its labels changed meanwhile."""
    cluster = cluster_of(host("a"), host("b"))
    for i in range(90):
        cluster.add_pod(created(make_pod(f"p{i}").labels(app="x", run=f"run-{i}").on("a").build()))
    cluster.add_pod(created(make_pod("p89").labels(app="x", run="moved").on("b").build()))

    assert placed(cluster, make_pod("follower").affinity_to({"run": "moved"}, topology=HOSTNAME)) == "b"
    assert placed(cluster, make_pod("second").affinity_to({"run": "run-88"}, topology=HOSTNAME)) == "a"


def test_a_service_that_selects_by_an_identity_counts_for_default_spreading() -> None:
    """The pods of a StatefulSet that has a Service for each are told apart, as kube-scheduler does."""
    cluster = cluster_of(host("a"), host("b"))
    first, second = (
        created(make_pod(f"db-{i}").labels({"app": "db", INDEX: str(i)}).build()) for i in (0, 1)
    )
    assert cluster.class_of(first) is cluster.class_of(second)

    selector = {"app": "db", INDEX: "0"}
    meta = ObjectMeta(name="db-0", namespace="default")
    cluster.set_owner(Service(metadata=meta, spec=ServiceSpec(selector=selector)))

    assert cluster.class_of(first) is not cluster.class_of(second)


def test_a_forgotten_class_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever still holds a class that was swept away can use it as before."""
    monkeypatch.setattr(classes, "_SWEEP_FLOOR", 4)
    cluster = cluster_of(host("a"), host("b"))
    cluster.classes._sweep_at = 4
    waiting = cluster.class_of(created(alone("waiting").build()))
    for i in range(20):
        cluster.class_of(created(make_pod(f"p{i}").labels(app=f"app-{i}").build()))
    assert cluster.current(waiting) is not waiting

    cluster.assume("default/waiting", waiting, "a")

    assert placed(cluster, alone("next")) == "b"


def numbered(number: int, **labels: str) -> Pod:
    return created(make_pod(f"db-{number}").labels({"app": "db", INDEX: str(number), **labels}).build())


def test_a_known_class_is_found_again() -> None:
    """As long as nothing changed, with labels that it does not show and without."""
    cluster = cluster_of(host("a"))
    for pod in (numbered(0), created(make_pod("bare").build())):
        known = cluster.class_of(pod)
        assert cluster.class_of(pod, known=known) is known


def test_a_known_class_is_another_once_a_label_is_mentioned() -> None:
    """A pod gets another class, even if its old one is still that of a pod without the label."""
    cluster = cluster_of(host("a"))
    first, plain = numbered(0), created(make_pod("db").labels(app="db").build())
    known = cluster.class_of(first)
    assert cluster.class_of(plain) is known

    cluster.class_of(created(make_pod("follower").affinity_to({INDEX: "0"}, topology=HOSTNAME).build()))

    assert cluster.class_of(plain, known=known) is known
    assert cluster.class_of(first, known=known) is cluster.class_of(first)
    assert cluster.class_of(first, known=known) is not known


def test_a_known_class_is_another_once_a_label_is_left_out() -> None:
    """A pod gets another class, even if one label is shown from then on and another left out."""
    cluster = cluster_of(host("a"))
    pods = [numbered(i, run=f"run-{i}") for i in range(80)]
    known = cluster.class_of(pods[0])
    assert "run" in known.labels
    for pod in pods:
        cluster.class_of(pod)
    assert cluster.class_of(pods[0], known=known).labels == {"app": "db"}

    cluster.class_of(created(make_pod("follower").affinity_to({INDEX: "0"}, topology=HOSTNAME).build()))

    assert cluster.class_of(pods[0], known=known).labels == {"app": "db", INDEX: "0"}


def test_a_known_class_is_another_if_the_pod_changed_or_it_was_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A label or an owner that the pod got since makes another class, and one that is gone a new one."""
    monkeypatch.setattr(classes, "_SWEEP_FLOOR", 4)
    cluster = cluster_of(host("a"))
    cluster.classes._sweep_at = 4
    pod = created(make_pod("p").labels(app="x").build())
    known = cluster.class_of(pod)
    owned = make_pod("p").labels(app="x").owned_by("ReplicaSet", "rs")
    for changed in (make_pod("p").labels(app="y"), owned):
        built = created(changed.build())
        assert cluster.class_of(built, known=known) is cluster.class_of(built)
        assert cluster.class_of(built, known=known) is not known
    for i in range(20):
        cluster.class_of(created(make_pod(f"p{i}").labels(app=f"app-{i}").build()))

    assert cluster.class_of(pod, known=known) is cluster.current(known)
    assert cluster.class_of(pod, known=known) is not known


def test_plans_are_kept_within_a_gibibyte() -> None:
    """The more nodes a plan covers, the fewer are kept; a few always are."""
    assert plans_kept(5_000) == 2048
    assert 100 < plans_kept(100_000) < 300
    assert plans_kept(10_000_000) == 64


def test_daemons_may_share_an_exclusive_node() -> None:
    """Required anti-affinity overlooks pods in the daemon namespaces, whichever comes first."""
    exclusive = make_pod("exclusive").anti_affinity_to(namespace_selector={}, topology=HOSTNAME)
    daemon = make_pod("daemon").namespace("kube-system")
    first_daemon = cluster_of(host("a"))
    first_daemon.add_pod(created(daemon.on("a").build()))
    strict = cluster_of(host("a"), options=Options(daemon_namespaces=frozenset()))
    strict.add_pod(created(daemon.on("a").build()))

    assert placed(first_daemon, exclusive) == "a"
    assert placed(first_daemon, make_pod("late").namespace("kube-system")) == "a"
    assert placed(first_daemon, make_pod("stranger")) is None
    assert placed(strict, exclusive) is None


def test_any_number_of_rules_may_refuse_a_node() -> None:
    """Twenty refusals are as final as one."""
    keys = [f"k{i}" for i in range(20)]
    cluster = cluster_of(*(make_node(n).labels(dict.fromkeys(keys, n)) for n in "ab"))
    cluster.add_pod(created(make_pod("peer").labels(app="x").on("a").build()))
    pod, spread = make_pod("p"), make_pod("q").labels(app="x")
    for key in keys:
        pod = pod.anti_affinity_to(app="x", topology=key)
        spread = spread.spread(key, match={"app": "x"})

    assert placed(cluster, spread) == "b"
    cluster.remove_pod("default/q")
    assert placed(cluster, pod) == "b"


def test_the_largest_skew_is_just_a_number() -> None:
    """Soft constraints may tolerate any skew that the API allows."""
    cluster = cluster_of(make_node("a").labels(zone="a"), make_node("b").labels(zone="b"))
    cluster.add_pod(created(make_pod("peer").labels(app="x").on("a").build()))
    largest = 2**31 - 1
    pod = make_pod("p").labels(app="x")
    for topology in ("zone", "zone"):
        pod = pod.spread(topology, max_skew=largest, when="ScheduleAnyway", match={"app": "x"})

    assert placed(cluster, pod) in ("a", "b")


@pytest.mark.parametrize("count", [7, 8, 16])
def test_a_topology_first_used_after_the_newest_nodes_left(count: int) -> None:
    """Scaling down before anyone asks for hostnames leaves slots beyond the last hostname."""
    cluster = cluster_of(*(host(f"n{i}") for i in range(count)))
    cluster.remove_node(f"n{count - 1}")

    assert placed(cluster, alone("p")) == "n0"
    assert placed(cluster, alone("q")) == "n1"


def test_replaced_nodes_leave_nothing_behind() -> None:
    """A cluster whose nodes come and go keeps no more hostnames than it has nodes, each in its place."""
    cluster = cluster_of(*(host(f"n{i}") for i in range(4)))
    placed(cluster, alone("p"))
    for i in range(100):
        cluster.remove_node(f"n{i}")
        cluster.add_node(default_node(host(f"n{i + 4}").build()))
    column = cluster.nodes.column(HOSTNAME)

    assert len(column.values) == 5
    assert column.identity


def test_requests_below_a_thousandth_are_rounded_up_one_by_one() -> None:
    """The API server keeps thousandths, so two requests of half a millicore are two millicores."""
    cluster = cluster_of(make_node("a").capacity(cpu="1m", memory="1Gi", pods="10"))

    assert placed(cluster, make_pod("p").requests(cpu="500u")) == "a"
    assert placed(cluster, make_pod("q").requests(cpu="500u")) is None


def test_the_cluster_without_some_pods_is_whole_again_afterwards() -> None:
    """Every pod is back in its place and in every count, terminating as before, even after an error."""
    cluster = cluster_of(host("a"), host("b"))
    for name, node in (("p", "a"), ("q", "b"), ("late", "nowhere")):
        cluster.add_pod(created(alone(name).on(node).terminating().build()))
    before, places = list(cluster.pods_on("a")), dict(cluster.pods.index)

    def fail() -> None:
        with cluster.without("default/late", "default/p", "default/p"):
            assert placed(cluster, alone("r")) == "a"
            cluster.remove_pod("default/r")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert before == list(cluster.pods_on("a"))
    assert places == dict(cluster.pods.index)
    assert cluster.pods.terminating[places["default/p"]]
    assert placed(cluster, alone("r")) is None


def test_a_pod_that_is_not_there_cannot_be_imagined_away() -> None:
    """A hypothetical removal of an unknown pod is refused and changes nothing."""
    cluster = cluster_of(host("a"))
    cluster.add_pod(created(alone("p").on("a").build()))
    with pytest.raises(KeyError), cluster.without("default/p", "default/nobody"):
        pass

    assert cluster.has_pod("default/p")


def test_a_label_mentioned_while_its_pod_is_away_counts_when_it_is_back() -> None:
    """The pod returns to a class that shows the label."""
    cluster = cluster_of(host("a"), host("b"))
    for i, node in enumerate("ab"):
        cluster.add_pod(created(make_pod(f"db-{i}").labels({"app": "db", INDEX: str(i)}).on(node).build()))
    follower = make_pod("follower").affinity_to({INDEX: "1"}, topology=HOSTNAME)
    with cluster.without("default/db-0", "default/db-1"):
        assert placed(cluster, follower) is None

    assert placed(cluster, follower) == "b"
