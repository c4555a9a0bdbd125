"""`berth scheduler` as users run it: a process that is given a kubeconfig and flags.

With BERTH_TEST_SCHEDULER=kube-scheduler the scenarios run against the one of $KUBEBUILDER_ASSETS, which
shows that they describe Kubernetes and not Berth.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.system.scheduler.backends import assets_folder, find_binary

NAME = "berth"
IS_KUBE_SCHEDULER = os.environ.get("BERTH_TEST_SCHEDULER") == "kube-scheduler"
_STOP_TIMEOUT = 60.0


@dataclass
class SchedulerProcess:
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


class Start(Protocol):
    """Starts a scheduler for the pods of one test."""

    def __call__(
        self, *flags: str, kubeconfig: Path | None = None, leader_elect: bool = False
    ) -> AbstractContextManager[SchedulerProcess]: ...


@contextmanager
def scheduler(
    kubeconfig: Path, folder: Path, *flags: str, name: str = NAME, leader_elect: bool = False
) -> Iterator[SchedulerProcess]:
    """A scheduler that runs until the end of the block, unless it was stopped before."""
    log_file = folder / f"scheduler-{name}-{len(list(folder.iterdir()))}.log"
    command = _kube_scheduler(kubeconfig, folder, name) if IS_KUBE_SCHEDULER else _berth(kubeconfig)
    if not IS_KUBE_SCHEDULER and not any(flag.startswith("--config") for flag in flags):
        command.append(f"--scheduler-name={name}")
    if not any(flag.startswith("--secure-port") for flag in flags):
        command.append("--secure-port=0")
    command += [f"--leader-elect={str(leader_elect).lower()}", *flags]
    with log_file.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)  # noqa: S603
    running = SchedulerProcess(process, log_file)
    try:
        yield running
    finally:
        if running.alive:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                running.kill()
                raise


def _berth(kubeconfig: Path) -> list[str]:
    return [sys.executable, "-m", "berth", "scheduler", f"--kubeconfig={kubeconfig}"]


def _kube_scheduler(kubeconfig: Path, folder: Path, name: str) -> list[str]:
    assets = assets_folder()
    assert assets is not None
    config: dict[str, Any] = configuration(profile(name))
    config["clientConnection"] = {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000}
    file = folder / f"kube-scheduler-{name}.json"
    file.write_text(json.dumps(config))
    gates = "--feature-gates=GenericWorkload=true,GangScheduling=true"
    return [find_binary(assets, "kube-scheduler"), f"--config={file}", gates]


def configuration(*profiles: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": list(profiles),
    }


def profile(name: str, **fields: Any) -> dict[str, Any]:
    return {"schedulerName": name, **fields}
