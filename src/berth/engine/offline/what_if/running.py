"""A what-if from beginning to end: the world as it is, the changes, and the world afterwards."""

from __future__ import annotations

from collections.abc import Iterable

from berth.engine.offline.snapshot import Progress
from berth.engine.offline.what_if.applying import make
from berth.engine.offline.what_if.changes import ClusterChange
from berth.engine.offline.what_if.comparing import compare
from berth.engine.offline.what_if.observing import observe
from berth.engine.offline.what_if.outcome import WhatIfOutcome
from berth.engine.offline.what_if.world import ChangingWorld, WorldLog


def settle(world: ChangingWorld, progress: Progress | None = None) -> None:
    """Let the scheduler place what waits already: that is where every what-if begins."""
    world.schedule(progress)
    world.log = WorldLog()


def what_if(
    world: ChangingWorld, changes: Iterable[ClusterChange], progress: Progress | None = None
) -> WhatIfOutcome:
    """Make changes to a world that is settled, and say what became of it.

    Raises:
        WhatIfError: a change cannot be made.
    """
    changes = list(changes)
    before = observe(world)
    world.log = WorldLog()
    make(world, changes, progress)
    return compare(world, before, observe(world), changes)
