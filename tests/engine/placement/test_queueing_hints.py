"""Which changes are said to help a pod that fits nowhere: all that do, and few that do not."""

from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from berth.engine.placement.evaluation import evaluate
from berth.engine.placement.fit_error import fit_error
from berth.engine.placement.plan import plan_for
from berth.engine.placement.queueing_hints import can_help
from berth.engine.state.cluster import Cluster as EngineCluster
from berth.engine.state.cluster_events import (
    ClusterEvent,
    NamespaceUpdated,
    NodeAdded,
    NodeDeleted,
    OwnersChanged,
    PodAdded,
    PodDeleted,
    VolumesChanged,
    node_change,
)
from berth.engine.state.pod_class import PodClass
from berth.kube.defaults import created, default_node
from berth.kube.objects import Node, Pod
from berth.kube.pods import is_terminating
from tests.support import strategies
from tests.support.builders import HOSTNAME, ZONE, NodeBuilder, PodBuilder, make_node, make_pod
from tests.support.cluster import Cluster
from tests.support.cluster_events import ClusterChange, follow, histories, pods
from tests.support.engine import engine_of

History = tuple[Cluster, tuple[ClusterChange, ...]]


class Waiting:
    """A pod that is tried again only when a change is said to help it."""

    def __init__(self, engine: EngineCluster, pod: Pod) -> None:
        self.engine, self.pod = engine, created(pod)
        self.fits = self.try_again()

    def try_again(self) -> bool:
        self.pod_class: PodClass = self.engine.class_of(self.pod, pinned=True)
        plan = plan_for(self.engine, self.pod_class)
        _, self.rules = fit_error(plan)
        self.fits = not plan.blocked().all()
        return self.fits

    def is_helped_by(self, *changes: ClusterEvent) -> bool:
        return any(can_help(self.engine, self.pod_class, self.rules, change) for change in changes)


# --- all that do --------------------------------------------------------------------------


@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(histories(), st.lists(pods("pending"), min_size=2, max_size=3), st.integers(1, 3), st.booleans())
def test_whatever_lets_a_pod_fit_is_said_to_help(
    history: History, waiting_pods: list[Pod], together: int, plans_are_dropped: bool
) -> None:
    """A pod that is tried again only after changes said to help never waits although it fits.

    Several changes may be made before the first of them is asked about, and a pod that was not tried
    for many changes only remembers which rules refused it at first.
    """
    cluster, happened = history
    engine = engine_of(cluster)
    waiting = [Waiting(engine, pod) for pod in waiting_pods]
    for i in range(0, len(happened), together):
        records: list[ClusterEvent] = []
        for change in happened[i : i + together]:
            cluster, more = follow(engine, cluster, change)
            records += more
        if plans_are_dropped:
            engine.plans.drop_all()
        for pod in waiting:
            if pod.fits or pod.is_helped_by(*records):
                pod.try_again()
        for pod in waiting:
            assert pod.fits or not Waiting(engine, pod.pod).fits


@settings(max_examples=50, deadline=None, derandomize=True, phases=(Phase.generate,))
@given(strategies.clusters(most_nodes=4, most_pods=6), strategies.pending_pods())
def test_a_quick_look_at_a_node_agrees_with_the_rules(cluster: Cluster, pod: Pod) -> None:
    """What is said of one node in plain Python is what the vectors say, as far as it goes."""
    plan = plan_for(engine := engine_of(cluster), engine.class_of(created(pod), pinned=True))
    verdict = evaluate(plan)
    refused = {slot: {rejection.rule for rejection in found} for slot, found in verdict.verdicts.items()}
    for slot in verdict.nodes.tolist():
        by = refused.get(slot, set())
        for rule in plan.node_rules:
            if rule.filters and rule.static:
                assert rule.admits(slot) == (rule.name not in by)
            elif rule.filters:
                assert rule.feasible_at(slot) == (rule.name not in by)
                assert rule.admits(slot) or rule.name in by
        assert {rule.name for rule in plan.topology_rules if rule.filters and rule.bars(slot)} <= by


# --- few that do not ----------------------------------------------------------------------


