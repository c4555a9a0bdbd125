"""`berth up` as a process of its own, kubectl beside it where there is one; always stopped in the end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.processes.process import free_port, stop_process

KUBECTL = shutil.which("kubectl")
_READY = "Ctrl-C stops it"
_TIMEOUT = 180.0
_STOP_TIMEOUT = 120.0


@dataclass
class Up:
    """A running control plane."""

    process: subprocess.Popen[str]
    output: list[str] = field(default_factory=list)

    @property
    def kubeconfig(self) -> str:
        return next(line.split()[1] for line in self.output if line.startswith("kubeconfig"))

    @property
    def page(self) -> str:
        """The link that opens the page."""
        return next(line.split()[1] for line in self.output if line.startswith("page"))

    @property
    def server_pid(self) -> int:
        """The API server's process."""
        return int(Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()[0])

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        command = [KUBECTL or "kubectl", "--kubeconfig", self.kubeconfig, "--request-timeout=90s", *arguments]
        done = subprocess.run(  # noqa: S603
            command, input=stdin, capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
        if check and done.returncode:
            raise AssertionError(f"{' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout + (done.stderr if not check else "")

    def get(self, *arguments: str) -> Any:
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def until(self, condition: Callable[[], bool], timeout: float = 120.0) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, "it did not come about in time"
            time.sleep(0.1)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(_STOP_TIMEOUT)


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "berth", "up", *map(str, arguments)]


@contextmanager
def up(data_dir: Path, *arguments: str | Path, port: int | None = None, web: bool = False) -> Iterator[Up]:
    """Start it and wait until it says that it is ready; most who do so look at no page."""
    page = "--web" if web else "--no-web"
    process = subprocess.Popen(  # noqa: S603
        command("--data-dir", data_dir, "--port", str(port or free_port()), page, *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    running = Up(process)
    try:
        for line in process.stdout or ():
            running.output.append(line.rstrip())
            if line.startswith(_READY):
                break
        else:
            raise AssertionError("\n".join(running.output))
        yield running
    finally:
        stop_process(process, _STOP_TIMEOUT)
        if process.stdout is not None:
            process.stdout.close()


def refused(*arguments: str | Path) -> tuple[int, str]:
    """Start something that cannot work; its exit code and what it says."""
    done = subprocess.run(  # noqa: S603
        command(*arguments), capture_output=True, text=True, timeout=_TIMEOUT, check=False
    )
    return done.returncode, done.stderr.strip()
