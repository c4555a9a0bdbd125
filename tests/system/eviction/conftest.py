"""What the scenarios for other people's clusters run on: an API server, the scheduler, the controllers."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.support.processes.controllers import StartControllers, controllers
from tests.support.processes.process import BerthProcess
from tests.support.worlds.cluster import ClusterWorld
from tests.system.scheduler.conftest import backend, scheduled, shared_scheduler, world

__all__ = ["backend", "scheduled", "shared_scheduler", "world"]


@pytest.fixture
def start_controllers(world: ClusterWorld, tmp_path: Path) -> StartControllers:
    """Start the controllers, with flags."""

    def starting(
        *flags: str, kubeconfig: Path | None = None, leader_elect: bool = False
    ) -> AbstractContextManager[BerthProcess]:
        chosen = kubeconfig or world.backend.kubeconfig
        return controllers(chosen, tmp_path, *flags, leader_elect=leader_elect)

    return starting
