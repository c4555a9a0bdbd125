"""What would help a pod that finds no room."""

from tests.support.builders import make_node, make_pod
from tests.support.snapshots import helps, new


def test_fewer_resources() -> None:
    """The largest request that fits is found, not guessed."""
    nodes = [make_node("n1").capacity(cpu="1500m").build(), make_node("n2").capacity(cpu="1").build()]
    assert helps(*nodes, pod=new("p").requests(cpu="2")) == ["with 500m less cpu (at most 1500m), n1 fits"]


def test_memory_is_spelled_for_people() -> None:
    """Bytes are rounded to whole mebibytes and written with a suffix."""
    node = make_node("n1").capacity(memory="3Gi").build()
    assert helps(node, pod=new("p").requests(memory="4Gi")) == ["with 1Gi less memory (at most 3Gi), n1 fits"]


def test_init_containers_count_in_the_request() -> None:
    """What is too large may be an init container: the total is what has to shrink."""
    node = make_node("n1").capacity(cpu="1").build()
    pod = new("p").requests(cpu="100m").init_container({"cpu": "2"})
    assert helps(node, pod=pod) == ["with 1 less cpu (at most 1), n1 fits"]


def test_room_for_one_more_pod() -> None:
    """The pods limit belongs to the node."""
    running = make_pod("r").on("n1").build()
    assert helps(make_node("n1").capacity(pods="1").build(), running, pod=new("p")) == [
        "with room for one more pod on n1, n1 fits"
    ]
