"""What would help a pod that must keep its group even."""

from tests.support.builders import ZONE, make_node, make_pod
from tests.support.snapshots import helps, new, zone_node


def test_a_larger_skew() -> None:
    """The smallest skew that helps is found."""
    nodes = [zone_node("n1", "a").build(), zone_node("n2", "b").taint("closed").build()]
    running = [make_pod(f"r{i}").labels(app="x").on("n1").build() for i in range(4)]
    pod = new("p").labels(app="x").spread(ZONE, app="x")
    found = helps(*nodes, *running, pod=pod)
    assert "with maxSkew 5 instead of 1 on zone, n1 fits" in found
    assert "with a toleration for the taint closed:NoSchedule, n2 fits" in found


def test_a_constraint_that_no_skew_satisfies() -> None:
    """Without the topology label the constraint has to change; nobody makes up the zone of a node."""
    nodes = [make_node("n1").build(), zone_node("n2", "a").unschedulable().build()]
    pod = new("p").labels(app="x").spread(ZONE, app="x")
    found = helps(*nodes, pod=pod)
    assert not [sentence for sentence in found if "label" in sentence]
    assert "with n2 uncordoned, n2 fits" in found
    assert "without the spread constraint on zone, n1 fits" in found
