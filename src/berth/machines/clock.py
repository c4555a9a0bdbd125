"""The time, as long-lived processes should count it."""

from __future__ import annotations

import time

_OFFSET = time.time() - time.monotonic()


def steady() -> float:
    """Seconds since the epoch that never jump: a clock that is set back must not stop every timer."""
    return _OFFSET + time.monotonic()
