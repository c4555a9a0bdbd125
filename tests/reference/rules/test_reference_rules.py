"""What the recorded data does not show: extensions of the rules, and corners it has no case for."""

import msgspec

from berth.kube.objects import (
    Condition,
    ContainerStatus,
    NodeAffinity,
    Pod,
    PodStatus,
    ResourceRequirements,
)
from tests.reference import Args, Status, World, evaluate_pod, place
from tests.support.builders import HOSTNAME, ZONE, make_node, make_pod, make_service, where

MEBIBYTE = 1024 * 1024


def resized(pod: Pod, *, cpu: str, infeasible: bool = False) -> Pod:
    """The running pod, which has that much cpu now whatever its spec says."""
    resources = ResourceRequirements(requests={"cpu": cpu})
    status = PodStatus(
        phase="Running",
        container_statuses=[ContainerStatus(name="c", resources=resources)],
        conditions=[Condition(type="PodResizePending", reason="Infeasible")] if infeasible else None,
    )
    return msgspec.structs.replace(pod, status=status)


def test_variants_restrict_to_common_names() -> None:
    """Node names wanted by both required variants are those in both, and none is a conflict."""
    one = make_pod("p").node_affinity(fields=[where("metadata.name", "In", "a")])
    both = one.node_affinity(fields=[where("metadata.name", "In", "a")], during_execution=True)
    conflict = one.node_affinity(fields=[where("metadata.name", "In", "b")], during_execution=True)
    world = World([make_node("a").build(), make_node("b").build()])

    assert evaluate_pod(world, both.build()).prefilter["NodeAffinity"].node_names == frozenset({"a"})
    expected = Status("UnschedulableAndUnresolvable", ("pod affinity terms conflict",))
    assert evaluate_pod(world, conflict.build()).prefilter["NodeAffinity"] == expected


def test_added_affinity_in_both_variants() -> None:
    """The scheduler's own affinity filters in the execution-time variant, too."""
    affinity = make_pod("p").node_affinity(zone="z", during_execution=True).build().spec.affinity
    added = affinity.node_affinity if affinity is not None else NodeAffinity()
    world = World(
        [make_node("a").labels(zone="z").build(), make_node("b").build()], args=Args(added_affinity=added)
    )

    assert evaluate_pod(world, make_pod("p").build()).feasible == ["a"]


def test_spreading_honors_both_variants() -> None:
    """Domains that the execution-time variant excludes do not count for the smallest number."""
    nodes = [make_node(zone).labels(zone=zone).build() for zone in ("x", "y", "z")]
    pods = [make_pod(f"p{zone}").labels(app="a").on(zone).build() for zone in ("x", "y")]
    pod = make_pod("p").labels(app="a").spread("zone", app="a")
    pod = pod.node_affinity(where("zone", "NotIn", "z"), during_execution=True)

    assert evaluate_pod(World(nodes, pods), pod.build()).feasible == ["x", "y"]


def test_resizing_pods() -> None:
    """A pod being resized holds the larger amount, unless the new one will never be."""
    node = make_node("n").capacity(cpu="4").build()
    small, large = make_pod("r").requests(cpu="1").on("n"), make_pod("r").requests(cpu="3").on("n")
    asks = make_pod("p").requests(cpu="2").build()

    assert evaluate_pod(World([node], [resized(small.build(), cpu="3")]), asks).feasible == []
    assert evaluate_pod(World([node], [resized(large.build(), cpu="1")]), asks).feasible == []
    hopeless = resized(large.build(), cpu="1", infeasible=True)
    assert evaluate_pod(World([node], [hopeless]), asks).feasible == ["n"]


def test_requests_of_the_whole_pod() -> None:
    """They decide whether a pod fits and how a running pod counts, yet not how the incoming one is rated."""
    node = make_node("n").capacity(cpu="4", memory="4Gi").build()
    pod = make_pod("p").whole_pod_requests(cpu="2", memory="2Gi").build()
    world = World([node])
    alone, after = place(world, pod), evaluate_pod(world, make_pod("q").build())

    # 100m of 4 cpus and 200Mi of 4Gi leave 97 and 95 percent.
    assert alone.scores["NodeResourcesFit"]["n"].raw == 96
    # With the first pod's 2 cpus and 2Gi there are 47 and 45 percent left.
    assert after.scores["NodeResourcesFit"]["n"].raw == 46


def test_image_locality() -> None:
    """An image counts with its size, scaled by the share of nodes that have it; only if asked for."""
    nodes = [make_node("a").image("img:latest", 1000 * MEBIBYTE).build(), make_node("b").build()]
    pod = make_pod("p").image("img").build()

    scores = evaluate_pod(World(nodes, args=Args(extra_plugins=("ImageLocality",))), pod).scores
    # 500 MiB between 23 and 1000.
    assert {node: score.raw for node, score in scores["ImageLocality"].items()} == {"a": 48, "b": 0}
    assert "ImageLocality" not in evaluate_pod(World(nodes), pod).scores


def test_system_defaults() -> None:
    """By default the pods of a service are spread over hosts and zones."""
    nodes = [make_node(n).labels({HOSTNAME: n, ZONE: n}).build() for n in ("a", "b")]
    pods = [make_pod("r").labels(app="x").on("a").build()]
    services = [make_service("s").selects(app="x").build()]

    result = evaluate_pod(World(nodes, pods, services=services), make_pod("p").labels(app="x").build())
    assert result.max_nodes == ["b"]


def test_place() -> None:
    """A placed pod is seen by the next one."""
    world = World([make_node("a").labels(node="a").build(), make_node("b").labels(node="b").build()])
    alone = [
        make_pod(f"p{i}").labels(app="x").anti_affinity_to(app="x", topology="node").build() for i in range(3)
    ]

    assert [place(world, pod).chosen for pod in alone] == ["a", "b", None]
