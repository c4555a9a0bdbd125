"""The requests of a pod must fit beside those already on the node."""

import pytest

from tests.engine.rules.asking import judged, violated
from tests.support.builders import PodBuilder, make_node, make_pod

NODE = make_node("n").capacity(cpu="2", memory="4Gi", pods="2").labels(x="y")


@pytest.mark.parametrize(
    ("pod", "reasons"),
    [
        pytest.param(make_pod("p"), (), id="asks for nothing"),
        pytest.param(make_pod("p").requests(cpu="1"), (), id="just fits"),
        pytest.param(make_pod("p").requests(cpu="1001m"), ("Insufficient cpu",), id="cpu"),
        pytest.param(make_pod("p").requests(memory="4Gi"), ("Insufficient memory",), id="memory"),
        pytest.param(
            make_pod("p").requests(cpu="2", memory="4Gi"),
            ("Insufficient cpu", "Insufficient memory"),
            id="both",
        ),
        pytest.param(
            make_pod("p").requests({"example.com/gpu": "1"}), ("Insufficient example.com/gpu",), id="unknown"
        ),
        pytest.param(make_pod("p").init_container({"cpu": "2"}), ("Insufficient cpu",), id="init container"),
        pytest.param(
            make_pod("p").requests(cpu="900m").overhead(cpu="200m"), ("Insufficient cpu",), id="overhead"
        ),
    ],
)
def test_what_fits_beside_a_pod_that_runs(pod: PodBuilder, reasons: tuple[str, ...]) -> None:
    """A reason for each resource that is short."""
    running = make_pod("r").requests(cpu="1", memory="1Gi").on("n")

    assert judged("NodeResourcesFit", pod, NODE, running).refused.get("n", ()) == reasons


def test_the_cause_has_the_figures() -> None:
    """The cause says how much is wanted, how much is left, and of what."""
    running = make_pod("r").requests(cpu="1500m").on("n")
    found = judged("NodeResourcesFit", make_pod("p").requests(cpu="1"), NODE, running)

    assert found.causes == {"n": ("cpu: 1 wanted, 500m of 2 free",)}


def test_a_node_takes_so_many_pods() -> None:
    """Even pods that ask for nothing count."""
    running = (make_pod("r").on("n"), make_pod("s").on("n"))

    assert judged("NodeResourcesFit", make_pod("p"), NODE, *running).refused == {"n": ("Too many pods",)}


def test_the_emptier_node_scores_higher() -> None:
    """The mean of the free shares of cpu and memory, with the pod, in percent."""
    nodes = [make_node(name).capacity(cpu="4", memory="4Gi") for name in ("empty", "half")]
    running = make_pod("r").requests(cpu="2", memory="2Gi").on("half")
    found = judged("NodeResourcesFit", make_pod("p").requests(cpu="1", memory="1Gi"), *nodes, running)

    assert found.raw == {"empty": 75, "half": 25}


def test_a_running_pod_on_an_overcommitted_node_breaks_it() -> None:
    """The request is named where it stands."""
    others = (make_pod("r").requests(cpu="2").on("n"),)
    (found,) = violated("NodeResourcesFit", make_pod("p").requests(cpu="1").on("n"), NODE, *others)

    assert (found.reason, found.path) == ("Insufficient cpu", "spec.containers[*].resources.requests[cpu]")
