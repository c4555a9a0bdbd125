"""How much may be spent on judging one object, whatever it and its schema look like.

Most of what is done with an object takes time by its size.  Loops whose length is a product of two things
that a client chooses (the object and the schema, the patch and the list) call :func:`step` as they go;
who runs them decides how much they may spend, and by which clock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

_T = TypeVar("_T")

_MOST_TEXT = 1024 * 1024
_STEPS = 32  # between two looks at the clock


class BudgetError(Exception):
    """What was allowed is spent, and the work is not done."""


class _OfThread(threading.local):
    spent: Callable[[], bool] | None = None
    steps = 0


_current = _OfThread()


def step() -> None:
    """Count one step against the budget of this thread.

    Raises:
        BudgetError: the budget is spent.
    """
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


def told(found: Iterable[_T], most: int, text: Callable[[_T], int]) -> Iterator[_T]:
    """As much of what was found as anybody is told of, in number and in characters, which `text` counts."""
    size = 0
    for count, one in enumerate(found, 1):
        yield one
        size += text(one)
        if count == most or size > _MOST_TEXT:
            return


def lift() -> None:
    """From here on the work of this thread is not given up: it is being put into effect."""
    _current.spent = None
