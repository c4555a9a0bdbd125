"""Which changes are said to help a pod that fits nowhere: all that do, and few that do not."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from berth.engine.placement.evaluation import evaluate
from berth.engine.placement.plan import plan_for
from berth.engine.state.cluster_events import ClusterEvent, OwnersChanged, PodDeleted
from berth.kube.defaults import created
from berth.kube.objects import Pod
from tests.engine.waiting_pods import BIG, Waiting, small, stuck, watched, web
from tests.support.builders import ZONE, NodeBuilder, make_pod
from tests.support.cluster import Cluster
from tests.support.cluster_events import ClusterChange, follow, histories, pods
from tests.support.engine import engine_of
from tests.support.generated import strategies

History = tuple[Cluster, tuple[ClusterChange, ...]]


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


def test_a_heartbeat_is_no_change() -> None:
    """A node that reports the same again, apart from its conditions, has not changed."""
    cluster = watched(small("a"))

    assert cluster.changed(small("a")) is None


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
