"""Cordoned nodes take no pods, except those that tolerate the cordon."""

import pytest

from tests.engine.rules.asking import judged, violated
from tests.support.builders import PodBuilder, make_node, make_pod
from tests.support.snapshots import helps, new

CORDON = "node.kubernetes.io/unschedulable"
NODES = (make_node("cordoned").unschedulable(), make_node("open"))


@pytest.mark.parametrize(
    ("pod", "refused"),
    [
        pytest.param(make_pod("p"), {"cordoned"}, id="any pod"),
        pytest.param(make_pod("p").tolerates(CORDON), set(), id="tolerates the cordon"),
        pytest.param(make_pod("p").tolerates("other"), {"cordoned"}, id="tolerates something else"),
        pytest.param(make_pod("p").tolerates(), set(), id="tolerates everything"),
    ],
)
def test_who_may_use_a_cordoned_node(pod: PodBuilder, refused: set[str]) -> None:
    """The cordon is a taint like others: who tolerates it may come."""
    assert judged("NodeUnschedulable", pod, *NODES).refused.keys() == refused


def test_the_reason_and_its_cause() -> None:
    """The sentence is upstream's, the cause says what to look at."""
    found = judged("NodeUnschedulable", make_pod("p"), *NODES)

    assert found.refused == {"cordoned": ("node(s) were unschedulable",)}
    assert found.causes == {"cordoned": ("spec.unschedulable is true (cordoned)",)}


def test_a_running_pod_need_not_mind_a_cordon() -> None:
    """It would not be placed there again, but nothing asks it to go."""
    (found,) = violated("NodeUnschedulable", make_pod("p").on("cordoned"), *NODES)

    assert not found.execution


def test_uncordoning() -> None:
    """Only cordoned nodes that would then take the pod are named."""
    nodes = [
        make_node("n1").unschedulable().build(),
        make_node("n2").capacity(cpu="1").unschedulable().build(),
    ]
    assert helps(*nodes, pod=new("p").requests(cpu="2")) == ["with n1 uncordoned, n1 fits"]


def test_uncordoning_removes_the_taint_of_the_cordon() -> None:
    """On live clusters a cordoned node has a taint as well; uncordoning takes both away."""
    node = make_node("n1").unschedulable().taint("node.kubernetes.io/unschedulable").build()
    assert helps(node, pod=new("p")) == ["with n1 uncordoned, n1 fits"]
