"""ResourceQuotas: nothing goes beyond one, and what is used is always known."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.api.client import MERGE, Client, Json
from tests.support.api.objects import config_map, pod
from tests.support.api.servers import running_server
from tests.support.paths import ROOT

# What v1.37.0-rc.1's kube-apiserver and kube-controller-manager answered; no message where chance has a say.
RECORDED: dict[str, list[Json]] = json.loads((ROOT / "tests/data/quota.json").read_text())
WIDGETS = {
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
        ],
    },
}


def quota(name: str = "q", **hard: str) -> Json:
    named = {resource.replace("__", "/"): amount for resource, amount in hard.items()}
    return {"metadata": {"name": name}, "spec": {"hard": named}}


def used(client: Client, space: str, name: str = "q") -> Json:
    answer: Json = client.get(f"{space}/resourcequotas/{name}").json["status"]["used"]
    return answer


def path_of(space: str, path: str) -> str:
    if path.endswith("!"):  # not in a namespace
        return path[:-1]
    if path.startswith("/apis/"):
        group, _, plural = path.rpartition("/")
        return f"{group}/namespaces/{space.rpartition('/')[2]}/{plural}"
    return f"{space}/{path}"


@pytest.mark.parametrize("name", RECORDED)
def test_answers_are_those_of_kubernetes(client: Client, space: str, name: str) -> None:
    """Codes, messages and what is used after every step, as a real API server and its controller have it."""
    expected: Json = {}
    for step in RECORDED[name]:
        query: dict[str, Any] = {"dryRun": "All"} if step.get("dryRun") else {}
        form = MERGE if step["method"] == "PATCH" else "application/json"
        where = path_of(space, step["path"])
        answer = client.send(step["method"], where, step.get("body"), content_type=form, **query)
        expected = step.get("used", expected)
        assert answer.status == step["code"], (step, answer.body)
        if step.get("message"):
            assert answer.message == step["message"]
        items = client.get(f"{space}/resourcequotas").json["items"]
        assert {each["metadata"]["name"]: each["status"].get("used") for each in items} == expected, step


def test_concurrent_creates_never_exceed_it(client: Client, space: str) -> None:
    """Of many requests at once as many succeed as there is room for, and no more."""
    client.made(f"{space}/resourcequotas", quota(pods="7", count__configmaps="3"))
    codes: list[int] = []

    def create(worker: int) -> None:
        own = Client(client.prepared)
        for number in range(5):
            codes.append(own.post(f"{space}/pods", pod(f"p-{worker}-{number}")).status)
            # Large enough to be judged in a thread of its own.
            big = config_map(f"c-{worker}-{number}", text="x" * 200_000)
            own.post(f"{space}/configmaps", big)
        own.close()

    threads = [threading.Thread(target=create, args=(worker,)) for worker in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [201] * 7 + [403] * 23
    assert len(client.get(f"{space}/configmaps").json["items"]) == 3
    assert used(client, space) == {"count/configmaps": "3", "pods": "7"}


def test_what_has_ended_is_given_back(client: Client, space: str) -> None:
    """A finished pod is an object still, but it uses nothing any more."""
    client.made(f"{space}/resourcequotas", quota(pods="1", count__pods="2", cpu="1"))
    containers = [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]
    client.made(f"{space}/pods", pod("a", containers=containers))
    client.send("PATCH", f"{space}/pods/a/status", {"status": {"phase": "Succeeded"}}, content_type=MERGE)
    assert used(client, space) == {"count/pods": "1", "cpu": "0", "pods": "0"}
    client.made(f"{space}/pods", pod("b", containers=containers))
    assert used(client, space) == {"count/pods": "2", "cpu": "1", "pods": "1"}


def test_deleting_gives_back_in_bulk(client: Client, space: str) -> None:
    """What a collection held is free once it is deleted."""
    client.made(f"{space}/resourcequotas", quota(pods="3"))
    for number in range(3):
        client.made(f"{space}/pods", pod(f"p-{number}"))
    client.send("DELETE", f"{space}/pods")
    assert used(client, space) == {"pods": "0"}


def test_what_is_held_up_is_given_back_once(client: Client, space: str) -> None:
    """A pod that a finalizer holds beyond its time is not charged, and does not give back twice."""
    client.made(f"{space}/resourcequotas", quota(pods="2", count__pods="2"))
    for name in ("a", "b"):
        made = pod(name)
        made["metadata"]["finalizers"] = ["example.com/wait"]
        client.made(f"{space}/pods", made)
    client.send("DELETE", f"{space}/pods/a")
    client.patch(f"{space}/pods/a", {"metadata": {"finalizers": None}})
    assert used(client, space) == {"count/pods": "1", "pods": "1"}


def test_whoever_writes_the_status_is_corrected(client: Client, space: str) -> None:
    """What is used is what is there, whatever somebody writes."""
    client.made(f"{space}/pods", pod("a"))
    client.made(f"{space}/resourcequotas", quota(pods="2"))
    status = {"status": {"used": {"pods": "0"}}}
    answer = client.send("PATCH", f"{space}/resourcequotas/q/status", status, content_type=MERGE)
    assert answer.status == 200
    assert used(client, space) == {"pods": "1"}


def test_custom_resources_count(client: Client, space: str) -> None:
    """Custom resources count, also when their definition comes after the quota."""
    limits = {"count/widgets.example.com": "1"}
    client.made(f"{space}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": limits}})
    assert used(client, space) == {}
    client.made("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", WIDGETS)
    where = f"/apis/example.com/v1/namespaces/{space.rpartition('/')[2]}/widgets"
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}
    client.made(where, body)
    refused = client.post(where, {**body, "metadata": {"name": "b"}})
    assert refused.status == 403
    assert refused.message == (
        'widgets.example.com "b" is forbidden: exceeded quota: q, requested: count/widgets.example.com=1, '
        "used: count/widgets.example.com=1, limited: count/widgets.example.com=1"
    )


def test_what_is_used_survives(tmp_path: Path) -> None:
    """A server that starts again knows what is used, and counts once more."""
    space = "/api/v1/namespaces/default"
    with running_server(tmp_path) as client:
        client.made(f"{space}/resourcequotas", quota(pods="2"))
        client.made(f"{space}/pods", pod("a"))
    with running_server(tmp_path) as client:
        assert used(client, space) == {"pods": "1"}
        client.made(f"{space}/pods", pod("b"))
        assert client.post(f"{space}/pods", pod("c")).status == 403
