"""What the scenarios run on: an API server with Karmada's kinds, and `berth fleet` beside it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.support.api.servers import Backend, running_backend
from tests.support.processes.fleet import StartFleet, fleet
from tests.support.processes.process import BerthProcess
from tests.support.processes.scheduler import NAME
from tests.support.worlds.fleet import FleetWorld
from tests.system.fleet.definitions import prepare
from tests.system.scheduler.conftest import REAL

_numbers = itertools.count()


@pytest.fixture(scope="session")
def backend() -> Iterator[Backend]:
    with running_backend(real=REAL) as started:
        prepare(started)
        yield started


@pytest.fixture
def world(backend: Backend) -> Iterator[FleetWorld]:
    """A namespace, clusters and a scheduler's name of the test's own."""
    number = next(_numbers)
    made = FleetWorld(backend, f"test-{number}", f"berth-{number}")
    yield made
    made.clear()


@pytest.fixture
def start(world: FleetWorld, tmp_path: Path) -> StartFleet:
    """Start a scheduler with flags, for the test's own bindings unless another name is given."""

    def starting(
        *flags: str, kubeconfig: Path | None = None, name: str = "", leader_elect: bool = False
    ) -> AbstractContextManager[BerthProcess]:
        chosen = kubeconfig or world.backend.kubeconfig
        return fleet(chosen, tmp_path, *flags, name=name or world.scheduler_name, leader_elect=leader_elect)

    return starting


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
