"""One embedded API server a test module, and a namespace of its own for each test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.support.api.client import Client
from tests.support.api.objects import namespace
from tests.support.api.servers import running_server

_namespaces = itertools.count()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with running_server(tmp_path_factory.mktemp("data")) as started:
        yield started


@pytest.fixture
def space(client: Client) -> str:
    """The path of a new namespace, such as ``/api/v1/namespaces/test-7``."""
    name = f"test-{next(_namespaces)}"
    client.made("/api/v1/namespaces", namespace(name))
    return f"/api/v1/namespaces/{name}"
