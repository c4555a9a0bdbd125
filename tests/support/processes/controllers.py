"""`berth controllers` as a process of its own."""

from __future__ import annotations

import urllib.request
from contextlib import AbstractContextManager
from pathlib import Path
from ssl import CERT_NONE, create_default_context
from typing import Protocol

from tests.support.processes.process import BerthProcess, running_component

# Tests on one cluster follow each other closely; what holds up people's mistakes would hold them up, too.
UNLIMITED = ("--halt-above=1000", "--eviction-qps=100", "--eviction-burst=100")


class StartControllers(Protocol):
    """Starts the controllers."""

    def __call__(
        self, *flags: str, kubeconfig: Path | None = None, leader_elect: bool = False
    ) -> AbstractContextManager[BerthProcess]: ...


def metrics(port: int, token: str = "") -> str:
    """What is served to the holder of a token; beyond loopback the API server is asked about it."""
    context = create_default_context()
    context.check_hostname, context.verify_mode = False, CERT_NONE
    headers = {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"https://127.0.0.1:{port}/metrics", headers=headers)
    with urllib.request.urlopen(request, context=context, timeout=30) as answer:  # noqa: S310
        text: str = answer.read().decode()
        return text


def controllers(
    kubeconfig: Path, folder: Path, *flags: str, leader_elect: bool = False
) -> AbstractContextManager[BerthProcess]:
    """They run until the end of the block, unless they were stopped before."""
    return running_component("controllers", kubeconfig, folder, *UNLIMITED, *flags, leader_elect=leader_elect)