@dataclass
class Watched:
    """A cluster whose changes are made and recorded one at a time."""

    engine: EngineCluster
    known: dict[str, Node]

    def came(self, node: NodeBuilder) -> ClusterEvent:
        built = default_node(node.build())
        self.known[built.metadata.name or ""] = built
        return NodeAdded(self.engine.add_node(built))

    def changed(self, node: NodeBuilder) -> ClusterEvent | None:
        built = default_node(node.build())
        name = built.metadata.name or ""
        old, self.known[name] = self.known[name], built
        return node_change(self.engine.add_node(built), old, built)

    def left(self, name: str) -> ClusterEvent:
        slot = self.engine.nodes.slot_of[name]
        self.engine.remove_node(name)
        return NodeDeleted(slot, self.known.pop(name))

    def pod_came(self, pod: PodBuilder) -> ClusterEvent:
        built = created(pod.build())
        self.engine.add_pod(built)
        return PodAdded(self.engine.class_of(built), self.engine.nodes.slot_of[built.spec.node_name or ""])

    def pod_left(self, pod: PodBuilder) -> ClusterEvent:
        built = created(pod.build())
        slot = self.engine.nodes.slot_of[built.spec.node_name or ""]
        self.engine.remove_pod(f"default/{built.metadata.name}")
        return PodDeleted(self.engine.class_of(built), slot, terminating=is_terminating(built))


def watched(*things: NodeBuilder | PodBuilder) -> Watched:
    found = Watched(EngineCluster(), {})
    for thing in things:
        if isinstance(thing, NodeBuilder):
            found.came(thing)
        else:
            found.pod_came(thing)
    return found


def stuck(cluster: Watched, pod: PodBuilder, *refused: str) -> Waiting:
    """The pod, which these rules and no others keep from every node."""
    waiting = Waiting(cluster.engine, pod.build())
    assert not waiting.fits
    assert waiting.rules == set(refused)
    return waiting


def small(name: str, zone: str = "a") -> NodeBuilder:
    return make_node(name).labels({HOSTNAME: name, ZONE: zone}).capacity(cpu="2")


def web(name: str) -> PodBuilder:
    return make_pod(name).labels(app="web")


BIG = web("big").requests(cpu="2")
ELSEWHERE = [
    pytest.param(NamespaceUpdated(), id="namespace"),
    pytest.param(OwnersChanged(), id="owners"),
    pytest.param(VolumesChanged(), id="volumes"),
]


def test_a_heartbeat_is_no_change() -> None:
    """A node that reports the same again, apart from its conditions, has not changed."""
    cluster = watched(small("a"))

    assert cluster.changed(small("a")) is None


def test_images_help_nobody() -> None:
    """They are a change, since they count for scores, but no pod waits for one."""
    cluster = watched(small("a"), web("p").requests(cpu="1").on("a"))
    waiting = stuck(cluster, BIG, "NodeResourcesFit")
    change = cluster.changed(small("a").image("web:1", 1000))

    assert change is not None
    assert not waiting.is_helped_by(change)


@pytest.mark.parametrize("change", ELSEWHERE)
def test_a_pod_that_lacks_room_waits_for_nodes_and_pods_only(change: ClusterEvent) -> None:
    """Changes that give no room do not help a pod that lacks room."""
    waiting = stuck(watched(small("a"), web("p").requests(cpu="1").on("a")), BIG, "NodeResourcesFit")

    assert not waiting.is_helped_by(change)


def test_room_helps_where_it_is_enough() -> None:
    """A pod that leaves helps only if the other one fits into its place."""
    little, more = web("little").requests(cpu="500m").on("a"), web("more").requests(cpu="1").on("a")
    cluster = watched(small("a"), little, more)
    waiting = stuck(cluster, BIG, "NodeResourcesFit")

    assert not waiting.is_helped_by(cluster.pod_left(little))
    assert not waiting.is_helped_by(cluster.pod_came(little))
    assert waiting.is_helped_by(cluster.pod_left(little), cluster.pod_left(more))


def test_room_on_a_node_that_is_out_of_the_question_helps_nobody() -> None:
    """Where a taint keeps the pod away, it does not matter how much is free."""
    there = web("p").requests(cpu="1").on("a")
    cluster = watched(small("a").taint("dedicated"), there, small("b"), web("q").requests(cpu="1").on("b"))
    waiting = stuck(cluster, BIG, "NodeResourcesFit", "TaintToleration")

    assert not waiting.is_helped_by(cluster.pod_left(there))


@pytest.mark.parametrize(
    ("node", "helps"),
    [
        pytest.param(small("new"), True, id="fits"),
        pytest.param(small("new").capacity(cpu="1"), False, id="too small"),
        pytest.param(small("new").taint("dedicated"), False, id="tainted"),
        pytest.param(small("new").taint("dedicated", effect="PreferNoSchedule"), True, id="softly tainted"),
        pytest.param(small("new").unschedulable(), False, id="cordoned"),
        pytest.param(small("new").labels(disk="hdd"), False, id="other label"),
    ],
)
def test_a_new_node_helps_if_it_could_take_the_pod(node: NodeBuilder, helps: bool) -> None:
    """Whatever refused the pod before: the new node is looked at by every rule about nodes."""
    cluster = watched(small("a").labels(disk="ssd"), web("p").requests(cpu="1").on("a"))
    waiting = stuck(cluster, BIG.node_affinity(disk="ssd"), "NodeResourcesFit")
    node = node if "disk" in (node.build().metadata.labels or {}) else node.labels(disk="ssd")

    assert waiting.is_helped_by(cluster.came(node)) == helps


