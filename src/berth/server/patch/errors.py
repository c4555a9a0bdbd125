"""How a patch is refused that makes sense, but not for this object, or that is too deep."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from berth.server.errors import StatusError, bad_request

_P = ParamSpec("_P")
_R = TypeVar("_R")

REJECTED = "the server rejected our request due to an error in our request"


def unprocessable(message: str) -> StatusError:
    """The patch makes sense, but not for this object. Upstream leaves out why."""
    return StatusError(422, "Invalid", f"{REJECTED}: {message}")


def refuse_depth(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Make a value nested deeper than Python can walk a refusal like any other."""

    @wraps(function)
    def guarded(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except RecursionError:
            raise bad_request("the object or the patch is nested too deeply") from None

    return guarded
