"""What a pod keeps for itself is judged by what its rules select, and charged for what they block."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.kube.objects import Node, Pod, PodAffinityTerm
from berth.kube.quota.exclusive import (
    AVERAGE,
    BlockedNodes,
    Exclusion,
    Neighbours,
    NodeSizes,
    closes,
    cost,
    exclusion_of,
)
from berth.kube.text.decoding import convert
from tests.support.builders import HOSTNAME, ZONE

Json = dict[str, Any]
NAME = "kubernetes.io/metadata.name"
ALL: Json = {"labelSelector": {}, "namespaceSelector": {}}


def expression(key: str, operator: str, *values: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def both(operator: str, *values: str) -> Json:
    """A selector of two namespaces, with something else said of the name."""
    named = [("In", ["a", "own"]), (operator, list(values))]
    return {"matchExpressions": [{"key": NAME, "operator": each, "values": those} for each, those in named]}


def cluster(*sizes: tuple[str, str, str, str], **more: Json) -> NodeSizes:
    """Nodes by name, zone, cpu and memory."""
    made = {
        name: convert(
            {
                "metadata": {"name": name, "labels": {HOSTNAME: name, ZONE: zone, "size": cpu}},
                "spec": more.get(name, {}),
                "status": {"allocatable": {"cpu": cpu, "memory": memory}},
            },
            Node,
        )
        for name, zone, cpu, memory in sizes
    }
    nodes = NodeSizes()
    nodes.keep(dict.fromkeys(made, "1"), made.__getitem__)
    return nodes


def pod(*keys: str, node: str = "", **spec: Any) -> Exclusion:
    terms = [{**ALL, "topologyKey": key} for key in keys]
    affinity = {
        **spec.pop("affinity", {}),
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms},
    }
    raw = {"metadata": {"name": "p", "namespace": "own"}, "spec": {**spec, "affinity": affinity}}
    if node:
        raw["spec"]["nodeName"] = node
    found = exclusion_of(convert(raw, Pod))
    assert found is not None
    return found


THREE = cluster(("a", "z1", "4", "8Gi"), ("b", "z1", "8", "4Gi"), ("c", "z2", "3920m", "2Gi"))
GI = 1 << 30


@pytest.mark.parametrize(
    ("term", "is_closed"),
    [
        (ALL, True),
        ({"labelSelector": {}, "namespaceSelector": expression(NAME, "Exists")}, True),
        ({"labelSelector": {}, "namespaceSelector": expression(NAME, "NotIn", "own")}, True),
        ({"labelSelector": {}, "namespaceSelector": {"matchLabels": {"tenant": "b"}}}, True),
        ({"labelSelector": {}, "namespaces": ["other"]}, True),
        ({"labelSelector": expression("app", "NotIn", "mine"), "namespaceSelector": {}}, True),
        ({"labelSelector": expression("app", "DoesNotExist"), "namespaceSelector": {}}, True),
        ({"labelSelector": expression("pod-template-hash", "Exists"), "namespaceSelector": {}}, True),
        ({"labelSelector": {}}, False),
        ({"labelSelector": {}, "namespaces": ["own"]}, False),
        ({"labelSelector": {}, "namespaceSelector": expression(NAME, "In", "own")}, False),
        ({"labelSelector": {"matchLabels": {"app": "web"}}, "namespaceSelector": {}}, False),
        ({"labelSelector": expression("app", "In", "web", "db"), "namespaceSelector": {}}, False),
        ({"namespaceSelector": {}}, False),
        ({"labelSelector": {}, "namespaceSelector": expression(NAME, "DoesNotExist")}, False),
        ({"labelSelector": {}, "namespaceSelector": both("In", "a", "own")}, True),
        ({"labelSelector": {}, "namespaceSelector": both("NotIn", "a", "own")}, False),
    ],
)
def test_a_rule_is_judged_by_what_it_selects(term: Json, is_closed: bool) -> None:
    """It closes a domain if pods of others are kept out by nothing that they could choose."""
    assert closes(convert({**term, "topologyKey": HOSTNAME}, PodAffinityTerm), "own") is is_closed


def test_most_pods_keep_nothing() -> None:
    """A pod without rules keeps nothing for itself, nor does one with preferences or affinity."""
    soft = {"weight": 1, "podAffinityTerm": {**ALL, "topologyKey": HOSTNAME}}
    for affinity in (
        None,
        {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [soft]}},
        {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{**ALL, "topologyKey": HOSTNAME}]
            }
        },
    ):
        raw: Json = {"metadata": {"name": "p"}, "spec": {"affinity": affinity} if affinity else {}}
        assert exclusion_of(convert(raw, Pod)) is None


def test_rules_of_the_annotation_count() -> None:
    """Rules of the annotation count, also those that must hold while the pod runs."""
    terms = [{**ALL, "topologyKey": ZONE}]
    rules = {"podAntiAffinity": {"requiredDuringSchedulingRequiredDuringExecution": terms}}
    raw = {"metadata": {"name": "p", "annotations": {"berth.dev/affinity": json.dumps(rules)}}, "spec": {}}
    found = exclusion_of(convert(raw, Pod))
    assert found is not None
    assert found.keys == {ZONE}


@pytest.mark.parametrize(
    ("exclusion", "blocked"),
    [
        (pod(HOSTNAME), BlockedNodes(1, 8000, 8 * GI)),  # each resource of the node that has most of it
        (pod(HOSTNAME, nodeSelector={HOSTNAME: "c"}), BlockedNodes(1, 3920, 2 * GI)),
        (pod(HOSTNAME, node="a"), BlockedNodes(1, 4000, 8 * GI)),
        (pod(ZONE), BlockedNodes(2, 12000, 12 * GI)),
        (pod(ZONE, node="c"), BlockedNodes(1, 3920, 2 * GI)),
        (pod(HOSTNAME, ZONE, node="a"), BlockedNodes(2, 12000, 12 * GI)),  # one is in the other
        (pod("rack", node="a"), BlockedNodes()),  # a node without the label is in no domain
        (pod(HOSTNAME, node="gone"), BlockedNodes()),
        (pod(HOSTNAME, nodeSelector={HOSTNAME: "later"}), BlockedNodes(1, 8000, 8 * GI)),  # any node
    ],
)
def test_pods_are_charged_for_what_they_could_and_do_block(
    exclusion: Exclusion, blocked: BlockedNodes
) -> None:
    """The largest node or domain before a pod has a node, and its own afterwards."""
    assert cost([exclusion], THREE) == blocked


def test_a_machine_that_pods_are_pinned_to_is_charged_once() -> None:
    """A machine is charged once, however many pods wait for it or have it."""
    pinned = pod(HOSTNAME, nodeSelector={HOSTNAME: "c"})
    other = pod(HOSTNAME, nodeSelector={HOSTNAME: "c"}, tolerations=[{"operator": "Exists"}])
    assert cost([pinned, pinned, other, pod(HOSTNAME, node="c")], THREE) == BlockedNodes(1, 3920, 2 * GI)
    assert cost([pod(HOSTNAME), pod(HOSTNAME)], THREE) == BlockedNodes(2, 16000, 16 * GI)


@pytest.mark.parametrize(
    ("term", "nodes"),
    [
        ({"namespaces": ["team-b"]}, 1),
        ({"namespaces": ["later"]}, 0),
        ({"namespaces": ["kube-system"]}, 0),  # daemons run beside everybody
        ({"namespaces": ["kube-system", "team-b"]}, 1),
        ({"namespaceSelector": {"matchLabels": {"tenant": "b"}}}, 1),
        ({"namespaceSelector": {"matchLabels": {"tenant": "c"}}}, 0),
        ({"namespaceSelector": expression("tenant", "NotIn", "b")}, 1),  # also whoever comes next
    ],
)
def test_rules_against_nobody_cost_nothing_once_placed(term: Json, nodes: int) -> None:
    """Before, namespaces may still come; afterwards what counts is whom a rule keeps out."""
    neighbours = Neighbours({"kube-system"})
    neighbours.keep({"own": {}, "team-b": {"tenant": "b"}, "kube-system": {}})
    required = [{"topologyKey": HOSTNAME, "labelSelector": {}, **term}]
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    raw: Json = {"metadata": {"name": "p", "namespace": "own"}, "spec": {"affinity": affinity}}
    waiting = exclusion_of(convert(raw, Pod))
    raw["spec"]["nodeName"] = "a"
    placed = exclusion_of(convert(raw, Pod))
    assert waiting is not None
    assert placed is not None
    assert cost([waiting], THREE, neighbours=neighbours).nodes == 1
    assert cost([placed], THREE, neighbours=neighbours).nodes == nodes
    neighbours.keep({"own": {}, "later": {"tenant": "c"}, "team-b": {"tenant": "b"}})
    assert cost([placed], THREE, neighbours=neighbours).nodes == (term.get("namespaces") != ["kube-system"])


def test_the_average_is_a_setting() -> None:
    """Instead of the largest node, the average of those that the pod could get."""
    small = pod(HOSTNAME, nodeSelector={ZONE: "z1"})
    assert cost([small], THREE, AVERAGE) == BlockedNodes(1, 6000, 6 * GI)


def test_nodes_that_a_pod_does_not_tolerate_are_no_candidates() -> None:
    """What keeps a pod away cannot be blocked by it; node affinity is followed as well."""
    tainted = {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
    nodes = cluster(("a", "z1", "4", "8Gi"), ("big", "z1", "64", "1Gi"), big=tainted)
    assert cost([pod(HOSTNAME)], nodes).cpu == 4000
    assert cost([pod(HOSTNAME, tolerations=[{"operator": "Exists"}])], nodes).cpu == 64000
    wanted = {"nodeSelectorTerms": [expression("size", "In", "64")]}
    required = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": wanted}}
    assert cost([pod(HOSTNAME, affinity=required, tolerations=[{"operator": "Exists"}])], nodes).memory == GI


def test_quotas_count_whole_cpus() -> None:
    """An amount with a domain of its own has to be an integer; what is begun is not charged."""
    amounts = cost([pod(HOSTNAME, node="c")], THREE).amounts()
    assert {name.rpartition(".")[2]: str(amount) for name, amount in amounts.items()} == {
        "cpu": "3",
        "memory": "2147483648",
        "nodes": "1",
    }


SIZES = st.lists(
    st.tuples(st.sampled_from(["z1", "z2", "z3"]), st.sampled_from(["250m", "1", "3920m", "64"])),
    min_size=1,
    max_size=6,
)
PLACED = st.lists(
    st.tuples(st.integers(0, 7), st.sets(st.sampled_from([HOSTNAME, ZONE, "rack"]), min_size=1)), max_size=8
)


@given(sizes=SIZES, placed=PLACED)
def test_no_more_is_charged_than_is_blocked(
    sizes: list[tuple[str, str]], placed: list[tuple[int, set[str]]]
) -> None:
    """Once pods have nodes, all that is charged is what the nodes that take nobody else have, each once."""
    nodes = cluster(*((f"n{i}", zone, cpu, "1Gi") for i, (zone, cpu) in enumerate(sizes)))
    pods = [pod(*sorted(keys), node=f"n{number}") for number, keys in placed]
    closed = [
        node
        for node in nodes
        if any(
            key in node.labels
            and (there := nodes.find(each.node))
            and there.labels.get(key) == node.labels[key]
            for each in pods
            for key in each.keys
        )
    ]
    blocked = cost(pods, nodes)
    assert (
        blocked == BlockedNodes(*map(sum, zip(*(node.has for node in closed), strict=True)))
        if closed
        else BlockedNodes()
    )
    for name, amount in blocked.amounts().items():
        exact = {"cpu": blocked.cpu / 1000, "memory": blocked.memory, "nodes": len(closed)}
        assert amount.amount <= exact[name.rpartition(".")[2]]
    for each in pods:  # and no pod is charged for more than before it had a node
        waiting = Exclusion(each.rules)
        assert all(a <= b for a, b in zip(cost([each], nodes), cost([waiting], nodes), strict=True))
