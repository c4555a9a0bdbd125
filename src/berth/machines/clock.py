"""The time, as long-lived processes should count it."""

from __future__ import annotations

import time

_OFFSET = time.time() - time.monotonic()
_LASTING = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady() -> float:
    """Seconds since the epoch that never jump: a clock that is set back must not stop every timer."""
    return _OFFSET + time.monotonic()


def lasting() -> float:
    """Seconds that also pass while this process is stopped or the machine sleeps: others do not wait."""
    return time.clock_gettime(_LASTING)