def test_a_node_that_was_out_of_the_question_helps_once_it_is_not() -> None:
    """The rules that refused the pod at the last attempt knew nothing of the node."""
    cluster = watched(small("a"), web("p").requests(cpu="1").on("a"))
    waiting = stuck(cluster, BIG, "NodeResourcesFit")
    assert not waiting.is_helped_by(cluster.came(small("b").taint("dedicated").unschedulable()))
    uncordoned = cluster.changed(small("b").taint("dedicated"))
    untainted = cluster.changed(small("b"))
    assert uncordoned is not None
    assert untainted is not None

    assert waiting.is_helped_by(untainted)


@pytest.mark.parametrize(
    ("before", "after", "helps"),
    [
        pytest.param(small("a").taint("x"), small("a"), True, id="taint goes"),
        pytest.param(small("a").taint("x"), small("a").taint("y"), False, id="another taint"),
        pytest.param(small("a").taint("x"), small("a").taint("x").labels(disk="ssd"), False, id="label"),
        pytest.param(small("a").unschedulable(), small("a"), True, id="uncordoned"),
        pytest.param(small("a").capacity(cpu="1"), small("a"), True, id="grown"),
        pytest.param(small("a").capacity(cpu="1"), small("a").capacity(cpu="1500m"), False, id="too little"),
        pytest.param(
            small("a").capacity(cpu="1"),
            small("a").capacity(cpu="1", memory="900Gi"),
            False,
            id="memory only",
        ),
    ],
)
def test_a_changed_node_helps_if_it_could_not_take_the_pod_before(
    before: NodeBuilder, after: NodeBuilder, helps: bool
) -> None:
    """A changed node helps exactly when what kept the pod away is gone."""
    cluster = watched(before)
    waiting = Waiting(cluster.engine, BIG.build())
    assert not waiting.fits
    change = cluster.changed(after)
    assert change is not None

    assert waiting.is_helped_by(change) == helps


def test_a_label_helps_if_the_pod_asks_for_it() -> None:
    """A new node label helps only a pod that asks for it."""
    cluster = watched(small("a"))
    waiting = stuck(cluster, web("p").node_affinity(disk="ssd"), "NodeAffinity")
    other, asked_for = cluster.changed(small("a").labels(size="xl")), small("a").labels(disk="ssd")
    assert other is not None

    assert not waiting.is_helped_by(other)
    assert (change := cluster.changed(asked_for)) is not None
    assert waiting.is_helped_by(change)


def test_a_pod_that_names_its_node_waits_for_that_node() -> None:
    """A pod with a node name is helped only by that node."""
    cluster = watched(small("a"))
    waiting = stuck(cluster, web("p").on("b"), "NodeName")

    assert not waiting.is_helped_by(cluster.came(small("c")))
    assert waiting.is_helped_by(cluster.came(small("b")))


def test_a_port_helps_if_it_was_the_one_in_use() -> None:
    """A pod that leaves helps a waiting pod only if it used the same host port."""
    other, same = web("other").host_port(81).on("a"), web("same").host_port(80).on("a")
    cluster = watched(small("a"), other, same)
    waiting = stuck(cluster, web("p").host_port(80), "NodePorts")

    assert not waiting.is_helped_by(cluster.pod_left(other))
    assert waiting.is_helped_by(cluster.pod_left(same))


# --- other pods ---------------------------------------------------------------------------


def test_anti_affinity_waits_for_the_last_pod_in_the_way() -> None:
    """Neither a pod that is not meant helps, nor one that leaves another of its kind behind."""
    stranger, first, second = (make_pod("x").labels(app="db").on("a"), web("p").on("a"), web("q").on("b"))
    cluster = watched(small("a"), small("b"), stranger, first, second)
    waiting = stuck(cluster, make_pod("w").anti_affinity_to(app="web", topology=ZONE), "InterPodAffinity")

    assert not waiting.is_helped_by(cluster.pod_left(stranger))
    assert not waiting.is_helped_by(cluster.pod_came(stranger))
    assert not waiting.is_helped_by(cluster.pod_left(first))
    assert waiting.is_helped_by(cluster.pod_left(second))


