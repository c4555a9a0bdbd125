"""`berth fleet` as users run it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from tests.system.scheduler.process import NAME, SchedulerProcess


class StartFleet(Protocol):
    """Starts a scheduler of bindings."""

    def __call__(
        self, *flags: str, kubeconfig: Path | None = None, name: str = NAME, leader_elect: bool = False
    ) -> AbstractContextManager[SchedulerProcess]: ...


@contextmanager
def fleet(
    kubeconfig: Path, folder: Path, *flags: str, name: str = NAME, leader_elect: bool = False
) -> Iterator[SchedulerProcess]:
    """It runs until the end of the block, unless it was stopped before."""
    log_file = folder / f"fleet-{name}-{len(list(folder.iterdir()))}.log"
    command = [sys.executable, "-m", "berth", "fleet", f"--kubeconfig={kubeconfig}"]
    command += [f"--scheduler-name={name}", f"--leader-elect={str(leader_elect).lower()}", *flags]
    if not any(flag.startswith("--secure-port") for flag in flags):
        command.append("--secure-port=0")
    with log_file.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)  # noqa: S603
    running = SchedulerProcess(process, log_file)
    try:
        yield running
    except BaseException as error:
        error.add_note(f"{name}: {running.log[-3000:]}")
        raise
    finally:
        if running.alive:
            running.stop()
