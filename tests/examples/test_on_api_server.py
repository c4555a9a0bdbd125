"""The examples as `kubectl apply` sends them: the API server of `berth up` takes every object."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from berth.kube.manifests.manifest import load
from tests.examples.shown import FILES
from tests.support.api.client import Client
from tests.support.api.servers import running_server
from tests.support.cli.example_placements import EXAMPLES
from tests.support.scripts.plane import RESOURCES


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with running_server(tmp_path_factory.mktemp("data")) as started:
        yield started


@pytest.mark.parametrize("file", FILES)
def test_the_objects_of_an_example_are_valid(client: Client, file: str) -> None:
    """None is refused, and no field of it is unknown: only namespaces are really made, the others tried."""
    for manifest in load([EXAMPLES / file]):
        path = RESOURCES[manifest.kind].path(manifest.namespace or "")
        dry = {} if manifest.kind == "Namespace" else {"dryRun": "All"}
        answer = client.post(path, manifest.to_dict(), fieldValidation="Strict", **dry)
        assert answer.status in (201, 409), f"{manifest}: {answer.body.decode()}"