def test_the_anti_affinity_of_running_pods_goes_with_them() -> None:
    """A pod that leaves takes its anti-affinity with it, which helps."""
    keeper = make_pod("keeper").anti_affinity_to(app="web", topology=HOSTNAME).on("a")
    cluster = watched(small("a"), keeper)
    waiting = stuck(cluster, web("w"), "InterPodAffinity")

    assert waiting.is_helped_by(cluster.pod_left(keeper))


def test_affinity_waits_for_a_pod_that_it_means() -> None:
    """A pod with affinity is helped by a matching pod or a namespace change, by no other."""
    cluster = watched(small("a"))
    waiting = stuck(cluster, make_pod("w").affinity_to(app="web", topology=ZONE), "InterPodAffinity")

    assert not waiting.is_helped_by(cluster.pod_came(make_pod("x").labels(app="db").on("a")))
    assert waiting.is_helped_by(cluster.pod_came(web("p").on("a")))
    assert waiting.is_helped_by(NamespaceUpdated())
    assert not waiting.is_helped_by(OwnersChanged())


def test_the_first_of_a_group_waits_for_the_last_of_the_old_one() -> None:
    """Where no peer is left, a pod that is its own peer may start anew."""
    first, last = web("p").on("a"), web("q").on("a")
    cluster = watched(small("a").unschedulable(), small("b", "b"), first, last)
    waiting = stuck(
        cluster, web("w").affinity_to(app="web", topology=ZONE), "InterPodAffinity", "NodeUnschedulable"
    )

    assert not waiting.is_helped_by(cluster.pod_left(first))
    assert waiting.is_helped_by(cluster.pod_left(last))


def test_a_relabelled_node_may_be_in_a_better_domain() -> None:
    """A node helps anti-affinity by a change of its topology label only."""
    cluster = watched(small("a"), small("b"), web("p").on("a"))
    waiting = stuck(cluster, make_pod("w").anti_affinity_to(app="web", topology=ZONE), "InterPodAffinity")
    irrelevant, moved = cluster.changed(small("b").labels(disk="ssd")), small("b", "z")
    assert irrelevant is not None

    assert not waiting.is_helped_by(irrelevant)
    assert (change := cluster.changed(moved)) is not None
    assert waiting.is_helped_by(change)


@pytest.mark.parametrize(("topology", "helps"), [(HOSTNAME, False), (ZONE, True)])
def test_a_node_that_leaves_takes_its_pods_along(topology: str, helps: bool) -> None:
    """That helps the nodes of its zone; its own domain is gone with it."""
    cluster = watched(small("a"), small("b"), web("p").on("a"))
    keeper = make_pod("keeper").anti_affinity_to(app="w", topology=HOSTNAME).on("b")
    cluster.pod_came(keeper)
    waiting = stuck(
        cluster,
        make_pod("w").labels(app="w").anti_affinity_to(app="web", topology=topology),
        "InterPodAffinity",
    )

    assert waiting.is_helped_by(cluster.left("a")) == helps


def test_a_node_may_return_with_the_pods_that_are_wanted() -> None:
    """It is cordoned and takes no pod itself, but its zone has another node."""
    cluster = watched(small("a").unschedulable(), small("b"), web("p").on("a"))
    cluster.left("a")
    waiting = stuck(cluster, make_pod("w").affinity_to(app="web", topology=ZONE), "InterPodAffinity")

    assert not waiting.is_helped_by(cluster.came(small("c").unschedulable()))
    assert waiting.is_helped_by(cluster.came(small("a").unschedulable()))


# --- spread -------------------------------------------------------------------------------


def uneven() -> tuple[Watched, Waiting]:
    """Zone a has one pod more than zone b, whose node is full of something else."""
    cluster = watched(small("a"), small("b", "b"), web("p").on("a"))
    cluster.pod_came(make_pod("x").requests(cpu="2").on("b"))
    pod = web("w").requests(cpu="1").spread(ZONE, app="web")
    return cluster, stuck(cluster, pod, "PodTopologySpread", "NodeResourcesFit")


def test_spread_waits_for_a_pod_too_many_to_leave() -> None:
    """A matching pod that leaves a full domain helps a spread pod."""
    cluster, waiting = uneven()

    assert waiting.is_helped_by(cluster.pod_left(web("p").on("a")))


def test_room_where_the_pod_may_not_be_for_other_pods_helps_nobody() -> None:
    """There was room already, but one pod too many; that one is waited for."""
    cluster, waiting = uneven()
    stranger = make_pod("y").labels(app="db").on("a")
    cluster.pod_came(stranger)

    assert not waiting.is_helped_by(cluster.pod_left(stranger))


