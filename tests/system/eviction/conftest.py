"""What the scenarios for other people's clusters run on: an API server, the scheduler, the controllers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.processes.controllers import StartControllers, controllers
from tests.support.processes.process import starter
from tests.support.worlds.cluster import ClusterWorld


@pytest.fixture
def start_controllers(world: ClusterWorld, tmp_path: Path) -> StartControllers:
    """Start the controllers, with flags."""
    return starter(controllers, world.backend.kubeconfig, tmp_path)
