"""What goes with what: Jobs and their pods, owners in circles, namespaces and all that is in them.

Every outcome is what kube-controller-manager v1.37 comes to on the same requests.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.api.client import Json
from tests.support.api.objects import config_map, pod
from tests.support.api.servers import REAL
from tests.support.waiting import wait_for
from tests.system.controllers.plane import Plane, items

TRACKING = "batch.kubernetes.io/job-tracking"
HOLD = "example.com/hold"


def running_job(plane: Plane, **spec: Any) -> str:
    """The path of a Job whose two pods have begun."""
    template = {
        "metadata": {"annotations": {"berth.dev/run-for": "1h"}, "labels": {"app": "long"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}], **spec},
    }
    job = {"metadata": {"name": "long"}, "spec": {"parallelism": 2, "completions": 2, "template": template}}
    path = f"{plane.under('batch/v1')}/jobs"
    plane.client.made(path, job)
    wait_for(lambda: len(items(plane, "pods")) == 2, "two pods")
    if not spec:
        wait_for(
            lambda: all(one["status"].get("phase") == "Running" for one in items(plane, "pods")), "running"
        )
    assert all(one["metadata"]["finalizers"] == [TRACKING] for one in items(plane, "pods"))
    return f"{path}/long"


def gone(plane: Plane, path: str) -> bool:
    return plane.client.get(path).status == 404


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
def test_a_running_job_takes_its_pods_along(plane: Plane, policy: str) -> None:
    """Nothing holds its pods once it goes; in the foreground it stays until they are gone."""
    path = running_job(plane)
    answer = plane.client.delete(path, propagationPolicy=policy)
    assert answer.status == 200
    if policy == "Foreground":
        assert answer.json["metadata"]["finalizers"] == ["foregroundDeletion"]
    wait_for(lambda: not items(plane, "pods"), "no pod")
    wait_for(lambda: gone(plane, path), "no job")


@pytest.mark.parametrize("query", [{"propagationPolicy": "Orphan"}, {}], ids=["asked for", "by default"])
def test_the_pods_of_a_job_may_stay(plane: Plane, query: dict[str, str]) -> None:
    """They run on without an owner and without the finalizer; batch/v1 does so unless told otherwise."""
    path = running_job(plane)
    answer = plane.client.delete(path, **query)
    assert bool(answer.headers.get("Warning")) is not bool(query)
    wait_for(lambda: gone(plane, path), "no job")
    wait_for(
        lambda: not any(one["metadata"].get("finalizers") for one in items(plane, "pods")), "no finalizer"
    )
    left = items(plane, "pods")
    assert len(left) == 2
    assert not any(one["metadata"].get("ownerReferences") for one in left)
    assert not any(one["metadata"].get("deletionTimestamp") for one in left)


def test_a_job_whose_pods_never_began_goes_all_the_same(plane: Plane) -> None:
    """Pods without a node are not held by the finalizer either."""
    path = running_job(plane, nodeSelector={"no": "where"})
    plane.client.delete(path, propagationPolicy="Background")
    wait_for(lambda: not items(plane, "pods") and gone(plane, path), "neither job nor pods")


def owned(plane: Plane, name: str, *owners: Json) -> None:
    references = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
        for owner in owners
    ]
    change = {"metadata": {"ownerReferences": references}}
    assert plane.client.patch(f"{plane.space}/configmaps/{name}", change).status == 200


def names(plane: Plane) -> set[str]:
    found = {one["metadata"]["name"] for one in items(plane, "configmaps")}
    return found - {"kube-root-ca.crt"}


@pytest.mark.parametrize(
    ("policy", "left"), [("Foreground", set()), ("Background", set()), ("Orphan", {"b", "c"})]
)
@pytest.mark.parametrize("circle", ["abc", "a"], ids=["three", "itself"])
def test_owners_in_a_circle(plane: Plane, circle: str, policy: str, left: set[str]) -> None:
    """Who owns himself, through others or not, goes with all of them, unless they are to stay."""
    if REAL and (circle, policy) == ("a", "Foreground"):
        pytest.skip("kube-controller-manager lets it wait for itself for ever")
    made = {name: plane.client.made(f"{plane.space}/configmaps", config_map(name)) for name in circle}
    for before, name in zip(circle[-1] + circle, circle, strict=False):
        owned(plane, name, made[before])
    assert plane.client.delete(f"{plane.space}/configmaps/a", propagationPolicy=policy).status == 200
    wait_for(lambda: names(plane) == left & made.keys(), f"only {left & made.keys()}")
    for name in left & made.keys():
        metadata = plane.client.get(f"{plane.space}/configmaps/{name}").json["metadata"]
        owners = [owner["name"] for owner in metadata.get("ownerReferences", ())]
        assert "a" not in owners


def test_whoever_has_another_owner_stays(plane: Plane) -> None:
    """One of two owners goes, in the foreground: its dependent is left to the other."""
    one, two = (plane.client.made(f"{plane.space}/configmaps", config_map(name)) for name in ("one", "two"))
    plane.client.made(f"{plane.space}/configmaps", config_map("child"))
    owned(plane, "child", one, two)
    plane.client.delete(f"{plane.space}/configmaps/one", propagationPolicy="Foreground")
    wait_for(lambda: names(plane) == {"two", "child"}, "the owner is gone")
    metadata = plane.client.get(f"{plane.space}/configmaps/child").json["metadata"]
    assert [owner["name"] for owner in metadata["ownerReferences"]] == ["two"]


def test_whose_owner_never_was_goes(plane: Plane) -> None:
    """An owner of another uid is no owner."""
    other = plane.client.made(f"{plane.space}/configmaps", config_map("other"))
    plane.client.made(f"{plane.space}/configmaps", config_map("child"))
    other["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"
    owned(plane, "child", other)
    wait_for(lambda: names(plane) == {"other"}, "the child is gone")


REMAINING, FINALIZERS = "NamespaceContentRemaining", "NamespaceFinalizersRemaining"


def conditions(plane: Plane) -> dict[str, tuple[str, str, str]]:
    found = plane.client.get(plane.space).json["status"].get("conditions", ())
    return {one["type"]: (one["status"], one["reason"], one["message"]) for one in found}


def waits_for(plane: Plane, plural: str) -> bool:
    """Whether the namespace says that one held object of this resource is all that it waits for."""
    found = conditions(plane)
    return found.get(REMAINING) == (
        "True",
        "SomeResourcesRemain",
        f"Some resources are remaining: {plural}. has 1 resource instances",
    ) and found.get(FINALIZERS) == (
        "True",
        "SomeFinalizersRemain",
        f"Some content in the namespace has finalizers remaining: {HOLD} in 1 resource instances",
    )


def test_a_namespace_takes_its_pods_first(plane: Plane) -> None:
    """While a pod is held everything else stays; kube-controller-manager does not say for whom it waits."""
    client = plane.client
    body = pod("held")
    body["metadata"]["finalizers"] = [HOLD]
    client.made(f"{plane.space}/pods", body)
    client.made(f"{plane.space}/pods", pod("free"))
    client.made(f"{plane.space}/configmaps", config_map("kept"))
    assert client.delete(plane.space).status == 200
    wait_for(lambda: [one["metadata"]["name"] for one in items(plane, "pods")] == ["held"], "the others go")
    wait_for(lambda: bool(conditions(plane)), "there are conditions")
    if not REAL:
        wait_for(lambda: waits_for(plane, "pods"), "it says that it waits for the pod")
    assert names(plane) == {"kept"}
    client.patch(f"{plane.space}/pods/held", {"metadata": {"finalizers": None}})
    wait_for(lambda: gone(plane, plane.space), "the namespace is gone")


def test_a_namespace_says_what_it_waits_for(plane: Plane) -> None:
    """The conditions name what is left and who holds it, and nothing new is made there."""
    client = plane.client
    body = config_map("held")
    body["metadata"]["finalizers"] = [HOLD]
    client.made(f"{plane.space}/configmaps", body)
    client.made(f"{plane.space}/configmaps", config_map("free"))
    assert client.delete(plane.space).status == 200
    wait_for(lambda: waits_for(plane, "configmaps"), "it says that it waits for the one")
    assert conditions(plane)["NamespaceDeletionContentFailure"][:2] == ("False", "ContentDeleted")
    assert names(plane) == {"held"}
    answer = client.post(f"{plane.space}/configmaps", config_map("late"))
    assert answer.status == 403
    assert "because it is being terminated" in answer.message
    client.patch(f"{plane.space}/configmaps/held", {"metadata": {"finalizers": None}})
    wait_for(lambda: gone(plane, plane.space), "the namespace is gone")


def test_a_namespace_goes_with_jobs_and_circles(plane: Plane) -> None:
    """Neither tracked pods nor owners in a circle keep a namespace."""
    running_job(plane)
    made = {name: plane.client.made(f"{plane.space}/configmaps", config_map(name)) for name in "ab"}
    for name, owner in ("ab", "ba"):
        owned(plane, name, made[owner])
    assert plane.client.delete(plane.space).status == 200
    wait_for(lambda: gone(plane, plane.space), "the namespace is gone")