def test_spread_does_not_wait_for_strangers() -> None:
    """Pods that the constraint does not match do not help a spread pod."""
    cluster, waiting = uneven()
    stranger = make_pod("y").labels(app="db").on("b")

    assert not waiting.is_helped_by(cluster.pod_came(stranger))
    assert not waiting.is_helped_by(cluster.pod_left(stranger))


def test_spread_waits_for_a_pod_where_there_are_fewest() -> None:
    """A matching pod helps a spread pod where it raises the minimum only."""
    cluster, waiting = uneven()

    assert not waiting.is_helped_by(cluster.pod_came(web("q").on("a")))
    assert waiting.is_helped_by(cluster.pod_came(web("r").on("b")))


def test_spread_has_done_with_a_pod_when_it_terminates() -> None:
    """That it starts to terminate helps; that it is gone in the end does not help once more."""
    cluster, waiting = uneven()
    leaving = web("p").on("a")

    assert waiting.is_helped_by(cluster.pod_left(leaving), cluster.pod_came(leaving.terminating()))
    cluster.pod_came(web("q").on("a"))
    assert not waiting.is_helped_by(cluster.pod_left(leaving.terminating()))


def test_a_zone_without_nodes_is_not_the_emptiest() -> None:
    """When the last node of a zone leaves, it no longer counts for the minimum."""
    cluster = watched(small("a"), small("b", "b"), small("c", "c").unschedulable())
    for name, node in (("p", "a"), ("q", "a"), ("r", "b"), ("s", "b")):
        cluster.pod_came(web(name).on(node))
    waiting = stuck(cluster, web("w").spread(ZONE, app="web"), "PodTopologySpread", "NodeUnschedulable")

    assert waiting.is_helped_by(cluster.left("c"))


def test_a_node_that_moves_may_leave_no_emptier_zone_behind() -> None:
    """A node that leaves the emptiest zone helps a spread pod."""
    cluster = watched(small("a"), small("b", "b").unschedulable(), web("p").on("a"))
    waiting = stuck(cluster, web("w").spread(ZONE, app="web"), "PodTopologySpread", "NodeUnschedulable")
    irrelevant = cluster.changed(small("b", "b").unschedulable().labels(disk="ssd"))
    moved = small("b", "a").unschedulable()
    assert irrelevant is not None

    assert not waiting.is_helped_by(irrelevant)
    assert (change := cluster.changed(moved)) is not None
    assert waiting.is_helped_by(change)


def test_a_missing_domain_may_return() -> None:
    """Until there are as many zones as are asked for, the emptiest one counts as empty."""
    cluster = watched(small("a"), small("b", "b").unschedulable(), web("p").on("a"), web("q").on("b"))
    cluster.left("b")
    waiting = stuck(cluster, web("w").spread(ZONE, app="web", min_domains=2), "PodTopologySpread")

    assert waiting.is_helped_by(cluster.came(small("b", "b").unschedulable()))


# --- without a plan -----------------------------------------------------------------------


def test_rules_about_nodes_answer_without_a_plan() -> None:
    """Counts are not made anew only to answer; room is seen without them."""
    little = web("little").requests(cpu="500m").on("a")
    cluster = watched(small("a"), little, web("more").requests(cpu="1").on("a"))
    waiting = stuck(cluster, BIG, "NodeResourcesFit")
    cluster.engine.plans.drop_all()

    assert not waiting.is_helped_by(cluster.pod_left(little))
    assert not waiting.is_helped_by(cluster.came(small("b").taint("dedicated")))
    assert waiting.is_helped_by(cluster.came(small("c")))
    assert waiting.pod_class.plan is None


def test_rules_about_pods_say_yes_without_a_plan() -> None:
    """Without a plan any pod event may help, and no plan is made to find out."""
    cluster = watched(small("a"), web("p").on("a"))
    waiting = stuck(cluster, web("w").anti_affinity_to(app="web", topology=ZONE), "InterPodAffinity")
    cluster.engine.plans.drop_all()

    assert waiting.is_helped_by(cluster.pod_came(make_pod("x").on("a")))
    assert not waiting.is_helped_by(OwnersChanged())
    assert waiting.pod_class.plan is None


def test_a_pod_of_an_unknown_node_matters_to_nobody() -> None:
    """A pod that leaves an unknown node helps nobody."""
    cluster = watched(small("a"), web("p").on("a"))
    waiting = stuck(cluster, web("w").anti_affinity_to(app="web", topology=ZONE), "InterPodAffinity")

    assert not waiting.is_helped_by(PodDeleted(cluster.engine.class_of(created(web("p").build())), -1))
