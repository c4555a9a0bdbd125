"""What a real kube-apiserver says to many requests, most of them wrong in one way, is said here as well."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from berth.kube.versions import VERSIONS
from tests.server.registry.recorded.recording import FILE, answers
from tests.support.api.servers import running_server

RECORDED: dict[str, Any] = json.loads(FILE.read_text())

# What differs, and why.
DIFFERENT = {
    "HorizontalPodAutoscaler h5": "upstream tells one cause twice, by hand and by its declared rules",
    "HorizontalPodAutoscaler h14": "the same",
    "Pod w7": "upstream has an owner for a list that is null",
    "Pod d3": "an empty list that was sent has an owner here; upstream leaves it out",
    "Pod r20": "upstream leaves empty text out of what it stores, and warns of it",
    "StatefulSet ss11": "upstream warns of a negative limit, which it takes",
    "Service s17": "a Service that was copied from another cluster keeps its address",
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with running_server(tmp_path_factory.mktemp("data"), version=VERSIONS["1.36"]) as client:
        yield dict(answers(client))


@pytest.mark.parametrize("name", RECORDED)
def test_the_same_is_said(said: dict[str, Any], name: str) -> None:
    """Status, reason, message, causes, warnings, and the object with its defaults are the real server's."""
    if name in DIFFERENT:
        assert said[name] != RECORDED[name], "it no longer differs: take it from the list"
    else:
        assert said[name] == RECORDED[name]


def test_all_is_recorded(said: dict[str, Any]) -> None:
    """There is an answer for each request, and a difference is that of one that there is."""
    assert list(said) == list(RECORDED)
    assert DIFFERENT.keys() <= RECORDED.keys()
    assert Path(FILE).stat().st_size < 1_000_000
