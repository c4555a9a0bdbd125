"""Nodes that already hold the pod's images score higher."""

import pytest

from tests.engine.rules.asking import judged, violated
from tests.support.builders import make_node, make_pod

MIB = 1024 * 1024
POD = make_pod("p").image("web:1")


def test_nodes_with_the_image_score_higher() -> None:
    """What need not be pulled counts, by its size."""
    nodes = (make_node("has").image("web:1", 1000 * MIB), make_node("lacks"))
    found = judged("ImageLocality", POD, *nodes)

    assert found.scores["has"] > found.scores["lacks"] == 0


def test_an_image_counts_by_the_share_of_nodes_that_have_it() -> None:
    """An image on few nodes counts less, so that pods do not all go where a rare image is."""
    rare = (make_node("has").image("web:1", 500 * MIB), make_node("b"), make_node("c"), make_node("d"))
    common = (make_node("has").image("web:1", 500 * MIB), make_node("b").image("web:1", 500 * MIB))

    assert judged("ImageLocality", POD, *rare).raw["has"] < judged("ImageLocality", POD, *common).raw["has"]


@pytest.mark.parametrize(
    ("size", "score"),
    [(22 * MIB, 0), (23 * MIB, 0), (1000 * MIB, 100), (5000 * MIB, 100)],
    ids=["too small to count", "threshold", "largest", "larger"],
)
def test_scores_lie_between_two_thresholds(size: int, score: int) -> None:
    """Scores rise from 0 at 23 MiB to the highest at 1000 MiB a container."""
    assert judged("ImageLocality", POD, make_node("n").image("web:1", size)).raw == {"n": score}


def test_it_refuses_no_node() -> None:
    """No node is refused for an image that it lacks, since images can be pulled."""
    assert judged("ImageLocality", POD, make_node("n")).refused == {}
    assert violated("ImageLocality", POD.on("n"), make_node("n")) == []
