"""RuntimeClasses: a pod gets the overhead of its class, and can run where the class can."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.api.client import Client, Json
from tests.support.api.objects import pod

CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
KATA: Json = {
    "metadata": {"name": "kata"},
    "handler": "kata",
    "overhead": {"podFixed": {"cpu": "0.25", "memory": "120Mi"}},
    "scheduling": {
        "nodeSelector": {"kata": "true"},
        "tolerations": [{"key": "kata", "operator": "Exists"}],
    },
}


@pytest.fixture
def kata(client: Client) -> Iterator[None]:
    client.made(CLASSES, KATA)
    yield
    client.delete(f"{CLASSES}/kata")


@pytest.mark.usefixtures("kata")
def test_a_pod_gets_what_its_class_says(client: Client, space: str) -> None:
    """Overhead, node selector and tolerations are merged; what the class tolerates anyway is told once."""
    narrow = {"key": "kata", "operator": "Equal", "value": "x", "effect": "NoSchedule"}
    given = pod("a", runtimeClassName="kata", nodeSelector={"zone": "a"}, tolerations=[narrow])
    spec = client.made(f"{space}/pods", given)["spec"]
    assert spec["overhead"] == {"cpu": "250m", "memory": "120Mi"}
    assert spec["nodeSelector"] == {"zone": "a", "kata": "true"}
    assert [item["key"] for item in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "kata",
    ]


@pytest.mark.usefixtures("kata")
@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"runtimeClassName": "nope"}, 'pod rejected: RuntimeClass "nope" not found'),
        (
            {"runtimeClassName": "kata", "nodeSelector": {"kata": "false"}},
            (
                "conflict: runtimeClass.scheduling.nodeSelector[kata] = true; "
                "pod.spec.nodeSelector[kata] = false"
            ),
        ),
        (
            {"runtimeClassName": "kata", "overhead": {"cpu": "1"}},
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            {"overhead": {"cpu": "1"}},
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
    ],
)
def test_a_pod_cannot_contradict_its_class(client: Client, space: str, spec: Json, why: str) -> None:
    """A pod that contradicts its class is a 403 with upstream's words."""
    answer = client.post(f"{space}/pods", pod("a", **spec))
    assert (answer.status, answer.message) == (403, f'pods "a" is forbidden: {why}')


def test_a_class_has_a_handler_and_keeps_it(client: Client) -> None:
    """Without one, or with one that is no label, it is refused; later it cannot change."""
    assert client.post(CLASSES, {"metadata": {"name": "x"}}).status == 422
    assert client.post(CLASSES, {"metadata": {"name": "x"}, "handler": "a/b"}).status == 422
    made = client.made(CLASSES, {"metadata": {"name": "x"}, "handler": "a"})
    answer = client.put(f"{CLASSES}/x", {**made, "handler": "b"})
    assert (answer.status, "field is immutable" in answer.message) == (422, True)
