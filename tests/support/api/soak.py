"""How long tests go on that can go on for any time: one round in `make test`, minutes in `make soak`."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator

SECONDS = float(os.environ.get("BERTH_SOAK_SECONDS", "0"))


def rounds(share: float) -> Iterator[int]:
    """Numbers, at least one, until a share of the time has passed."""
    end = time.monotonic() + SECONDS * share
    for number in itertools.count():
        yield number
        if time.monotonic() >= end:
            return


def told(what: str) -> None:
    """Print figures of a long run."""
    if SECONDS:
        print(what, flush=True)  # noqa: T201
