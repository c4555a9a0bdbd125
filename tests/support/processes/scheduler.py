"""`berth scheduler` as users run it: a process that is given a kubeconfig and flags.

With BERTH_TEST_SCHEDULER=kube-scheduler the scenarios run against the one of $KUBEBUILDER_ASSETS, which
shows that they describe Kubernetes and not Berth.
"""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from berth.kube.versions import OLDEST
from tests.support.api.servers import assets_folder, find_binary, version_of_binary
from tests.support.processes.process import (
    BerthProcess,
    component_flags,
    log_in,
    running_component,
    running_process,
)

NAME = "berth"
IS_KUBE_SCHEDULER = os.environ.get("BERTH_TEST_SCHEDULER") == "kube-scheduler"


class StartScheduler(Protocol):
    """Starts a scheduler for the pods of one test."""

    def __call__(
        self, *flags: str, kubeconfig: Path | None = None, leader_elect: bool = False
    ) -> AbstractContextManager[BerthProcess]: ...


def scheduler(
    kubeconfig: Path, folder: Path, *flags: str, name: str = NAME, leader_elect: bool = False
) -> AbstractContextManager[BerthProcess]:
    """A scheduler that runs until the end of the block, unless it was stopped before."""
    if IS_KUBE_SCHEDULER:
        command = _kube_scheduler(kubeconfig, folder, name)
        given = component_flags(flags, leader_elect=leader_elect)
        return running_process([*command, *given], log_in(folder, f"scheduler-{name}"))
    named = () if any(flag.startswith("--config") for flag in flags) else (f"--scheduler-name={name}",)
    return running_component("scheduler", kubeconfig, folder, *named, *flags, leader_elect=leader_elect)


def _kube_scheduler(kubeconfig: Path, folder: Path, name: str) -> list[str]:
    assets = assets_folder()
    assert assets is not None
    config: dict[str, Any] = configuration(profile(name))
    config["clientConnection"] = {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000}
    file = folder / f"kube-scheduler-{name}.json"
    file.write_text(json.dumps(config))
    binary = find_binary(assets, "kube-scheduler")
    gates = ["GenericWorkload=true"]
    if version_of_binary(binary) == OLDEST:
        gates.append("GangScheduling=true")  # the other one has it all in one
    return [binary, f"--config={file}", f"--feature-gates={','.join(gates)}"]


def configuration(*profiles: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": list(profiles),
    }


def profile(name: str, **fields: Any) -> dict[str, Any]:
    return {"schedulerName": name, **fields}
