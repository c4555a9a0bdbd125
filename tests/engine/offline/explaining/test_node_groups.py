"""Nodes that are refused for the same reasons are one group, and the decisive groups come first."""

from berth.engine.offline.explanation import Explanation
from tests.support.builders import make_node, make_pod
from tests.support.snapshots import explained, new, zone_node


def told(explanation: Explanation) -> list[tuple[tuple[str, ...], list[str]]]:
    return [(group.names, [shared.causes[0].code for shared in group.causes]) for group in explanation.groups]


def test_the_nodes_that_come_closest_are_first() -> None:
    """Where only pods are in the way, then where fewer rules refuse, then where more nodes are."""
    nodes = [
        make_node("wrong").labels(disk="hdd").capacity(cpu="8"),
        make_node("both").labels(disk="hdd").capacity(cpu="8").taint("gpu"),
        make_node("also-wrong").labels(disk="hdd").capacity(cpu="8"),
        make_node("full").labels(disk="ssd").capacity(cpu="8"),
    ]
    used = make_pod("used").requests(cpu="6").on("full")
    pod = new("p").requests(cpu="4").node_selector(disk="ssd")
    explanation = explained("p", *(node.build() for node in nodes), used.build(), pod.build())
    assert told(explanation) == [
        (("full",), ["InsufficientResource"]),
        (("wrong", "also-wrong"), ["NodeSelectorMismatch"]),
        (("both",), ["TaintNotTolerated", "NodeSelectorMismatch"]),
    ]


def test_common_labels_are_those_that_tell_a_group_from_others() -> None:
    """What no other node has comes first, what all have is left out, and so is the host's name."""
    nodes = [zone_node(f"n{i}", "ab"[i % 2]).labels(arch="arm", pool="x" if i < 3 else "y") for i in range(6)]
    nodes = [node if i < 3 else node.taint("gpu") for i, node in enumerate(nodes)]
    explanation = explained("p", *(n.build() for n in nodes), new("p").node_selector(pool="y").build())
    labels = {group.names: dict(group.labels) for group in explanation.groups}
    assert labels == {("n3", "n4", "n5"): {"pool": "y"}, ("n0", "n1", "n2"): {"pool": "x"}}


def test_different_taints_are_different_groups_until_there_are_too_many() -> None:
    """Nobody reads twenty groups: then those are together that differ in a name."""

    def groups(count: int) -> int:
        nodes = [make_node(f"n{i}").taint("host", f"h{i}").build() for i in range(count)]
        return len(explained("p", *nodes, new("p").build()).groups)

    assert (groups(3), groups(20)) == (3, 1)
