"""Whether a server still answers others while it is busy with a request that means no good."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.api.client import Answer, Client
from tests.support.api.servers import Backend

_READ = "/api/v1/namespaces/default"


@dataclass
class Siege:
    """What became of one hostile request, and of the others meanwhile.

    Attributes:
        lasted: Seconds until it was answered.
        longest: The longest of the others.
        answers: How many others were answered.
    """

    lasted: float = 0.0
    longest: float = 0.0
    answers: int = 0
    outcome: Answer | Exception | None = None
    waits: list[float] = field(default_factory=list)

    @property
    def status(self) -> int:
        assert isinstance(self.outcome, Answer), self.outcome
        return self.outcome.status


def besiege(backend: Backend, attack: Callable[[Client], Answer]) -> Siege:
    """Send a hostile request, and harmless ones for as long as it takes."""
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
        while attacker.is_alive():
            started = time.monotonic()
            for path in ("/healthz", _READ):
                assert others.get(path).status == 200
            siege.waits.append(time.monotonic() - started)
            siege.longest = max(siege.waits)
            siege.answers += 1
            attacker.join(0.02)
    finally:
        attacker.join(120)
        others.close()
    return siege
