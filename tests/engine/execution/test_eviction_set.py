from collections.abc import Iterable

from hypothesis import HealthCheck, given, settings

from berth.engine.execution.eviction_set import PodToEvict, eviction_set
from berth.engine.execution.violations import all_violations
from berth.engine.rules.verdicts import AFFINITY, ANTI_AFFINITY, NODE
from berth.engine.state.cluster import Cluster as EngineCluster
from berth.kube.objects import Node, Pod
from tests.reference import execution
from tests.reference.eviction_set import best_parting, subsets
from tests.support.builders import HOSTNAME, ZONE, NodeBuilder, PodBuilder, make_node, make_pod
from tests.support.cluster import Cluster, key_of
from tests.support.engine import engine_of
from tests.support.generated import execution_rules

thorough = settings(
    max_examples=200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def node(name: str, zone: str = "a") -> NodeBuilder:
    return make_node(name).labels({HOSTNAME: name, ZONE: zone})


def built(*things: NodeBuilder | PodBuilder) -> EngineCluster:
    objects = [thing.build() for thing in things]
    nodes = tuple(thing for thing in objects if isinstance(thing, Node))
    return engine_of(Cluster(nodes=nodes, pods=tuple(thing for thing in objects if isinstance(thing, Pod))))


def decide(engine: EngineCluster, **facts: float) -> list[PodToEvict]:
    """Facts say when pods started; without any, names do."""
    if not facts:
        return eviction_set(engine, all_violations(engine))
    return eviction_set(engine, all_violations(engine), started=lambda key: facts[key.partition("/")[2]])


def gone(*things: NodeBuilder | PodBuilder, **facts: float) -> list[str]:
    return [evicted.pod.partition("/")[2] for evicted in decide(built(*things), **facts)]


def apart(name: str, *apps: str, app: str = "x") -> PodBuilder:
    """A pod that must not share a node with certain others."""
    pod = make_pod(name).labels(app=app).on("n")
    for other in apps:
        pod = pod.anti_affinity_to(app=other, topology=HOSTNAME, during_execution=True)
    return pod


def member(name: str, where: str) -> PodBuilder:
    pod = make_pod(name).labels(app="group").on(where)
    return pod.affinity_to(app="group", topology=ZONE, during_execution=True)


# --- node and affinity rules --------------------------------------------------------------


def test_a_pod_whose_node_or_affinity_rule_is_broken_goes_itself() -> None:
    """A pod whose node or affinity rule is broken goes, with its own violations as the reason."""
    pods = (
        make_pod("a").on("n").node_affinity(disk="ssd", during_execution=True),
        make_pod("b").on("n").affinity_to(app="x", topology=ZONE, during_execution=True),
        make_pod("c").on("n"),
    )
    found = decide(built(node("n"), *pods))

    assert [(d.pod, [b.kind for b in d.violations]) for d in found] == [
        ("default/b", [AFFINITY]),
        ("default/a", [NODE]),
    ]


def test_the_lowest_priority_goes_first_and_of_equals_the_youngest() -> None:
    """Pods are listed with the lowest priority first, and of equals the youngest."""
    pods = [
        make_pod(name).on("n").node_affinity(disk="ssd", during_execution=True).priority(priority)
        for name, priority in (("a", 5), ("b", 0), ("c", 0))
    ]
    assert gone(node("n"), *pods, a=1, b=3, c=2) == ["b", "c", "a"]
    assert gone(node("n"), *pods) == ["c", "b", "a"]


def test_a_follower_whose_last_leader_is_evicted_has_its_own_grace() -> None:
    """A follower whose last leader is evicted stays: its rule holds as yet."""
    leader = make_pod("leader").labels(app="leader").on("n").node_affinity(disk="ssd", during_execution=True)
    follower = make_pod("follower").on("n").affinity_to(app="leader", topology=ZONE, during_execution=True)

    assert gone(node("n"), leader, follower) == ["leader"]


def test_of_a_group_torn_apart_one_stays() -> None:
    """The oldest; once the others are gone it is the first of its group, and they can follow it."""
    zones = node("na", "a"), node("nb", "b"), node("nc", "c")
    engine = built(*zones, member("one", "na"), member("two", "nb"), member("three", "nc"))
    found = decide(engine, one=2, two=1, three=3)

    assert [evicted.pod for evicted in found] == ["default/three", "default/one"]
    assert [b.pod for b in found[0].violations] == ["default/three", "default/two"]
    with engine.without(*(evicted.pod for evicted in found)):
        assert all_violations(engine) == []


def test_a_stray_member_of_a_group_goes() -> None:
    """A member apart from the rest of its group goes, and the others stay together."""
    zones = node("na", "a"), node("nb", "b")

    assert gone(*zones, member("one", "na"), member("two", "nb"), member("three", "nb")) == ["one"]


# --- anti-affinity ------------------------------------------------------------------------


def test_with_equal_priorities_the_pod_with_the_rule_goes() -> None:
    """The pods with the rule go, however many they are, and not the pod that was only selected."""
    assert gone(node("n"), apart("one", "web"), apart("web", app="web")) == ["one"]
    assert gone(node("n"), apart("one", "web"), apart("two", "web"), apart("web", app="web")) == [
        "two",
        "one",
    ]


def test_otherwise_the_lowest_priorities_go() -> None:
    """Whoever has the rule; their going heals the violation of the pod that stays."""
    important = apart("one", "web").priority(10)
    found = decide(built(node("n"), important, apart("w1", app="web"), apart("w2", app="web").priority(5)))

    assert [(d.pod, [b.pod for b in d.violations]) for d in found] == [
        ("default/w1", ["default/one"]),
        ("default/w2", ["default/one"]),
    ]


def test_who_goes_for_the_sake_of_another_frees_the_rest() -> None:
    """The lowest of the three may stay, as the one in the middle has to go anyway."""
    pods = apart("middle", "low", "high").priority(5), apart("low", app="low"), apart("high", app="high")

    assert gone(node("n"), *pods[:2], pods[2].priority(10)) == ["middle"]


def test_of_two_that_exclude_each_other_the_younger_goes() -> None:
    """Of two that exclude each other the younger goes, or without ages the later name."""
    pods = apart("one", "x"), apart("two", "x")

    assert gone(node("n"), *pods, one=2, two=1) == ["one"]
    assert gone(node("n"), *pods) == ["two"]


def test_of_replicas_that_keep_apart_one_stays() -> None:
    """Of replicas that keep apart one stays in each domain."""
    here = [apart(f"p{i}", "x") for i in range(4)]
    there = [apart(f"q{i}", "x").on("m") for i in range(2)]

    assert gone(node("n"), node("m"), *here, *there) == ["q1", "p3", "p2", "p1"]


def test_in_a_chain_as_few_as_possible_go() -> None:
    """Every pod excludes the next one: each second one is enough."""
    chain = [apart(f"p{i}", f"a{i - 1}", f"a{i + 1}", app=f"a{i}") for i in range(5)]

    assert gone(node("n"), *chain) == ["p3", "p1"]


def test_nobody_leaves_for_those_who_are_going_anyway() -> None:
    """Be it that they terminate, or that a node rule sends them away."""
    leaving = apart("web", app="web").node_affinity(disk="ssd", during_execution=True)

    assert gone(node("n"), apart("one", "web"), apart("web", app="web").terminating()) == []
    assert gone(node("n"), apart("one", "web"), leaving) == ["web"]


def test_pods_that_cannot_be_evicted_stay() -> None:
    """The others give way, whatever their priority; between two such pods nothing can be done."""
    engine = built(node("n"), apart("static", "web"), apart("web", app="web").priority(5))
    violations = all_violations(engine)

    assert [d.pod for d in eviction_set(engine, violations, staying={"default/static"})] == ["default/web"]
    assert eviction_set(engine, violations, staying={"default/static", "default/web"}) == []


def test_a_violation_that_is_no_more_moves_nobody() -> None:
    """The pod left, or the one it was at odds with."""
    engine = built(node("n"), apart("one", "web"), apart("web", app="web"))
    violations = all_violations(engine)
    engine.remove_pod("default/web")
    assert eviction_set(engine, violations) == []

    engine.remove_pod("default/one")
    assert eviction_set(engine, violations) == []


def test_reasons_stay_few_in_a_crowd() -> None:
    """Thirty pods that all mind one of lower priority are not all listed with it."""
    crowd = [apart(f"p{i:02}", "web").priority(5) for i in range(30)]
    (found,) = decide(built(node("n"), *crowd, apart("web", app="web")))

    assert found.pod == "default/web"
    assert len(found.violations) == 10


# --- against trying everything ------------------------------------------------------------


def _edges(cluster: Cluster) -> set[tuple[str, str]]:
    """Pods that must not be together, those that terminate left out."""
    world = cluster.world()
    there = {key_of(pod) for _, pod in world.running() if pod.metadata.deletion_timestamp is None}
    return {
        (key_of(pod), peer)
        for where, pod in world.running()
        if key_of(pod) in there
        for _, peers in execution.conflicts(world, where, pod)
        for peer in peers & there
    }


def _of_kind(cluster: Cluster, *kinds: str) -> set[str]:
    return {pod for pod, _, kind, _ in execution.violations(cluster.world()) if kind in kinds}


def _without(cluster: Cluster, keys: Iterable[str]) -> Cluster:
    pods = tuple(pod for pod in cluster.pods if key_of(pod) not in set(keys))
    return Cluster(nodes=cluster.nodes, pods=pods, namespaces=cluster.namespaces, args=cluster.args)


def _living(cluster: Cluster) -> Cluster:
    pods = tuple(pod for pod in cluster.pods if pod.metadata.deletion_timestamp is None)
    return Cluster(nodes=cluster.nodes, pods=pods, namespaces=cluster.namespaces, args=cluster.args)


@thorough
@given(execution_rules.clusters())
def test_evictions_heal_everything_that_was_broken(cluster: Cluster) -> None:
    """What is broken afterwards held before: followers whose leaders left."""
    engine = engine_of(cluster)
    before = {(b.pod, b.path) for b in all_violations(engine)}
    going = {evicted.pod for evicted in decide(engine)}
    left = execution.violations(_living(_without(cluster, going)).world())

    assert {kind for _, _, kind, _ in left} <= {AFFINITY}
    assert not before & {(pod, path) for pod, _, _, path in left}


@thorough
@given(execution_rules.clusters())
def test_anti_affinity_moves_the_least_pods(cluster: Cluster) -> None:
    """Of those who are not going anyway, exactly whom trying every set would choose."""
    priority = {key_of(pod): pod.spec.priority or 0 for pod in cluster.pods}
    edges = _edges(cluster)
    certain = _of_kind(cluster, NODE, AFFINITY)
    owners = _of_kind(cluster, ANTI_AFFINITY)
    going = [evicted.pod for evicted in decide(engine_of(cluster))]
    rest = {pair for pair in edges if not certain & {*pair}}

    def rank(pod: str) -> tuple[int, bool]:
        return priority[pod], pod not in owners

    pods = sorted({pod for pair in rest for pod in pair}, reverse=True)
    best = best_parting(sorted(pods, key=rank), rest, rank)
    assert set(going) - certain == best


@thorough
@given(execution_rules.clusters(most_pods=7))
def test_as_many_of_a_torn_group_stay_as_can(cluster: Cluster) -> None:
    """No larger set of pods without peers could stay once the others are gone."""
    torn = sorted(_of_kind(cluster, AFFINITY) - _of_kind(cluster, NODE))
    going = {evicted.pod for evicted in decide(engine_of(cluster))}
    others = going - set(torn)

    def stays_well(staying: frozenset[str]) -> bool:
        left = execution.violations(_living(_without(cluster, others | set(torn) - staying)).world())
        broken = {pod for pod, _, kind, _ in left if kind == AFFINITY and pod in torn}
        return not broken and all(kind == AFFINITY for _, _, kind, _ in left)

    largest = max(len(staying) for staying in subsets(torn) if stays_well(staying))
    assert len(set(torn) - going) == largest
