"""Requests that would take for ever are given up, and nobody else waits for them."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from berth.server import errors
from berth.server.http import state as workers
from tests.support.api.client import Client

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ENDLESS = "/apis/example.com/v1/namespaces/default/endless"


def definition(patterns: int) -> dict[str, Any]:
    """A custom resource with that many rules for every item of a list."""
    items = {"type": "string", "anyOf": [{"pattern": f"^a{i}$"} for i in range(patterns)]}
    spec = {"type": "object", "properties": {"l": {"type": "array", "items": items}}}
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "endless", "kind": "Endless"}
    return {
        "metadata": {"name": "endless.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


def endless(name: str, items: int, value: str = "b", **more: str) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Endless",
        "metadata": {"name": name},
        "spec": {"l": [value] * items},
        **more,
    }


@pytest.fixture(scope="module", autouse=True)
def defined(client: Client) -> None:
    client.made(CRDS, definition(1000))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_AT_ONCE", 0.01)
    monkeypatch.setattr(workers, "_LARGE", 0.05)
    monkeypatch.setattr(workers, "_PATIENCE", 1.0)


@pytest.mark.usefixtures("impatient")
def test_what_takes_too_long_is_given_up(client: Client) -> None:
    """The answer is kube-apiserver's, several at once get it, and nothing is stored."""
    answers: list[Any] = []

    def attack() -> None:
        own = Client(client.prepared)
        answers.append(own.post(ENDLESS, endless("e", 7_000)).json)
        own.close()

    attackers = [threading.Thread(target=attack) for _ in range(4)]
    for one in attackers:
        one.start()
    while any(one.is_alive() for one in attackers):
        assert client.get("/healthz").status == 200
        attackers[0].join(0.05)
    for one in attackers:
        one.join()

    assert answers == [
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": "Timeout: request did not complete within requested timeout - "
            "context deadline exceeded",
            "reason": "Timeout",
            "details": {},
            "code": 504,
        }
    ] * len(attackers)
    assert client.get(f"{ENDLESS}/e").status == 404
    assert client.post(ENDLESS, endless("quick", 10, "a0")).status == 201


def test_what_takes_long_is_done_elsewhere(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was begun twice in vain is done all the same, and is warned of once."""
    monkeypatch.setattr(workers, "_AT_ONCE", 0.0)
    monkeypatch.setattr(workers, "_LARGE", 0.0)
    answer = client.post(ENDLESS, endless("long", 50, "a99", unknown="field"))

    assert answer.status == 201
    assert answer.headers.get_all("Warning") == ['299 - "unknown field \\"unknown\\""']
    assert client.get(f"{ENDLESS}/long").json["spec"]["l"] == ["a99"] * 50


def test_no_work_keeps_its_client_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for work that never asks the budget, or for a thread that has it, is answered in time."""
    monkeypatch.setattr(workers, "_PATIENCE", 1.0)
    crew, go_on, asked_in_vain = workers.Workers(), threading.Event(), threading.Event()

    def stubborn() -> None:
        go_on.wait(60)

    async def ask() -> list[object]:
        asked = [crew.run(1 << 20, work) for work in (stubborn, stubborn, asked_in_vain.set)]
        return await asyncio.gather(*asked, return_exceptions=True)

    try:
        answers = asyncio.run(ask())
    finally:
        go_on.set()
        crew.close()
    assert [(type(one), getattr(one, "code", 0)) for one in answers] == [(errors.StatusError, 504)] * 3
    assert not asked_in_vain.is_set()
