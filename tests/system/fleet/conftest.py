"""What the scenarios run on: an API server with Karmada's kinds, and `berth fleet` beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.api.servers import REAL, Backend, running_backend
from tests.support.fleet.definitions import prepare
from tests.support.processes.fleet import StartFleet, fleet
from tests.support.processes.process import BerthProcess, starter
from tests.support.processes.scheduler import NAME
from tests.support.worlds.fleet import FleetWorld


@pytest.fixture(scope="session")
def backend() -> Iterator[Backend]:
    with running_backend(real=REAL) as started:
        prepare(started)
        yield started


@pytest.fixture
def world(backend: Backend, own_names: tuple[str, str]) -> Iterator[FleetWorld]:
    """A namespace, clusters and a scheduler's name of the test's own."""
    made = FleetWorld(backend, *own_names)
    yield made
    made.clear()


@pytest.fixture
def start(world: FleetWorld, tmp_path: Path) -> StartFleet:
    """Start a scheduler with flags, for the test's own bindings unless another name is given."""
    return starter(fleet, world.backend.kubeconfig, tmp_path, name=world.scheduler_name)


@pytest.fixture(scope="session")
def _shared_fleet(backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BerthProcess]:
    with fleet(backend.kubeconfig, tmp_path_factory.mktemp("fleet")) as process:
        yield process


@pytest.fixture
def placed(world: FleetWorld, _shared_fleet: BerthProcess) -> Iterator[FleetWorld]:
    """The same with one `berth fleet` at work for all scenarios; it must outlive the test."""
    world.scheduler_name = NAME
    yield world
    assert _shared_fleet.alive, _shared_fleet.log[-3000:]
