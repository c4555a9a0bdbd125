import pytest

from berth.engine.state.requests import (
    DEFAULT_MEMORY,
    DEFAULT_MILLI_CPU,
    is_scalar,
    pod_requests,
    units_of,
)
from berth.kube.objects import (
    Condition,
    Container,
    ContainerStatus,
    PodSpec,
    PodStatus,
    ResourceList,
    ResourceRequirements,
)

MI = 1 << 20


def container(name: str = "c", *, sidecar: bool = False, **requests: str) -> Container:
    return Container(
        name=name,
        resources=ResourceRequirements(requests=dict[str, str | int | float](requests)),
        restart_policy="Always" if sidecar else None,
    )


def test_every_request_is_rounded_up_to_thousandths() -> None:
    """Two requests of half a millicore are two; thousandths of a byte add up before they are rounded."""
    spec = PodSpec(containers=[container(cpu="500u", memory="500m"), container(cpu="500u", memory="500m")])

    assert pod_requests(spec).plain == {"cpu": 2, "memory": 1}


def test_init_containers_raise_the_request() -> None:
    """The highest init container counts if it wants more than all containers together."""
    spec = PodSpec(containers=[container(cpu="1"), container(cpu="1")], init_containers=[container(cpu="3")])

    assert pod_requests(spec).plain == {"cpu": 3000}


def test_sidecars_run_beside_everything_started_later() -> None:
    """A sidecar adds to the containers, and to every init container after it."""
    init = [container(cpu="2"), container(sidecar=True, cpu="1"), container(cpu="4")]

    assert pod_requests(PodSpec(containers=[container(cpu="1")], init_containers=init)).plain == {"cpu": 5000}


def test_overhead_is_added() -> None:
    """What the sandbox needs comes on top."""
    spec = PodSpec(containers=[container(memory="10Mi")], overhead={"memory": "5Mi"})

    assert pod_requests(spec).plain == {"memory": 15 * MI}


def test_pod_level_requests_replace_those_of_containers() -> None:
    """They are what must fit, but are left out of an incoming pod's load score, as in v1.36."""
    spec = PodSpec(
        containers=[container(cpu="1")],
        resources=ResourceRequirements(requests={"cpu": "3", "memory": "64Mi"}),
    )
    requests = pod_requests(spec)

    assert requests.plain == {"cpu": 3000, "memory": 64 * MI}
    assert requests.nonzero == (3000, 64 * MI)
    assert requests.scored == (1000, DEFAULT_MEMORY)


def test_an_empty_request_still_weighs() -> None:
    """A container that asks for nothing counts a little when load is compared."""
    assert pod_requests(PodSpec(containers=[container()])).nonzero == (DEFAULT_MILLI_CPU, DEFAULT_MEMORY)


@pytest.mark.parametrize(("reason", "cpu"), [(None, 3000), ("Infeasible", 2000)])
def test_a_resize_in_flight_holds_the_most(reason: str | None, cpu: int) -> None:
    """Until a resize is through the larger amount is taken; an infeasible wish does not count."""
    status = PodStatus(
        conditions=[Condition(type="PodResizePending", reason=reason)],
        container_statuses=[
            ContainerStatus(
                name="c",
                resources=ResourceRequirements(requests={"cpu": "1"}),
                allocated_resources={"cpu": "2"},
            )
        ],
    )

    assert pod_requests(PodSpec(containers=[container(cpu="3")]), status).plain == {"cpu": cpu}


@pytest.mark.parametrize(
    ("name", "tracked"),
    [("example.com/gpu", True), ("hugepages-2Mi", True), ("attachable-volumes-x", True), ("foo", False)],
)
def test_which_resources_are_tracked(name: str, tracked: bool) -> None:
    """Extended resources, huge pages and volume limits are; unqualified names are not."""
    resources: ResourceList = {name: "2", "cpu": "1500m"}

    assert is_scalar(name) == tracked
    assert units_of(resources) == ({"cpu": 1500} | ({name: 2} if tracked else {}))
