"""Nodes on which the pod evens out the shares of cpu and memory in use are preferred."""

import pytest

from tests.engine.rules.asking import judged
from tests.support.builders import PodBuilder, make_node, make_pod

NODES = [make_node(name).capacity(cpu="4", memory="4Gi") for name in ("cpu", "memory")]
RUNNING = (make_pod("r").requests(cpu="2").on("cpu"), make_pod("s").requests(memory="2Gi").on("memory"))


@pytest.mark.parametrize(
    ("pod", "better"),
    [
        pytest.param(make_pod("p").requests(memory="2Gi", cpu="1m"), "cpu", id="memory beside cpu"),
        pytest.param(make_pod("p").requests(cpu="2", memory="1Mi"), "memory", id="cpu beside memory"),
    ],
)
def test_a_pod_goes_where_it_evens_out_what_is_used(pod: PodBuilder, better: str) -> None:
    """What one resource has too little of is what the other node has."""
    found = judged("NodeResourcesBalancedAllocation", pod, *NODES, *RUNNING)

    assert max(found.raw, key=found.raw.__getitem__) == better


def test_a_pod_that_asks_for_nothing_is_not_ranked() -> None:
    """It makes no node more or less even."""
    assert judged("NodeResourcesBalancedAllocation", make_pod("p"), *NODES, *RUNNING).raw == {}


def test_it_refuses_no_node() -> None:
    """The rule refuses no node: it has preferences only."""
    assert judged("NodeResourcesBalancedAllocation", make_pod("p").requests(cpu="9"), *NODES).refused == {}
