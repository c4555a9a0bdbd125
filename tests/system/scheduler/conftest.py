"""What the scenarios run on: the embedded API server, or with `make test-cluster` a real one."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.support.api.servers import Backend, running_backend
from tests.support.processes.process import BerthProcess
from tests.support.processes.scheduler import NAME, StartScheduler, scheduler
from tests.support.worlds.cluster import ClusterWorld

REAL = os.environ.get("BERTH_TEST_BACKEND") == "kube-apiserver"
_numbers = itertools.count()


@pytest.fixture(scope="session")
def backend() -> Iterator[Backend]:
    with running_backend(real=REAL) as started:
        yield started


@pytest.fixture
def world(backend: Backend) -> Iterator[ClusterWorld]:
    """An empty cluster, and a namespace and a scheduler's name of the test's own."""
    number = next(_numbers)
    made = ClusterWorld(backend, f"test-{number}", f"berth-{number}")
    yield made
    made.clear()


@pytest.fixture
def start(world: ClusterWorld, tmp_path: Path) -> StartScheduler:
    """Start a scheduler for the test's pods, with flags."""

    def starting(
        *flags: str, kubeconfig: Path | None = None, leader_elect: bool = False
    ) -> AbstractContextManager[BerthProcess]:
        chosen = kubeconfig or world.backend.kubeconfig
        return scheduler(chosen, tmp_path, *flags, name=world.scheduler_name, leader_elect=leader_elect)

    return starting


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
