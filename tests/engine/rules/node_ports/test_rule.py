"""Two pods cannot share a host port on a node."""

import pytest

from tests.engine.rules.asking import judged, violated
from tests.engine.waiting_pods import small, stuck, watched, web
from tests.support.builders import PodBuilder, make_node, make_pod
from tests.support.snapshots import helps, new


@pytest.mark.parametrize(
    ("taken", "wanted", "fits"),
    [
        pytest.param(make_pod("r").host_port(80), make_pod("p").host_port(80), False, id="the same"),
        pytest.param(make_pod("r").host_port(80), make_pod("p").host_port(81), True, id="another port"),
        pytest.param(
            make_pod("r").host_port(80),
            make_pod("p").host_port(80, protocol="UDP"),
            True,
            id="another protocol",
        ),
        pytest.param(
            make_pod("r").host_port(80, ip="10.0.0.1"),
            make_pod("p").host_port(80, ip="10.0.0.2"),
            True,
            id="other addresses",
        ),
        pytest.param(
            make_pod("r").host_port(80, ip="10.0.0.1"),
            make_pod("p").host_port(80),
            False,
            id="one on all addresses",
        ),
        pytest.param(make_pod("r").host_port(80), make_pod("p"), True, id="none wanted"),
    ],
)
def test_which_ports_are_in_each_others_way(taken: PodBuilder, wanted: PodBuilder, fits: bool) -> None:
    """Port, protocol and address together make a host port; no address stands for all."""
    found = judged("NodePorts", wanted, make_node("n"), taken.on("n"))

    assert (found.refused == {}) == fits


def test_the_reason_and_its_cause() -> None:
    """The cause names the port, and the pod that has it."""
    found = judged(
        "NodePorts", make_pod("p").host_port(80), make_node("n"), make_pod("r").host_port(80).on("n")
    )

    assert found.refused == {"n": ("node(s) didn't have free ports for the requested pod ports",)}
    assert found.causes == {"n": ("host port 80/TCP on 0.0.0.0 is in use by pod default/r",)}


def test_a_running_pod_breaks_it_where_another_has_its_port() -> None:
    """A running pod breaks the rule if another on its node has its port."""
    things = (make_node("n"), make_pod("r").host_port(80).on("n"))

    assert violated("NodePorts", make_pod("p").host_port(81).on("n"), *things) == []
    assert len(violated("NodePorts", make_pod("p").host_port(80).on("n"), *things)) == 1


def test_a_port_helps_if_it_was_the_one_in_use() -> None:
    """A pod that leaves helps a waiting pod only if it used the same host port."""
    other, same = web("other").host_port(81).on("a"), web("same").host_port(80).on("a")
    cluster = watched(small("a"), other, same)
    waiting = stuck(cluster, web("p").host_port(80), "NodePorts")

    assert not waiting.is_helped_by(cluster.pod_left(other))
    assert waiting.is_helped_by(cluster.pod_left(same))


def test_a_host_port() -> None:
    """A port that is taken can be given up."""
    running = make_pod("r").host_port(80).on("n1").build()
    assert helps(make_node("n1").build(), running, pod=new("p").host_port(80)) == [
        "without the host port 80/TCP, n1 fits"
    ]
