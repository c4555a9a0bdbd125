"""Berth as users run it: a child process with flags and a log, stopped in the end whatever happens."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

_STOP_TIMEOUT = 60.0
_LOG_SHOWN = 3000


@dataclass
class BerthProcess:
    """A child process and what it has written so far."""

    process: subprocess.Popen[bytes]
    log_file: Path

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def stop(self) -> int:
        """SIGTERM, as a cluster stops it; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(_STOP_TIMEOUT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


Running = Callable[..., AbstractContextManager[BerthProcess]]


@contextmanager
def running_process(command: list[str], log_file: Path) -> Iterator[BerthProcess]:
    """A process that runs until the end of the block, unless it was stopped before."""
    with log_file.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)  # noqa: S603
    running = BerthProcess(process, log_file)
    try:
        yield running
    except BaseException as error:
        error.add_note(f"{log_file.stem}: {running.log[-_LOG_SHOWN:]}")
        raise
    finally:
        stopped = stop_process(process, _STOP_TIMEOUT)
    assert stopped, f"{log_file.stem} did not stop: {running.log[-_LOG_SHOWN:]}"


@contextmanager
def running_component(
    name: str, kubeconfig: Path, folder: Path, *flags: str, leader_elect: bool = False
) -> Iterator[BerthProcess]:
    """`berth NAME` on a cluster; it serves no metrics unless the flags say so."""
    command = [sys.executable, "-m", "berth", name, f"--kubeconfig={kubeconfig}"]
    with running_process(
        [*command, *component_flags(flags, leader_elect=leader_elect)], log_in(folder, name)
    ) as running:
        yield running


def starter(run: Running, usual: Path, folder: Path, **settings: str) -> Running:
    """Run something in a folder, with the usual kubeconfig and settings unless others are given."""

    def start(
        *flags: str, kubeconfig: Path | None = None, **given: str | bool
    ) -> AbstractContextManager[BerthProcess]:
        return run(kubeconfig or usual, folder, *flags, **{**settings, **given})

    return start


def component_flags(flags: tuple[str, ...], *, leader_elect: bool) -> list[str]:
    port = [] if any(flag.startswith("--secure-port") for flag in flags) else ["--secure-port=0"]
    return [f"--leader-elect={str(leader_elect).lower()}", *port, *flags]


def log_in(folder: Path, name: str) -> Path:
    """A new log file for another process of this name."""
    return folder / f"{name}-{len(list(folder.iterdir()))}.log"


def stop_process(process: subprocess.Popen[bytes] | subprocess.Popen[str], timeout: float) -> bool:
    """SIGTERM to a process that still runs, then SIGKILL; whether the former was enough."""
    if process.poll() is not None:
        return True
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False
    return True


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
