"""What the scenarios run on: the embedded API server, or with `make test-cluster` a real one."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.system.scheduler.backends import Backend, running
from tests.system.scheduler.process import NAME, SchedulerProcess, Start, scheduler
from tests.system.scheduler.world import World

REAL = os.environ.get("BERTH_TEST_BACKEND") == "kube-apiserver"
_numbers = itertools.count()


@pytest.fixture(scope="session")
def backend() -> Iterator[Backend]:
    with running(real=REAL) as started:
        yield started


@pytest.fixture
def world(backend: Backend) -> Iterator[World]:
    """An empty cluster, and a namespace and a scheduler's name of the test's own."""
    number = next(_numbers)
    made = World(backend, f"test-{number}", f"berth-{number}")
    yield made
    made.clear()


@pytest.fixture
def start(world: World, tmp_path: Path) -> Start:
    """Start a scheduler for the test's pods, with flags."""

    def starting(
        *flags: str, kubeconfig: Path | None = None, leader_elect: bool = False
    ) -> AbstractContextManager[SchedulerProcess]:
        chosen = kubeconfig or world.backend.kubeconfig
        return scheduler(chosen, tmp_path, *flags, name=world.scheduler_name, leader_elect=leader_elect)

    return starting


class _Shared:
    """One scheduler for all scenarios that ask for nothing special, replaced should it ever end."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self._kubeconfig, self._folder = kubeconfig, folder
        self._opened = scheduler(kubeconfig, folder)
        self.process = self._opened.__enter__()

    def fresh(self) -> SchedulerProcess:
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
def scheduled(world: World, shared_scheduler: _Shared) -> Iterator[World]:
    """The same with `berth scheduler` at work; it must outlive the test."""
    process = shared_scheduler.fresh()
    world.scheduler_name = NAME
    yield world
    assert process.alive, process.log[-3000:]
