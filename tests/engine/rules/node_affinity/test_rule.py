"""Node selectors and node affinity: which nodes a pod may use, and would rather use."""

import pytest

from tests.engine.rules.asking import judged, violated
from tests.support.builders import PodBuilder, make_node, make_pod
from tests.support.builders import where as having

REASON = ("node(s) didn't match Pod's node affinity/selector",)
SSD, HDD, BARE = (
    make_node("ssd").labels(disk="ssd", size="9"),
    make_node("hdd").labels(disk="hdd"),
    make_node("bare"),
)
NODES = (SSD, HDD, BARE)


@pytest.mark.parametrize(
    ("pod", "feasible"),
    [
        pytest.param(make_pod("p"), "ssd hdd bare", id="asks for nothing"),
        pytest.param(make_pod("p").node_selector(disk="ssd"), "ssd", id="nodeSelector"),
        pytest.param(make_pod("p").node_affinity(having("disk", "In", "ssd", "hdd")), "ssd hdd", id="In"),
        pytest.param(make_pod("p").node_affinity(having("disk", "NotIn", "ssd")), "hdd bare", id="NotIn"),
        pytest.param(make_pod("p").node_affinity(having("disk")), "ssd hdd", id="Exists"),
        pytest.param(make_pod("p").node_affinity(having("disk", "DoesNotExist")), "bare", id="DoesNotExist"),
        pytest.param(make_pod("p").node_affinity(having("size", "Gt", "8")), "ssd", id="Gt"),
        pytest.param(make_pod("p").node_affinity(having("size", "Lt", "8")), "", id="Lt"),
        pytest.param(
            make_pod("p").node_affinity(disk="ssd").node_selector(size="8"), "", id="both must hold"
        ),
        pytest.param(make_pod("p").node_affinity(disk="ssd", during_execution=True), "ssd", id="execution"),
        pytest.param(
            make_pod("p").node_affinity(fields=[having("metadata.name", "In", "bare")]), "bare", id="name"
        ),
    ],
)
def test_which_nodes_match(pod: PodBuilder, feasible: str) -> None:
    """Every requirement of a term must hold, and every selector of the pod."""
    refused = judged("NodeAffinity", pod, *NODES).refused

    assert {"ssd", "hdd", "bare"} - refused.keys() == set(feasible.split())
    assert set(refused.values()) <= {REASON}


def test_the_cause_names_the_label() -> None:
    """The cause says what the pod wants and what the node has."""
    found = judged("NodeAffinity", make_pod("p").node_selector(disk="ssd"), *NODES)

    assert found.causes == {
        "hdd": ("nodeSelector wants disk=ssd, the node has disk=hdd",),
        "bare": ("nodeSelector wants disk=ssd, the node has no label disk",),
    }


def test_preferences_add_up() -> None:
    """A node scores the weights of the terms that it matches, relative to the best."""
    pod = (
        make_pod("p")
        .prefers_nodes(having("disk"), weight=10)
        .prefers_nodes(having("disk", "In", "ssd"), weight=30)
    )
    found = judged("NodeAffinity", pod, *NODES)

    assert found.raw == {"ssd": 40, "hdd": 10, "bare": 0}
    assert found.scores == {"ssd": 100, "hdd": 25, "bare": 0}


@pytest.mark.parametrize(
    ("execution", "field"),
    [
        (False, "requiredDuringSchedulingIgnoredDuringExecution"),
        (True, "requiredDuringSchedulingRequiredDuringExecution"),
    ],
)
def test_a_running_pod_must_go_only_for_rules_of_execution(execution: bool, field: str) -> None:
    """Both kinds are broken once the label is gone; one of them says that the pod must go."""
    pod = make_pod("p").node_affinity(disk="ssd", during_execution=execution).on("bare")
    (found,) = violated("NodeAffinity", pod, *NODES)

    assert (found.execution, found.path) == (execution, f"spec.affinity.nodeAffinity.{field}")


def test_a_pod_whose_node_matches_breaks_nothing() -> None:
    """The labels as they are now are what counts."""
    assert violated("NodeAffinity", make_pod("p").node_affinity(disk="ssd").on("ssd"), *NODES) == []
