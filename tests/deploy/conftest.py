"""An API server that says whether it would take what is deployed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.api.client import Client
from tests.support.api.objects import namespace
from tests.support.api.servers import running_server
from tests.support.manifests.rendered import NAMESPACE


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with running_server(tmp_path_factory.mktemp("data")) as started:
        started.made("/api/v1/namespaces", namespace(NAMESPACE))
        yield started
