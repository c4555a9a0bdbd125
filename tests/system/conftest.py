"""What the scenarios run on: the embedded API server, or with `make test-cluster` a real one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.api.servers import REAL, Backend, running_backend
from tests.support.processes.process import BerthProcess
from tests.support.processes.scheduler import NAME, scheduler
from tests.support.worlds.cluster import ClusterWorld

_numbers = itertools.count()


@pytest.fixture(scope="session")
def backend() -> Iterator[Backend]:
    with running_backend(real=REAL) as started:
        yield started


@pytest.fixture
def own_names() -> tuple[str, str]:
    """A namespace and a scheduler's name of the test's own."""
    number = next(_numbers)
    return f"test-{number}", f"berth-{number}"


@pytest.fixture
def world(backend: Backend, own_names: tuple[str, str]) -> Iterator[ClusterWorld]:
    """An empty cluster with names of the test's own."""
    made = ClusterWorld(backend, *own_names)
    yield made
    made.clear()


class _Shared:
    """One scheduler for all scenarios that ask for nothing special, replaced should it ever end."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self._kubeconfig, self._folder = kubeconfig, folder
        self._opened = scheduler(kubeconfig, folder)
        self.process = self._opened.__enter__()

    def fresh(self) -> BerthProcess:
        if not self.process.alive:
            self._opened.__exit__(None, None, None)
            self._opened = scheduler(self._kubeconfig, self._folder)
            self.process = self._opened.__enter__()
        return self.process

    def close(self) -> None:
        self._opened.__exit__(None, None, None)


@pytest.fixture(scope="session")
def shared_scheduler(backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Shared]:
    shared = _Shared(backend.kubeconfig, tmp_path_factory.mktemp("scheduler"))
    yield shared
    shared.close()


@pytest.fixture
def scheduled(world: ClusterWorld, shared_scheduler: _Shared) -> Iterator[ClusterWorld]:
    """The same with `berth scheduler` at work; it must outlive the test."""
    process = shared_scheduler.fresh()
    world.scheduler_name = NAME
    yield world
    assert process.alive, process.log[-3000:]
