"""How a patch fails: with the code, reason and causes of a Kubernetes ``Status``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_P = ParamSpec("_P")
_R = TypeVar("_R")

BAD_REQUEST = "BadRequest"
INVALID = "Invalid"
CONFLICT = "Conflict"
TOO_LARGE = "RequestEntityTooLarge"

REJECTED = "the server rejected our request due to an error in our request"


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of ``details.causes``."""

    reason: str
    message: str
    field: str = ""


class PatchError(Exception):
    """A patch that cannot be applied."""

    def __init__(self, code: int, reason: str, message: str, causes: tuple[Cause, ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.causes = causes


def bad_request(message: str) -> PatchError:
    """The patch itself makes no sense."""
    return PatchError(400, BAD_REQUEST, message)


def unprocessable(message: str) -> PatchError:
    """The patch makes sense, but not for this object. Upstream leaves out why."""
    return PatchError(422, INVALID, f"{REJECTED}: {message}")


def refuse_depth(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Make a value nested deeper than Python can walk a refusal like any other."""

    @wraps(function)
    def guarded(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except RecursionError:
            raise bad_request("the object or the patch is nested too deeply") from None

    return guarded
