"""`berth controllers` as users run it."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from ssl import CERT_NONE, create_default_context
from typing import Protocol

from tests.system.scheduler.process import SchedulerProcess

# Tests on one cluster follow each other closely; what holds up people's mistakes would hold them up, too.
BOLD = ("--halt-above=1000", "--eviction-qps=100", "--eviction-burst=100")


class StartControllers(Protocol):
    def __call__(
        self, *flags: str, kubeconfig: Path | None = None, leader_elect: bool = False
    ) -> AbstractContextManager[SchedulerProcess]: ...


def metrics(port: int, token: str = "") -> str:
    """What is served to the holder of a token; beyond loopback the API server is asked about it."""
    context = create_default_context()
    context.check_hostname, context.verify_mode = False, CERT_NONE
    headers = {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"https://127.0.0.1:{port}/metrics", headers=headers)
    with urllib.request.urlopen(request, context=context, timeout=30) as answer:  # noqa: S310
        text: str = answer.read().decode()
        return text


@contextmanager
def controllers(
    kubeconfig: Path, folder: Path, *flags: str, leader_elect: bool = False
) -> Iterator[SchedulerProcess]:
    """They run until the end of the block, unless they were stopped before."""
    log_file = folder / f"controllers-{len(list(folder.iterdir()))}.log"
    command = [sys.executable, "-m", "berth", "controllers", f"--kubeconfig={kubeconfig}", "--secure-port=0"]
    command += [*BOLD, f"--leader-elect={str(leader_elect).lower()}", *flags]
    with log_file.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)  # noqa: S603
    running = SchedulerProcess(process, log_file)
    try:
        yield running
    finally:
        if running.alive:
            running.stop()
