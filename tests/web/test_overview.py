"""The rows of the overview, and what is told of their changes."""

from __future__ import annotations

from berth.web.overview import Board, node_row, pod_row
from tests.support.builders import make_node, make_pod
from tests.support.snapshots import zone_node


def test_a_node_says_what_closes_it() -> None:
    """A node that is cordoned, tainted, not ready or not heard of is drawn as such."""
    assert node_row(zone_node("n1", "a").build()).state == "Ready"
    closed = node_row(zone_node("n1", "a").unschedulable().taint("gpu", "yes").build())
    assert (closed.unschedulable, "gpu=yes:NoSchedule" in closed.taints) == (True, True)
    assert node_row(zone_node("n1", "a").taint("gpu", effect="NoExecute").build()).taints == ["gpu:NoExecute"]
    for status, state in (("True", "Ready"), ("False", "NotReady"), ("Unknown", "Unknown")):
        assert node_row(zone_node("n1", "a").condition("Ready", status).build()).state == state


def test_only_what_changed_is_told_and_only_once() -> None:
    """Rows that are put again as they were are no news; those that are gone are named."""
    board = Board()
    node, pod = node_row(make_node("n1").build()), pod_row(make_pod("p").build(), "Deployment/web")
    board.put_node(node)
    board.put_pod(pod)
    told = board.changes()
    assert told is not None
    assert (told["nodes"], told["pods"], told["goneNodes"], told["gonePods"]) == ([node], [pod], [], [])
    board.put_node(node)
    board.put_pod(pod)
    assert board.changes() is None
    board.drop_pod((pod.namespace, pod.name))
    board.drop_pod(("default", "never-there"))
    told = board.changes()
    assert told is not None
    assert (told["pods"], told["gonePods"]) == ([], [f"{pod.namespace}/{pod.name}"])


def test_columns_hold_every_row() -> None:
    """Whatever the columns share, every row can be read back from them."""
    board = Board()
    for i in range(4):
        board.put_node(node_row(zone_node(f"n{i}", "ab"[i % 2]).build()))
    board.put_node(node_row(make_node("bare").build()))
    board.put_pod(pod_row(make_pod("waits").build(), None))
    board.put_pod(pod_row(make_pod("runs").on("n2").build(), "Deployment/web"))
    board.put_pod(pod_row(make_pod("lost").on("gone").build(), "Deployment/web"))
    columns = board.columns()
    zones = columns["nodes"]["labels"]["topology.kubernetes.io/zone"]
    assert [zones["values"][i] for i in zones["rows"]] == ["a", "b", "a", "b", None]
    pods = columns["pods"]
    assert pods["name"] == ["waits", "runs", "lost"]
    assert pods["node"] == [-1, 2, -1]
    assert pods["strayNode"] == {"2": "gone"}
    assert [pods["workload"]["values"][i] for i in pods["workload"]["rows"]] == [
        "Pod/waits",
        "Deployment/web",
        "Deployment/web",
    ]
