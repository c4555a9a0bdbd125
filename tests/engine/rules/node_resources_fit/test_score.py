"""Scoring strategies, resources of one's own choice and ignored ones, as a profile may set them."""

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from berth.engine.rules import NODE_RULES, TOPOLOGY_RULES
from berth.engine.rules.node_resources_balanced_allocation.rule import balance_of
from berth.engine.rules.node_resources_fit.score import shape_table
from berth.engine.state.cluster import Cluster as EngineCluster
from berth.engine.state.options import Options
from berth.kube.defaults import created, default_node
from berth.kube.objects import Node, Pod, RawQuantity, ResourceRequirements
from berth.kube.scheduler_configuration.model import PluginArguments
from tests.reference import Args, evaluate_pod
from tests.support.builders import make_node, make_pod
from tests.support.cluster import Cluster
from tests.support.engine import chosen_by, engine_of, plan_of, verdict_of
from tests.support.generated import strategies

GPU = "example.com/gpu"
RESOURCES = ("cpu", "memory", GPU, "ephemeral-storage", "pods", "example.com/none")
RULES = tuple(rule.name for rule in (*NODE_RULES, *TOPOLOGY_RULES))


def profile(**arguments: Any) -> Options:
    return Options(args=PluginArguments(**arguments))


thorough = settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@st.composite
def shapes(draw: st.DrawFn) -> tuple[tuple[int, int], ...]:
    utilization = draw(st.lists(st.integers(0, 100), min_size=1, max_size=4, unique=True))
    return tuple((percent, draw(st.integers(0, 10))) for percent in sorted(utilization))


