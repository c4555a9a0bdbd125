"""`berth lint` against a live cluster: its nodes and pods count, and nothing is written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.api.client import Client
from tests.support.api.servers import running_server
from tests.support.cli.command import berth
from tests.support.manifests.lint import apart, budget, deployment, node, term


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Two nodes, a workload that is kept apart, and a budget that lets nobody go."""
    with running_server(tmp_path_factory.mktemp("data")) as client:
        for name in ("n1", "n2"):
            client.made("/api/v1/nodes", node(name))
        client.made("/apis/apps/v1/namespaces/default/deployments", deployment(replicas=3, **apart(term())))
        path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
        client.made(path, budget(maxUnavailable=0))
        yield client


def findings(server: Client, *arguments: str | Path) -> list[dict[str, Any]]:
    outcome = berth("lint", *arguments, "--kubeconfig", server.prepared.kubeconfig, "-o", "json")
    assert outcome.code in (0, 1), outcome.err
    found: list[dict[str, Any]] = json.loads(outcome.out)["findings"]
    return found


def test_files_are_tried_on_a_live_cluster(server: Client, tmp_path: Path) -> None:
    """The files alone are judged, on the nodes that there are; what is there already may be replaced."""
    file = tmp_path / "a.yaml"
    file.write_text(yaml.safe_dump(deployment("db", replicas=3, **apart(term("db")))))
    assert [(f["code"], f["line"]) for f in findings(server, "-f", file)] == [("BERTH105", 20)]
    file.write_text(yaml.safe_dump(deployment(replicas=2, **apart(term()), strategy={"type": "Recreate"})))
    assert findings(server, "-f", file) == []


def test_a_live_cluster_itself(server: Client) -> None:
    """Without files what the cluster has is judged; there are no lines. Nothing is written."""
    before = server.get("/apis/apps/v1/namespaces/default/deployments").json
    found = findings(server)
    assert [(f["code"], f["object"], f["line"]) for f in found] == [
        ("BERTH105", "Deployment default/web", None),
        ("BERTH117", "PodDisruptionBudget default/keep", None),
    ]
    assert server.get("/apis/apps/v1/namespaces/default/deployments").json == before


def test_a_cluster_that_cannot_be_reached(tmp_path: Path) -> None:
    """A cluster that cannot be reached is told in a sentence, with exit code 2."""
    file = tmp_path / "a.yaml"
    file.write_text(yaml.safe_dump(deployment()))
    outcome = berth("lint", "-f", file, "--kubeconfig", tmp_path / "missing")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("error: ")
