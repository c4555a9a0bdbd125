"""Deleting: grace, finalizers, propagation, namespaces, collections."""

from __future__ import annotations

import pytest

from tests.support.api.client import Client
from tests.support.api.objects import config_map, namespace, pod


def test_at_once(client: Client, space: str) -> None:
    """Deleting an object answers with its details, and it is gone."""
    made = client.made(f"{space}/configmaps", config_map("a"))
    answer = client.delete(f"{space}/configmaps/a")
    assert answer.json["status"] == "Success"
    assert answer.json["details"] == {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}
    assert client.get(f"{space}/configmaps/a").status == 404


def test_grace(client: Client, space: str) -> None:
    """A pod on a node gets its grace period; a shorter one may follow; zero ends it."""
    path = f"{space}/pods/a"
    client.made(f"{space}/pods", pod("a", nodeName="n"))
    first = client.delete(path).json["metadata"]
    assert (first["deletionGracePeriodSeconds"], "deletionTimestamp" in first) == (30, True)
    again = client.delete(path).json["metadata"]
    assert again["deletionTimestamp"] == first["deletionTimestamp"]
    shorter = client.delete(path, {"gracePeriodSeconds": 5}).json["metadata"]
    assert shorter["deletionGracePeriodSeconds"] == 5
    assert shorter["deletionTimestamp"] < first["deletionTimestamp"]
    assert client.get(path).status == 200
    assert client.delete(path, {"gracePeriodSeconds": 0}).status == 200
    assert client.get(path).status == 404


def test_pending_pod_goes_at_once(client: Client, space: str) -> None:
    """A pod without a node is deleted without grace."""
    client.made(f"{space}/pods", pod("a"))
    assert client.delete(f"{space}/pods/a").json["kind"] == "Pod"
    assert client.get(f"{space}/pods/a").status == 404


def test_finalizers(client: Client, space: str) -> None:
    """An object with finalizers waits for the last one; no new ones may come."""
    path = f"{space}/configmaps/a"
    body = config_map("a")
    body["metadata"]["finalizers"] = ["example.com/one", "example.com/two"]
    client.made(f"{space}/configmaps", body)
    assert "deletionTimestamp" in client.delete(path).json["metadata"]
    added = ["example.com/one", "example.com/two", "example.com/three"]
    answer = client.patch(path, {"metadata": {"finalizers": added}})
    assert (answer.status, "no new finalizers can be added" in answer.message) == (422, True)
    assert client.patch(path, {"metadata": {"finalizers": ["example.com/two"]}}).status == 200
    with client.watching(path) as watch:
        assert watch.names(1) == [("ADDED", "a")]
        assert client.patch(path, {"metadata": {"finalizers": None}}).status == 200
        assert watch.names(1) == [("DELETED", "a")]
    assert client.get(path).status == 404


@pytest.mark.parametrize(
    ("options", "finalizers"),
    [
        ({"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
        ({"propagationPolicy": "Orphan"}, ["orphan"]),
        ({"orphanDependents": True}, ["orphan"]),
        ({"propagationPolicy": "Background"}, None),
        ({}, None),
    ],
)
def test_propagation(
    client: Client, space: str, options: dict[str, object], finalizers: list[str] | None
) -> None:
    """Foreground and Orphan leave the object for the garbage collector to finish."""
    path = f"{space}/configmaps/a"
    client.made(f"{space}/configmaps", config_map("a"))
    client.delete(path, options)
    left = client.get(path)
    assert (left.json["metadata"]["finalizers"] if left.status == 200 else None) == finalizers


def test_preconditions(client: Client, space: str) -> None:
    """A deletion with another UID or version is a conflict."""
    path = f"{space}/configmaps/a"
    made = client.made(f"{space}/configmaps", config_map("a"))["metadata"]
    wrong = client.delete(path, {"preconditions": {"uid": "other"}})
    assert (wrong.status, wrong.json["reason"]) == (409, "Conflict")
    assert client.delete(path, {"preconditions": {"resourceVersion": "1"}}).status == 409
    right = {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}
    assert client.delete(path, {"preconditions": right}).status == 200


def test_collection(client: Client, space: str) -> None:
    """Deleting a collection deletes what its selector matches, and answers with it."""
    for name in "abc":
        body = config_map(name)
        body["metadata"]["labels"] = {"which": name}
        client.made(f"{space}/configmaps", body)
    answer = client.delete(f"{space}/configmaps", labelSelector="which in (a,c)")
    assert [item["metadata"]["name"] for item in answer.json["items"]] == ["a", "c"]
    left = client.get(f"{space}/configmaps").json["items"]
    assert [item["metadata"]["name"] for item in left] == ["b"]


def test_namespace(client: Client) -> None:
    """A namespace terminates, takes nothing new, and goes when it is finalized."""
    client.made("/api/v1/namespaces", namespace("doomed"))
    path = "/api/v1/namespaces/doomed"
    client.made(f"{path}/configmaps", config_map("a"))
    gone = client.delete(path)
    assert gone.json["status"]["phase"] == "Terminating"
    refused = client.post(f"{path}/configmaps", config_map("b"))
    assert (refused.status, refused.json["reason"]) == (403, "Forbidden")
    assert refused.json["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    assert client.delete(path).status == 409
    current = client.get(path).json
    current["spec"]["finalizers"] = []
    assert client.put(f"{path}/finalize", current).status == 200
    assert client.get(path).status == 404


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_immortal_namespaces(client: Client, name: str) -> None:
    """The namespaces every cluster has cannot be deleted."""
    answer = client.delete(f"/api/v1/namespaces/{name}")
    assert (answer.status, "this namespace may not be deleted" in answer.message) == (403, True)