@st.composite
def profiled(draw: st.DrawFn) -> Cluster:
    """A cluster whose scheduler has every knob about resources turned, and some rules do not filter."""
    cluster = draw(strategies.clusters(most_nodes=6, most_pods=8))
    names = st.lists(st.sampled_from(RESOURCES), min_size=1, max_size=4, unique=True)
    kind = draw(st.sampled_from(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")))
    args: Args = replace(
        cluster.args,
        fit_strategy=kind,
        fit_shape=draw(shapes()) if kind == "RequestedToCapacityRatio" else (),
        fit_resources=tuple((name, draw(st.integers(1, 7))) for name in draw(names)),
        ignored_resources=draw(st.sampled_from(((), (GPU,), ("cpu", "example.com/none")))),
        ignored_resource_groups=draw(st.sampled_from(((), (), ("example.com",)))),
        balanced_resources=tuple(draw(names)),
        not_filtering=tuple(draw(st.lists(st.sampled_from(RULES), max_size=3, unique=True))),
    )
    return replace(cluster, args=args)


@thorough
@given(profiled(), strategies.pending_pods())
def test_verdicts_equal_the_reference(cluster: Cluster, pod: Pod) -> None:
    """Whatever a profile sets, filters, reasons, scores and the choice are the reference's."""
    expected = evaluate_pod(cluster.world(), pod)
    engine = engine_of(cluster)

    assert expected.recorded() == verdict_of(engine, pod)
    assert expected.chosen == chosen_by(engine, pod)


@thorough
@given(profiled(), strategies.pending_pods())
def test_one_node_is_judged_like_all(cluster: Cluster, pod: Pod) -> None:
    """The shortcut for a single changed node gives what the vectors give, for any strategy."""
    engine = engine_of(cluster)
    slots = np.arange(engine.nodes.count)
    for rule in plan_of(engine, pod).node_rules:
        if rule.filters:
            assert rule.feasible(slots).tolist() == [rule.feasible_at(slot) for slot in slots.tolist()]
        if rule.scores:
            assert rule.raw(slots).tolist() == [rule.raw_at(slot) for slot in slots.tolist()]


# --- by hand --------------------------------------------------------------------------


def scores(rule: str, options: Options, nodes: list[Node], pods: list[Pod], pod: Pod) -> dict[str, int]:
    """Node -> raw score by one rule."""
    engine = EngineCluster(options)
    for node in nodes:
        engine.add_node(default_node(node))
    for running in pods:
        engine.add_pod(created(running))
    found: dict[str, Any] = verdict_of(engine, pod)["scores"].get(rule, {})
    return {name: score["raw"] for name, score in found.items()}


def fit(options: Options, nodes: list[Node], pod: Pod, pods: list[Pod] | None = None) -> dict[str, int]:
    return scores("NodeResourcesFit", options, nodes, pods or [], pod)


def test_most_allocated_fills_nodes() -> None:
    """The fuller node scores higher: (30/40 + 40/80) / 2 and (30/60 + 40/80) / 2 of cpu and memory."""
    small = make_node("small").capacity(cpu="4", memory="8G", pods=9).build()
    large = make_node("large").capacity(cpu="6", memory="8G", pods=9).build()
    pod = make_pod("p").requests(cpu="3", memory="4G").build()

    expected = {"small": (75 + 50) // 2, "large": 50}
    assert expected == fit(profile(scoring_strategy="MostAllocated"), [small, large], pod)


def test_weights_of_resources() -> None:
    """A resource counts as often as its weight says: (75 + 3 * 50) / 4 of what is free."""
    node = make_node("n").capacity(cpu="4", memory="8G", pods=9).build()
    pod = make_pod("p").requests(cpu="1", memory="4G").build()

    assert fit(profile(scoring_resources=(("cpu", 1), ("memory", 3))), [node], pod) == {"n": (75 + 150) // 4}


def test_extended_resources_count_for_pods_that_want_them() -> None:
    """Packing by accelerator looks at pods with a request for it, and at nodes that have it."""
    options = profile(scoring_strategy="MostAllocated", scoring_resources=((GPU, 5), ("cpu", 1)))
    nodes = [
        make_node("with").capacity({GPU: 4}, cpu="4", memory="8G", pods=9).build(),
        make_node("without").capacity(cpu="4", memory="8G", pods=9).build(),
    ]
    trains = make_pod("p").requests({GPU: 1}, cpu="2").build()
    serves = make_pod("q").requests(cpu="2").build()
    before = [make_pod("r").requests({GPU: 2}, cpu="1").on("with").build()]

    assert fit(options, nodes, trains, before) == {"with": (5 * 75 + 75) // 6}
    assert fit(options, nodes, serves, before) == {"with": 75, "without": 50}


def test_huge_pages_of_the_pod_as_a_whole_do_not_score() -> None:
    """As with cpu and memory, upstream scores what the containers ask for."""
    options = profile(scoring_strategy="MostAllocated", scoring_resources=(("hugepages-2Mi", 1),))
    node = make_node("n").capacity({"hugepages-2Mi": "100Mi"}, cpu="4", memory="8G", pods=9).build()
    of_containers = make_pod("p").requests({"hugepages-2Mi": "20Mi"}, cpu="1").build()
    whole = ResourceRequirements(requests={"hugepages-2Mi": "40Mi", "cpu": "1"})
    of_both = msgspec.structs.replace(
        of_containers, spec=msgspec.structs.replace(of_containers.spec, resources=whole)
    )

    assert fit(options, [node], of_containers) == {"n": 20}
    assert fit(options, [node], of_both) == {"n": 20}


def test_ratio_leaves_out_what_scores_nothing_and_rounds() -> None:
    """memory scores 0 and does not count; 2 * 25 + 1 * 26 over 3 is rounded, not cut off."""
    shape = ((0, 0), (100, 10))
    node = make_node("n").capacity({GPU: 50}, cpu="4", memory="1000T", pods=9).build()
    pod = make_pod("p").requests({GPU: 13}, cpu="1", memory="1G").build()
    ratio: dict[str, Any] = {"scoring_strategy": "RequestedToCapacityRatio", "scoring_shape": shape}

    assert fit(profile(**ratio, scoring_resources=(("cpu", 1), ("memory", 1))), [node], pod) == {"n": 25}
    assert fit(profile(**ratio, scoring_resources=(("cpu", 1), (GPU, 1))), [node], pod) == {"n": 26}
    assert fit(profile(**ratio, scoring_resources=(("cpu", 2), (GPU, 1))), [node], pod) == {"n": 25}


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (((0, 0), (100, 10)), {0: 0, 50: 50, 99: 99, 100: 100}),
        (((0, 10), (100, 0)), {0: 100, 1: 99, 50: 50, 100: 0}),
        (((30, 5),), {0: 50, 30: 50, 100: 50}),
        (((10, 1), (40, 10), (70, 2)), {0: 10, 10: 10, 25: 55, 40: 100, 41: 98, 70: 20, 100: 20}),
    ],
)
def test_shapes(shape: tuple[tuple[int, int], ...], expected: dict[int, int]) -> None:
    """Between two points scores are cut off toward the first; outside of all points they stay level."""
    table = shape_table(shape)

    assert len(table) == 101
    assert expected == {percent: table[percent] for percent in expected}


def test_balance_of_several_resources() -> None:
    """Beyond two resources it is the standard deviation that counts."""
    assert balance_of([0.5]) == 100
    assert balance_of([1.0, 0.0]) == 50
    assert balance_of([0.3, 0.3, 0.3]) == 100
    assert balance_of([1.0, 0.0, 0.0]) == 52  # 1 - sqrt(2) / 3


def test_balance_looks_at_the_listed_resources() -> None:
    """A pod that uses as much of the accelerators as of cpu keeps the balance; memory plays no role."""
    options = profile(balanced_resources=("cpu", GPU))
    node = make_node("n").capacity({GPU: 4}, cpu="4", memory="8G", pods=9).build()
    even = make_pod("p").requests({GPU: 2}, cpu="2", memory="8G").build()
    uneven = make_pod("p").requests({GPU: 4}).build()
    other = make_pod("p").requests(memory="4G").build()

    def balance(pod: Pod) -> dict[str, int]:
        return scores("NodeResourcesBalancedAllocation", options, [node], [], pod)

    assert balance(even) == {"n": 75}
    assert balance(uneven) == {"n": 50}
    assert balance(other) == {}  # it asks for none of them


def test_ignored_resources_need_not_fit() -> None:
    """Only extended resources can be ignored, by their name or by its prefix."""
    node = make_node("n").capacity(cpu="1", memory="8G", pods=9).build()
    pod = make_pod("p").requests({GPU: 1}).build()
    big = make_pod("p").requests(cpu="2").build()

    def reasons(options: Options, pod: Pod) -> list[str]:
        engine = EngineCluster(options)
        engine.add_node(default_node(node))
        rejection: dict[str, Any] = verdict_of(engine, pod)["filter"].get("n", {})
        return [reason for status in rejection.values() for reason in status["reasons"]]

    assert reasons(Options(), pod) == [f"Insufficient {GPU}"]
    assert reasons(profile(ignored_resources=(GPU,)), pod) == []
    assert reasons(profile(ignored_resource_groups=("example.com",)), pod) == []
    assert reasons(profile(ignored_resource_groups=("example.org",)), pod) != []
    assert reasons(profile(ignored_resources=("cpu",)), big) == ["Insufficient cpu"]


# --- numbers from kube-scheduler's own tests ----------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "taken", "expected"),
    [(2, 0, {"large": 2, "small": 5}), (2, 2, {"large": 2, "small": 10}), (4, 0, {"large": 5, "small": 10})],
)
def test_ratio_of_an_extended_resource(wanted: int, taken: int, expected: dict[str, int]) -> None:
    """A flat shape from 0 to 1 point gives a tenth of the share in use."""
    options = profile(
        scoring_strategy="RequestedToCapacityRatio",
        scoring_shape=((0, 0), (100, 1)),
        scoring_resources=((GPU, 1),),
    )
    nodes = [make_node("large").capacity({GPU: 8}).build(), make_node("small").capacity({GPU: 4}).build()]
    running = [make_pod("r").requests({GPU: taken}).on("small").build()]

    assert expected == fit(options, nodes, make_pod("p").requests({GPU: wanted}).build(), running)


def test_balance_of_three_resources() -> None:
    """A scalar resource is one of them if the pod asks for it, and none if not."""
    options = profile(balanced_resources=("cpu", "memory", GPU))
    nodes = [
        make_node(name).capacity({GPU: 8}, cpu="3500m", memory=40000, pods=9).build() for name in ("a", "b")
    ]
    busy: dict[str, RawQuantity] = {"cpu": "3", "memory": 5000}
    running = [
        make_pod("r").requests({**busy, GPU: 3}).on("a").build(),
        make_pod("s").requests(busy).on("b").build(),
    ]

    def balance(pods: list[Pod], pod: Pod) -> dict[str, int]:
        return scores("NodeResourcesBalancedAllocation", options, nodes, pods, pod)

    assert balance(running, make_pod("p").requests({GPU: 1}).build()) == {"a": 75, "b": 76}
    assert balance([], make_pod("p").requests(busy).build()) == {"a": 56, "b": 56}
