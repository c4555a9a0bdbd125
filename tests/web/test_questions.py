"""What the page asks of a snapshot: the pods that wait, by reason."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from berth.engine.offline.snapshot import read
from berth.engine.state.options import Options
from berth.kube.well_known import ZONE
from berth.web import questions
from tests.support.builders import make_pod, make_replica_set
from tests.support.snapshots import manifest, zone_node


def test_pods_that_are_refused_for_the_same_reasons_are_one_group() -> None:
    """How many nodes say what makes no other group: figures change from pod to pod, the reason does not."""
    nodes = [zone_node(f"n{i}", zone).capacity({"cpu": "4", "pods": "10"}) for i, zone in enumerate("abb")]
    pods: list[Any] = [make_pod("plain").requests({"cpu": "64"})]
    pods += [make_pod(zone).requests({"cpu": "64"}).node_selector({ZONE: zone}) for zone in "ab"]
    found = questions.pending(read([manifest(each.build()) for each in (*nodes, *pods)], Options()))
    choosy, plain = found["groups"]
    assert (choosy["pods"], choosy["messages"]) == (2, 2)
    assert {each["workload"] for each in choosy["workloads"]} == {"Pod/a", "Pod/b"}
    assert (plain["pods"], plain["title"]) == (1, "Insufficient cpu")


def test_a_sentence_that_counts_no_nodes_is_its_own_reason() -> None:
    """What is said of a pod that is not tried at all is told as it is."""
    message = "Scheduling is blocked due to non-empty scheduling gates"
    assert questions.title(message) == message


def test_a_title_names_what_most_nodes_say_first() -> None:
    """Without figures, and without what preemption could not do."""
    message = (
        "0/9 nodes are available: 1 Insufficient cpu, 8 node(s) had untolerated taint(s). "
        "preemption: 0/9 nodes are available: 9 Preemption is not helpful for scheduling."
    )
    assert questions.title(message) == "nodes had untolerated taint(s), Insufficient cpu"


def test_a_strip_has_the_moves_of_a_workload_that_may_be_moved() -> None:
    """With the annotation on the workload the page is told who goes where; without it nothing is planned."""
    pods = [
        make_pod(f"p{i}").labels({"app": "web"}).on("a").spread(ZONE, app="web").owned_by("ReplicaSet", "web")
        for i in range(3)
    ]
    for said in ({}, {"berth.dev/rebalance": "hard"}):
        owner = make_replica_set("web").build()
        metadata = structs.replace(owner.metadata, annotations=said, namespace="default", uid="r")
        workload = structs.replace(
            owner, kind="ReplicaSet", metadata=metadata, spec=structs.replace(owner.spec, replicas=3)
        )
        nodes = [zone_node(zone, zone).build() for zone in "ab"]
        shown = [*map(manifest, nodes), manifest(workload), *(manifest(pod.build()) for pod in pods)]
        found = read(shown, Options())
        [strip] = questions.constraints(found)["constraints"]
        moved = [(move["node"], move["landsOn"]) for move in strip["moves"]]
        assert moved == ([("a", "b")] if said else [])
