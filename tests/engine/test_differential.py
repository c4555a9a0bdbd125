"""The vector rules against the slow reference, and the incremental state against one built afresh."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from berth.engine.placement import plan as plans
from berth.engine.placement.evaluation import evaluate
from berth.engine.rules.inter_pod_affinity import score
from berth.engine.state import matching
from berth.engine.state.cluster import Cluster as EngineCluster
from berth.kube.defaults import created, default_node
from berth.kube.objects import Pod
from tests.reference import evaluate_pod
from tests.support.builders import HOSTNAME, ZONE, make_node, make_pod
from tests.support.changes import Change
from tests.support.cluster import Cluster
from tests.support.engine import chosen_by, engine_of, fast_totals, follow, plan_of, verdict_of
from tests.support.generated import strategies

History = tuple[Cluster, tuple[Change, ...]]

# Whole clusters shrink slowly; the assertion's diff says more than a smaller example would.
thorough = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def replayed(history: History, *probes: Pod) -> tuple[Cluster, EngineCluster]:
    """A cluster after its changes, and the engine that followed them; plans of probes were made before."""
    cluster, happened = history
    engine = engine_of(cluster)
    for probe in probes:
        plan_of(engine, probe).blocked()
    for change in happened:
        cluster = follow(engine, cluster, change)
    return cluster, engine


def assert_same_totals(engine: EngineCluster, pod: Pod) -> None:
    """The fast path and the complete one score the nodes alike."""
    plan = plan_of(engine, pod)
    verdict = evaluate(plan)
    if verdict.error is None:
        assert verdict.totals.tolist() == fast_totals(plan, verdict)


@thorough
@given(strategies.clusters(), strategies.pending_pods())
def test_verdicts_equal_the_reference(cluster: Cluster, pod: Pod) -> None:
    """Every filter, reason, raw score, normalized score and total is the reference's."""
    expected = evaluate_pod(cluster.world(), pod)

    assert expected.recorded() == verdict_of(engine_of(cluster), pod)


@thorough
@given(strategies.clusters(), strategies.pending_pods())
def test_the_fast_path_chooses_what_the_reference_would(cluster: Cluster, pod: Pod) -> None:
    """Placing takes the first of the best nodes, without evaluating every rule on every node."""
    expected = evaluate_pod(cluster.world(), pod).chosen

    assert expected == chosen_by(engine_of(cluster), pod)


@thorough
@given(strategies.histories(), st.lists(strategies.pending_pods(), min_size=1, max_size=3))
def test_changes_leave_the_state_a_rebuild_would(history: History, probes: list[Pod]) -> None:
    """After any sequence of changes, plans made before them answer like a cluster built from scratch."""
    cluster, happened = history
    engine = engine_of(cluster)
    for probe in probes:
        plan_of(engine, probe).blocked()
    for change in happened:
        cluster = follow(engine, cluster, change)
        rebuilt = engine_of(cluster)
        for probe in probes:
            assert verdict_of(rebuilt, probe) == verdict_of(engine, probe)
            assert_same_totals(engine, probe)


@thorough
@given(strategies.histories(), strategies.pending_pods())
def test_placing_after_changes_equals_the_reference(history: History, pod: Pod) -> None:
    """The choice does not depend on the way the cluster came about, ties included."""
    cluster, engine = replayed(history, pod)

    assert evaluate_pod(cluster.world(), pod).chosen == chosen_by(engine, pod)


@thorough
@given(strategies.histories(), st.lists(strategies.pending_pods(), min_size=1, max_size=3))
def test_labels_that_no_class_shows_change_no_answer(history: History, pods: list[Pod]) -> None:
    """Where every label is left out of the classes until a selector asks for it, the answers are the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "_MANY_VALUES", 0)
        cluster, engine = replayed(history)
        for pod in pods:
            assert evaluate_pod(cluster.world(), pod).chosen == chosen_by(engine, pod)


@thorough
@given(strategies.histories(), st.lists(strategies.pending_pods(), min_size=1, max_size=3))
def test_the_ways_of_large_clusters_change_no_answer(history: History, pods: list[Pod]) -> None:
    """Where domains and the few nodes that differ are scored apart, choice and totals are the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(score, "_MANY", 0)
        cluster, engine = replayed(history)
        for pod in pods:
            assert evaluate_pod(cluster.world(), pod).chosen == chosen_by(engine, pod)
            assert_same_totals(engine, pod)


@thorough
@given(strategies.histories(), st.lists(strategies.pending_pods(), min_size=1, max_size=3))
def test_asking_about_nodes_one_by_one_changes_no_answer(history: History, pods: list[Pod]) -> None:
    """Where few of many nodes changed, plans that were there before give the same choice and totals."""
    cluster, happened = history
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plans, "_FULL_REFRESH_SHARE", 1_000)
        engine = engine_of(cluster)
        for pod in pods:
            plan_of(engine, pod).blocked()
        for change in happened:
            cluster = follow(engine, cluster, change)
            for pod in pods:
                assert evaluate_pod(cluster.world(), pod).chosen == chosen_by(engine, pod)
                assert_same_totals(engine, pod)


def test_a_domain_all_of_whose_nodes_differ_is_not_scored_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The count of a domain without that of any of its nodes is neither the worst nor the best score."""
    cluster = EngineCluster(expected_nodes=3)
    for name, zone in (("a1", "a"), ("a2", "a"), ("b", "b")):
        cluster.add_node(default_node(make_node(name).labels({HOSTNAME: name, ZONE: zone}).build()))
    for app, node in (("db", "a1"), ("db", "a1"), ("db", "b"), ("web", "a1"), ("web", "a2"), ("web", "a2")):
        name = f"{app}-{len(cluster.pods.index)}"
        cluster.add_pod(created(make_pod(name).labels(app=app).on(node).build()))
    near = make_pod("p").prefers_affinity_to(app="db", topology=ZONE, weight=10)
    pod = near.prefers_anti_affinity_to(app="web", topology=HOSTNAME, weight=7).build()
    plan = plan_of(cluster, pod)
    expected = plan.totals(plan.blocked()).tolist()
    monkeypatch.setattr(score, "_MANY", 0)
    assert plan.totals(plan.blocked()).tolist() == expected
    assert len(set(expected)) == 3
