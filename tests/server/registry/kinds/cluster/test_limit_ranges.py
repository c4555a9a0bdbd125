"""LimitRanges: what is not said is filled in, what goes beyond the bounds is refused."""

from __future__ import annotations

import pytest

from tests.support.api.client import Client, Json
from tests.support.api.objects import pod

CONTAINER = {
    "type": "Container",
    "min": {"cpu": "100m"},
    "max": {"cpu": "1", "memory": "1Gi"},
    "default": {"cpu": "0.5"},
    "maxLimitRequestRatio": {"cpu": "4"},
}
LIMITS: list[Json] = [
    CONTAINER,
    {"type": "Pod", "max": {"cpu": "2"}},
    {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "5Gi"}},
]


def bounds(*limits: Json) -> Json:
    return {"metadata": {"name": "bounds"}, "spec": {"limits": list(limits)}}


def asking(name: str, *resources: Json) -> Json:
    containers = [{"name": f"c{i}", "image": "x", "resources": each} for i, each in enumerate(resources)]
    return pod(name, containers=containers)


@pytest.fixture
def bounded(client: Client, space: str) -> str:
    """The path of a namespace with bounds."""
    client.made(f"{space}/limitranges", bounds(*LIMITS))
    return space


def test_what_is_left_open_follows(client: Client, bounded: str) -> None:
    """A limit is the maximum, a request the limit or else the minimum; amounts are spelled as usual."""
    item = client.get(f"{bounded}/limitranges/bounds").json["spec"]["limits"][0]
    assert item["default"] == {"cpu": "500m", "memory": "1Gi"}
    assert item["defaultRequest"] == {"cpu": "500m", "memory": "1Gi"}


def test_containers_get_the_defaults(client: Client, bounded: str) -> None:
    """Only what a container leaves open, and the pod is told so; its quality of service follows."""
    made = client.made(f"{bounded}/pods", asking("a", {"requests": {"cpu": "150m"}}))
    assert made["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "500m", "memory": "1Gi"},
        "requests": {"cpu": "150m", "memory": "1Gi"},
    }
    assert made["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": (
            "LimitRanger plugin set: memory request for container c0; cpu, memory limit for container c0"
        )
    }
    assert made["status"]["qosClass"] == "Burstable"


@pytest.mark.parametrize(
    ("resources", "problem"),
    [
        ([{"limits": {"cpu": "2"}}], "maximum cpu usage per Container is 1, but limit is 2"),
        ([{"limits": {"cpu": "50m"}}], "minimum cpu usage per Container is 100m, but request is 50m"),
        (
            [{"requests": {"cpu": "100m"}}],
            "cpu max limit to request ratio per Container is 4, but provided ratio is 5.000000",
        ),
        ([{"limits": {"cpu": "1"}}] * 3, "maximum cpu usage per Pod is 2, but limit is 3"),
    ],
)
def test_pods_beyond_the_bounds_are_refused(
    client: Client, bounded: str, resources: list[Json], problem: str
) -> None:
    """403, with the bound and what was asked for; several problems are told together."""
    answer = client.post(f"{bounded}/pods", asking("a", *resources))
    assert answer.status == 403
    assert answer.message.startswith('pods "a" is forbidden: ')
    assert problem in answer.message


def test_claims_are_bounded_too(client: Client, bounded: str) -> None:
    """Claims are bounded when they are made and when they grow."""

    def claim(size: str) -> Json:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
        return {"metadata": {"name": "c"}, "spec": spec}

    for size, bound in (
        ("500Mi", "minimum storage usage per PersistentVolumeClaim is 1Gi"),
        ("6Gi", "maximum"),
    ):
        answer = client.post(f"{bounded}/persistentvolumeclaims", claim(size))
        assert (answer.status, f"but request is {size}" in answer.message) == (403, True)
        assert bound in answer.message
    client.made(f"{bounded}/persistentvolumeclaims", claim("2Gi"))


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        ({"type": "Foo"}, "must be a standard limit type or fully qualified"),
        (
            {"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}},
            "min value 2 is greater than max value 1",
        ),
        ({"type": "Pod", "default": {"cpu": "1"}}, "may not be specified when `type` is 'Pod'"),
        ({"type": "PersistentVolumeClaim"}, "either minimum or maximum storage value is required"),
        ({"type": "Pod", "maxLimitRequestRatio": {"cpu": "500m"}}, "ratio 500m is less than 1"),
        (
            {"type": "Pod", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "3"}},
            "ratio 3 is greater than max/min = 2.000000",
        ),
        ({"type": "Pod", "max": {"foo": "1"}}, "must be a standard resource for containers"),
        (
            {
                "type": "Container",
                "default": {"example.com/x": "2"},
                "defaultRequest": {"example.com/x": "1"},
            },
            "must equal",
        ),
    ],
)
def test_bounds_that_make_no_sense_are_refused(client: Client, space: str, item: Json, problem: str) -> None:
    """A LimitRange that nobody could meet, or that means nothing, is a 422."""
    answer = client.post(f"{space}/limitranges", bounds(item))
    assert (answer.status, problem in answer.message) == (422, True), answer.message
