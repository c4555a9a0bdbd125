"""Whether a server still answers others while it is busy with a request that means no good."""

from __future__ import annotations

import http.client
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support.api.client import Answer, Client
from tests.support.api.servers import Backend

_READ = "/api/v1/namespaces/default"


@dataclass
class Siege:
    """What became of one hostile request, and of the others meanwhile.

    Attributes:
        lasted: Seconds until it was answered.
        longest: The longest of the others.
        longest_busy: The most that the server worked, in seconds of its processors, before it answered one of
            them: what that would have taken on a machine that has nothing else to do.
        answers: How many others were answered.
    """

    lasted: float = 0.0
    longest: float = 0.0
    longest_busy: float = 0.0
    answers: int = 0
    outcome: Answer | Exception | None = None

    @property
    def status(self) -> int:
        assert isinstance(self.outcome, Answer), self.outcome
        return self.outcome.status


def besiege(backend: Backend, attack: Callable[[Client], Answer]) -> Siege:
    """Send a hostile request, and harmless ones for as long as it takes, or once if it is refused at once."""
    siege = Siege()

    def attacking() -> None:
        client = backend.client()
        started = time.monotonic()
        try:
            siege.outcome = attack(client)
        except (OSError, http.client.HTTPException) as error:
            siege.outcome = error
        finally:
            siege.lasted = time.monotonic() - started
            client.close()

    others = backend.client()
    others.get(_READ)
    attacker = threading.Thread(target=attacking)
    attacker.start()
    try:
        while attacker.is_alive() or not siege.answers:
            for path in ("/healthz", _READ):
                started, worked = time.monotonic(), _worked(backend)
                assert others.get(path).status == 200
                siege.longest = max(siege.longest, time.monotonic() - started)
                siege.longest_busy = max(siege.longest_busy, _worked(backend) - worked)
            siege.answers += 1
            attacker.join(0.02)
    finally:
        attacker.join(120)
        others.close()
    return siege


def _worked(backend: Backend) -> float:
    """Seconds of processor time that the server has had."""
    fields = Path(f"/proc/{backend.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
