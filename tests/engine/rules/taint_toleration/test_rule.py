"""Taints keep pods off a node unless they tolerate them; PreferNoSchedule taints cost score."""

import pytest

from tests.engine.rules.asking import judged, violated
from tests.support.builders import PodBuilder, make_node, make_pod
from tests.support.snapshots import helps, new

REASON = ("node(s) had untolerated taint(s)",)


@pytest.mark.parametrize(
    ("pod", "fits"),
    [
        pytest.param(make_pod("p"), False, id="no toleration"),
        pytest.param(make_pod("p").tolerates("gpu", "yes"), True, id="key and value"),
        pytest.param(make_pod("p").tolerates("gpu", "no"), False, id="another value"),
        pytest.param(make_pod("p").tolerates("gpu"), True, id="any value"),
        pytest.param(make_pod("p").tolerates(), True, id="any taint"),
        pytest.param(make_pod("p").tolerates("gpu", "yes", effect="NoExecute"), False, id="another effect"),
        pytest.param(make_pod("p").tolerates("disk", "yes"), False, id="another key"),
    ],
)
def test_which_tolerations_a_taint_lets_in(pod: PodBuilder, fits: bool) -> None:
    """A toleration matches by key, value and effect; what it leaves out it does not mind."""
    assert (judged("TaintToleration", pod, make_node("n").taint("gpu", "yes")).refused == {}) == fits


@pytest.mark.parametrize(
    ("effect", "refused"), [("NoSchedule", True), ("NoExecute", True), ("PreferNoSchedule", False)]
)
def test_hard_and_soft_effects(effect: str, refused: bool) -> None:
    """PreferNoSchedule refuses no node."""
    found = judged("TaintToleration", make_pod("p"), make_node("n").taint("gpu", effect=effect))

    assert bool(found.refused) == refused


def test_the_first_taint_in_the_way_is_named() -> None:
    """One reason a node, as upstream has it."""
    found = judged("TaintToleration", make_pod("p"), make_node("n").taint("gpu", "yes").taint("disk"))

    assert found.refused == {"n": REASON}
    assert found.causes == {"n": ("taint gpu=yes:NoSchedule is not tolerated",)}


def test_the_fewer_soft_taints_the_better() -> None:
    """Scores fall with the number of PreferNoSchedule taints that are not tolerated."""
    soft = "PreferNoSchedule"
    nodes = (
        make_node("none"),
        make_node("one").taint("x", effect=soft),
        make_node("two").taint("x", effect=soft).taint("y", effect=soft),
    )
    found = judged("TaintToleration", make_pod("p"), *nodes)

    assert found.raw == {"none": 0, "one": 1, "two": 2}
    assert found.scores == {"none": 100, "one": 50, "two": 0}


def test_a_running_pod_must_go_for_no_execute_only() -> None:
    """NoSchedule is for newcomers; NoExecute must be tolerated while the pod runs."""
    node = make_node("n").taint("gpu").taint("down", effect="NoExecute")
    found = violated("TaintToleration", make_pod("p").on("n"), node)

    assert [(v.cause, v.execution) for v in found] == [
        ("taint gpu:NoSchedule is not tolerated", False),
        ("taint down:NoExecute is not tolerated", True),
    ]


def test_a_toleration() -> None:
    """The taint to tolerate is named."""
    node = make_node("n1").taint("gpu", "yes").build()
    assert helps(node, pod=new("p")) == ["with a toleration for the taint gpu=yes:NoSchedule, n1 fits"]
