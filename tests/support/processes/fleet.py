"""`berth fleet` as a process of its own."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from tests.support.processes.process import BerthProcess, running_component
from tests.support.processes.scheduler import NAME


class StartFleet(Protocol):
    """Starts a scheduler of bindings."""

    def __call__(
        self, *flags: str, kubeconfig: Path | None = None, name: str = NAME, leader_elect: bool = False
    ) -> AbstractContextManager[BerthProcess]: ...


def fleet(
    kubeconfig: Path, folder: Path, *flags: str, name: str = NAME, leader_elect: bool = False
) -> AbstractContextManager[BerthProcess]:
    """It runs until the end of the block, unless it was stopped before."""
    given = (f"--scheduler-name={name}", *flags)
    return running_component("fleet", kubeconfig, folder, *given, leader_elect=leader_elect)
