"""A pod that names its node runs there or nowhere."""

from tests.engine.rules.asking import judged, violated
from tests.engine.waiting_pods import small, stuck, watched, web
from tests.support.builders import make_node, make_pod

NODES = (make_node("a"), make_node("b"))


def test_only_the_named_node_is_feasible() -> None:
    """Every other node is refused, whatever it has to offer."""
    found = judged("NodeName", make_pod("p").on("a"), *NODES)

    assert found.refused == {"b": ("node(s) didn't match the requested node name",)}
    assert found.causes == {"b": ("the pod asks for node a",)}


def test_a_pod_that_names_no_node_may_use_any() -> None:
    """Most pods leave the choice to the scheduler."""
    assert judged("NodeName", make_pod("p"), *NODES).refused == {}


def test_a_name_that_no_node_has() -> None:
    """A name that no node has refuses every node."""
    assert judged("NodeName", make_pod("p").on("c"), *NODES).refused.keys() == {"a", "b"}


def test_a_running_pod_is_never_in_the_wrong_place() -> None:
    """It is where it is, whatever it asked for by name."""
    assert violated("NodeName", make_pod("p").on("a"), *NODES) == []


def test_a_pod_that_names_its_node_waits_for_that_node() -> None:
    """A pod with a node name is helped only by that node."""
    cluster = watched(small("a"))
    waiting = stuck(cluster, web("p").on("b"), "NodeName")

    assert not waiting.is_helped_by(cluster.came(small("c")))
    assert waiting.is_helped_by(cluster.came(small("b")))
