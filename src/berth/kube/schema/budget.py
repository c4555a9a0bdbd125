"""How much may be spent on judging one object, whatever it and its schema look like.

Most of what is done with an object takes time by its size.  Loops whose length is a product of two things
that a client chooses (the object and the schema, the patch and the list) call :func:`step` as they go;
who runs them decides how much they may spend, and by which clock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_STEPS = 32  # between two looks at the clock


class BudgetError(Exception):
    """What was allowed is spent, and the work is not done."""


class _OfThread(threading.local):
    spent: Callable[[], bool] | None = None
    steps = 0


_current = _OfThread()


def step() -> None:
    """Count one step against the budget of this thread; raises BudgetError if that is spent."""
    spent = _current.spent
    if spent is not None:
        _current.steps += 1
        if not _current.steps % _STEPS and spent():
            raise BudgetError


@contextmanager
def limited(spent: Callable[[], bool]) -> Iterator[None]:
    """Give up what this thread does as soon as `spent` says so."""
    _current.spent = spent
    try:
        yield
    finally:
        _current.spent = None


def lift() -> None:
    """From here on the work of this thread is not given up: it is being put into effect."""
    _current.spent = None
