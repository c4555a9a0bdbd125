"""Field errors as the API server reports them, and the list validators collect them in.

A path is a tuple such as ``("spec", "containers", 0, "name")`` and only turned into
text when there is something to report: almost every object is valid.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Sequence, Sized
from typing import TypeVar

import msgspec

Path = tuple[str | int, ...]

_H = TypeVar("_H", bound=Hashable)

REQUIRED = "FieldValueRequired"
INVALID = "FieldValueInvalid"
NOT_POSITIVE = "must be greater than zero"
WEIGHT_RANGE = "must be in the range 1-100"
NOT_SUPPORTED = "FieldValueNotSupported"
FORBIDDEN = "FieldValueForbidden"
DUPLICATE = "FieldValueDuplicate"
NOT_FOUND = "FieldValueNotFound"
TOO_LONG = "FieldValueTooLong"
TOO_MANY = "FieldValueTooMany"
TYPE_INVALID = "FieldValueTypeInvalid"  # only schemas find that

_WORDS = {
    REQUIRED: "Required value",
    INVALID: "Invalid value",
    NOT_SUPPORTED: "Unsupported value",
    FORBIDDEN: "Forbidden",
    DUPLICATE: "Duplicate value",
    NOT_FOUND: "Not found",
    TOO_LONG: "Too long",
    TOO_MANY: "Too many",
    TYPE_INVALID: "Invalid value",
}
_WITHOUT_VALUE = frozenset({REQUIRED, FORBIDDEN, TOO_LONG})


OMITTED = object()  # a value that is not shown


class FieldError(msgspec.Struct, frozen=True):
    field: str
    type: str
    detail: str = ""
    value: object = None

    def __str__(self) -> str:
        text = f"{self.field}: {_WORDS[self.type]}"
        if self.type not in _WITHOUT_VALUE and self.value is not OMITTED:
            text += f": {_shown(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text


def _shown(value: object) -> str:
    return json.dumps(msgspec.to_builtins(value), ensure_ascii=False, separators=(",", ":"))


def unsupported(field: str, value: object, supported: Iterable[object]) -> FieldError:
    return FieldError(field, NOT_SUPPORTED, f"supported values: {', '.join(map(_shown, supported))}", value)


def too_many(field: str, items: Sized, most: int) -> FieldError:
    return FieldError(field, TOO_MANY, f"must have at most {most} items", len(items))


def key(name: str) -> str:
    """The path segment for an entry of a map, written ``[name]``."""
    return f"[{name}]"


def render(path: Path) -> str:
    parts: list[str] = []
    for segment in path:
        if isinstance(segment, int):
            parts.append(f"[{segment}]")
        elif segment.startswith("[") or not parts:
            parts.append(segment)
        else:
            parts.append(f".{segment}")
    return "".join(parts)


class Errors(list[FieldError]):
    """What was found so far. Each method adds one error at `path`."""

    def invalid(self, path: Path, value: object, detail: str) -> None:
        self.append(FieldError(render(path), INVALID, detail, value))

    def invalid_for_each(self, path: Path, value: object, details: Iterable[str]) -> None:
        for detail in details:
            self.invalid(path, value, detail)

    def required(self, path: Path, detail: str = "") -> None:
        self.append(FieldError(render(path), REQUIRED, detail))

    def named(
        self, path: Path, name: str | None, check: Callable[[str], Iterable[str]], detail: str = ""
    ) -> None:
        """An error if there is no name, or for each thing that `check` has against it."""
        if not name:
            self.required(path, detail)
        else:
            self.invalid_for_each(path, name, check(name))

    def forbidden(self, path: Path, detail: str) -> None:
        self.append(FieldError(render(path), FORBIDDEN, detail))

    def duplicate(self, path: Path, value: object, detail: str = "") -> None:
        self.append(FieldError(render(path), DUPLICATE, detail, value))

    def once(self, seen: set[_H], path: Path, value: _H, shown: object = None, detail: str = "") -> None:
        """A duplicate, maybe `shown` as something else, if the value was seen before; from now on it was."""
        if value in seen:
            self.duplicate(path, value if shown is None else shown, detail)
        seen.add(value)

    def not_found(self, path: Path, value: object) -> None:
        self.append(FieldError(render(path), NOT_FOUND, "", value))

    def too_long(self, path: Path, limit: int) -> None:
        self.append(FieldError(render(path), TOO_LONG, f"may not be more than {limit} bytes"))

    def one_of(self, path: Path, value: str | None, supported: Sequence[str]) -> None:
        """An error if there is a value, and it is none of those supported."""
        if value is not None and value not in supported:
            self.not_supported(path, value, supported)

    def weight(self, path: Path, weight: int | None) -> None:
        """An error if the weight of what is at `path` is none."""
        if not 1 <= (weight or 0) <= 100:
            self.invalid((*path, "weight"), weight or 0, WEIGHT_RANGE)

    def not_supported(self, path: Path, value: object, supported: Sequence[str]) -> None:
        self.append(unsupported(render(path), value, supported))
