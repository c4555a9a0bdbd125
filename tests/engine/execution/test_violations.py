from hypothesis import HealthCheck, given, settings

from berth.engine.execution.violations import (
    all_violations,
    is_in_the_way,
    node_violations,
    violations_among,
    violations_of,
)
from berth.engine.rules.verdicts import AFFINITY, ANTI_AFFINITY, MOST_PEERS, NODE
from berth.kube.defaults import default_node
from berth.kube.objects import Node, Pod
from tests.reference import Args, execution
from tests.support.builders import (
    EXECUTION,
    HOSTNAME,
    ZONE,
    NodeBuilder,
    PodBuilder,
    make_node,
    make_pod,
    where,
)
from tests.support.cluster import Cluster, key_of
from tests.support.engine import engine_of
from tests.support.generated import execution_rules, strategies

thorough = settings(
    max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def node(name: str, zone: str = "a") -> NodeBuilder:
    return make_node(name).labels({HOSTNAME: name, ZONE: zone})


def world(*things: NodeBuilder | PodBuilder, args: Args | None = None) -> Cluster:
    built = [thing.build() for thing in things]
    return Cluster(
        nodes=tuple(thing for thing in built if isinstance(thing, Node)),
        pods=tuple(thing for thing in built if isinstance(thing, Pod)),
        args=args or Args(),
    )


def broken(*things: NodeBuilder | PodBuilder, args: Args | None = None) -> list[tuple[str, str]]:
    """Who breaks what kind of rule."""
    found = all_violations(engine_of(world(*things, args=args)))
    return [(violation.pod.partition("/")[2], violation.kind) for violation in found]


def follower(name: str = "follower") -> PodBuilder:
    return make_pod(name).affinity_to(app="leader", topology=ZONE, during_execution=True)


def loner(name: str = "loner") -> PodBuilder:
    return make_pod(name).anti_affinity_to(app="web", topology=HOSTNAME, during_execution=True)


def web(name: str = "web") -> PodBuilder:
    return make_pod(name).labels(app="web")


def member(name: str) -> PodBuilder:
    """A pod of a group that wants to stay together."""
    return make_pod(name).labels(app="group").affinity_to(app="group", topology=ZONE, during_execution=True)


LEADER = make_pod("leader").labels(app="leader")


# --- rules about the node -----------------------------------------------------------------


def test_a_node_that_lost_its_label_breaks_the_rule_and_is_named_with_label_and_path() -> None:
    """The label is looked up on the node as it is now."""
    pod = make_pod("user-b").on("n").node_affinity(userB="allow", during_execution=True)
    engine = engine_of(world(make_node("n").labels(userB="allow"), pod))
    assert all_violations(engine) == []

    engine.add_node(default_node(make_node("n").build()))

    (violation,) = node_violations(engine, "n")
    assert (violation.pod, violation.node, violation.kind) == ("default/user-b", "n", NODE)
    assert violation.path == f"spec.affinity.nodeAffinity.{EXECUTION}"
    assert violation.cause == "userB=allow, the node has no label userB"
    assert violation.topology is None
    assert all_violations(engine) == violations_of(engine, "default/user-b") == [violation]


def test_every_requirement_that_is_not_met_is_named() -> None:
    """Of alternatives, all are shown, with what the node has instead."""
    two = make_pod("two").on("n").node_affinity(disk="ssd", gpu="yes", during_execution=True)
    either = make_pod("either").on("n").node_affinity(disk="ssd", during_execution=True)
    either = either.node_affinity(where("gpu"), during_execution=True)
    engine = engine_of(world(make_node("n").labels(disk="hdd"), two, either))

    assert [violation.cause for violation in node_violations(engine, "n")] == [
        "disk=ssd or gpu, the node has disk=hdd, no label gpu",
        "disk=ssd, the node has disk=hdd; gpu=yes, the node has no label gpu",
    ]


def test_rules_for_scheduling_only_are_never_broken_while_a_pod_runs() -> None:
    """IgnoredDuringExecution is what it says."""
    pod = make_pod("pod").on("n").node_affinity(disk="ssd")
    pod = pod.affinity_to(app="leader", topology=ZONE).anti_affinity_to(app="web", topology=HOSTNAME)

    assert broken(node("n"), pod, web().on("n")) == []


def test_a_terminating_pod_is_not_judged() -> None:
    """A terminating pod breaks nothing, since it is going already."""
    pod = follower().node_affinity(disk="ssd", during_execution=True).on("n").terminating()

    assert broken(node("n"), pod, web().on("n")) == []
    assert node_violations(engine_of(world(node("n"), pod)), "n") == []


def test_pods_without_a_node_break_nothing() -> None:
    """Pods without a node, or that are not there, break nothing."""
    engine = engine_of(world(node("n"), follower().on("gone")))

    assert all_violations(engine) == []
    assert violations_of(engine, "default/follower") == violations_of(engine, "default/nobody") == []
    assert node_violations(engine, "gone") == []


# --- rules about other pods ---------------------------------------------------------------


def test_affinity_is_broken_where_no_peer_is_left() -> None:
    """A peer in another zone is of no use."""
    pods = follower().on("na"), LEADER.on("nb")
    engine = engine_of(world(node("na", "a"), node("nb", "b"), *pods))

    (violation,) = all_violations(engine)
    assert (violation.pod, violation.kind, violation.topology) == ("default/follower", AFFINITY, (ZONE, "a"))
    assert violation.path == f"spec.affinity.podAffinity.{EXECUTION}[0]"
    assert violation.cause == f"no pod matching app=leader in {ZONE}=a"


def test_a_peer_that_terminates_counts_until_it_is_gone() -> None:
    """A peer that terminates satisfies affinity until it is really gone."""
    assert broken(node("n"), follower().on("n"), LEADER.on("n").terminating()) == []


def test_affinity_is_broken_on_a_node_that_lost_the_topology_label() -> None:
    """Such a node is in no domain, whoever runs on it."""
    engine = engine_of(world(make_node("n"), follower().on("n"), LEADER.on("n")))

    (violation,) = all_violations(engine)
    assert (violation.cause, violation.topology) == (f"the node has no label {ZONE}", (ZONE, ""))


def test_one_pod_must_match_all_terms_that_last() -> None:
    """Those for scheduling only are not asked for."""
    pod = follower().affinity_to(tier="back", topology=HOSTNAME, during_execution=True)
    pod = pod.affinity_to(gone="long ago", topology=ZONE).on("n")
    halves = LEADER.on("n"), make_pod("back").labels(tier="back").on("n")

    assert broken(node("n"), pod, *halves) == [("follower", AFFINITY)] * 2
    assert broken(node("n"), pod, LEADER.labels(tier="back").on("n")) == []


def test_the_first_of_a_group_holds_until_there_is_another_elsewhere() -> None:
    """As at scheduling time: alone it may be anywhere, but then the group must stay together."""
    zones = node("na", "a"), node("nb", "b")

    assert broken(*zones, member("g0").on("na")) == []
    assert broken(*zones, member("g0").on("na"), member("g1").on("na")) == []
    assert broken(*zones, member("g0").on("na"), member("g1").on("nb")) == [
        ("g0", AFFINITY),
        ("g1", AFFINITY),
    ]


def test_anti_affinity_is_the_violation_of_its_owner_with_the_peers_named() -> None:
    """The pod that it selects breaks nothing."""
    pods = loner().on("n"), web().on("n"), web("web-2").on("n"), web("elsewhere").on("m")
    engine = engine_of(world(node("n"), node("m"), *pods))

    (violation,) = all_violations(engine)
    assert (violation.pod, violation.kind, violation.topology) == (
        "default/loner",
        ANTI_AFFINITY,
        (HOSTNAME, "n"),
    )
    assert violation.path == f"spec.affinity.podAntiAffinity.{EXECUTION}[0]"
    assert violation.peers == ("default/web", "default/web-2")
    assert violation.cause == f"pod default/web, default/web-2 in {HOSTNAME}=n matches app=web"


def test_a_pod_is_not_its_own_enemy() -> None:
    """Replicas that keep apart break the rule together or not at all."""
    one, two = loner("one").labels(app="web"), loner("two").labels(app="web")

    assert broken(node("n"), node("m"), one.on("n"), two.on("m")) == []
    assert broken(node("n"), one.on("n"), two.on("n")) == [("one", ANTI_AFFINITY), ("two", ANTI_AFFINITY)]


def test_daemons_are_never_in_the_way() -> None:
    """Pods of the namespaces set aside may run beside those that want to be alone."""
    daemon = make_pod("daemon").namespace("kube-system").labels(app="web").on("n")
    pod = (
        make_pod("pod")
        .on("n")
        .anti_affinity_to(topology=HOSTNAME, namespace_selector={}, during_execution=True)
    )

    assert broken(node("n"), pod, daemon) == [("pod", ANTI_AFFINITY)]
    assert broken(node("n"), pod, daemon, args=Args(daemon_namespaces=("kube-system",))) == []


def test_many_peers_are_cut_short() -> None:
    """A violation stays small however crowded the domain is; the pod itself is never among its peers."""
    crowd = [loner(f"p{i:02}").labels(app="web").on("n") for i in range(30)]
    found = all_violations(engine_of(world(node("n"), *crowd)))

    assert len(found) == 30
    assert found[0].peers == tuple(f"default/p{i:02}" for i in range(1, 11))
    assert found[20].peers == tuple(f"default/p{i:02}" for i in range(10))


def test_everyone_in_the_way_is_known_named_or_not() -> None:
    """All peers in the way are found, and nobody elsewhere, with other labels, or the pod itself."""
    crowd = [web(f"w{number:02}").on("n") for number in range(MOST_PEERS + 2)]
    others = [web("elsewhere").on("m"), make_pod("calm").labels(app="calm").on("n"), web("nowhere")]
    cluster = engine_of(world(node("n"), node("m"), loner().on("n"), *crowd, *others))
    (violation,) = all_violations(cluster)
    names = [*(f"default/w{number:02}" for number in range(MOST_PEERS + 2))]
    rest = ["default/elsewhere", "default/calm", "default/nowhere", "default/loner", "default/unknown"]
    assert [pod for pod in names + rest if is_in_the_way(cluster, violation, pod)] == names
    for name in names:
        cluster.remove_pod(name)
    assert not is_in_the_way(cluster, violation, names[0])


# --- against the reference ----------------------------------------------------------------


def check(cluster: Cluster) -> None:
    engine, world = engine_of(cluster), cluster.world()
    found = all_violations(engine)

    assert {(b.pod, b.node, b.kind, b.path) for b in found} == execution.violations(world)
    peers = {
        (key_of(pod), f"spec.affinity.podAntiAffinity.{EXECUTION}[{i}]"): tuple(sorted(names))
        for where, pod in world.running()
        for i, names in execution.conflicts(world, where, pod)
    }
    assert all(b.peers == peers[b.pod, b.path or ""] for b in found if b.kind == ANTI_AFFINITY)
    keys = [key_of(pod) for pod in cluster.pods]
    assert violations_among(engine, keys) == found
    assert [b for key in sorted(keys) for b in violations_of(engine, key)] == found
    on_nodes = [b for where in cluster.nodes for b in node_violations(engine, where.metadata.name or "")]
    assert sorted(map(str, on_nodes)) == sorted(str(b) for b in found if b.kind == NODE)


@thorough
@given(execution_rules.clusters())
def test_violations_are_those_of_the_slow_reference(cluster: Cluster) -> None:
    """The reference finds the same violations, asked for all at once, some, one by one or by node."""
    check(cluster)


@settings(thorough, max_examples=60)
@given(strategies.clusters())
def test_violations_are_those_of_the_slow_reference_in_any_cluster(cluster: Cluster) -> None:
    """Violations equal those of the slow reference in any cluster."""
    check(cluster)
