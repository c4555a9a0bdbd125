"""A scheduler for one test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.processes.process import starter
from tests.support.processes.scheduler import StartScheduler, scheduler
from tests.support.worlds.cluster import ClusterWorld


@pytest.fixture
def start(world: ClusterWorld, tmp_path: Path) -> StartScheduler:
    """Start a scheduler for the test's pods, with flags."""
    return starter(scheduler, world.backend.kubeconfig, tmp_path, name=world.scheduler_name)
