"""The columns a CustomResourceDefinition asks for, and the simple JSONPath they are written in.

Paths and objects are a client's to choose, and a row is made while others wait: one has an allowance, and
cells for which nothing is left of it stay empty.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from berth.kube.times import seconds_of
from berth.server.fields import at
from berth.server.tables import AGE, INVALID, NAME, Column, Object, age

_token = re.compile(
    r"""\.(?P<field>(?:\\.|[^.\[\\])+)"""
    r"""|\[['"](?P<quoted>(?:\\.|[^'"\\])+)['"]\]"""
    r"""|\[(?P<index>-?\d+)\]"""
    r"""|(?P<all>\[\*\])"""
    r"""|\[\?\(\s*@\.(?P<key>[\w.\\/-]+)\s*(?P<compare>==|!=)\s*['"]?(?P<value>[^'")]*)['"]?\s*\)\]"""
)
_ROW = 100_000  # values to look at, or characters of paths to read, for one row
_LETTERS = 16  # characters to show for each of these


class _SpentError(Exception):
    """Nothing is left for this row."""


class _Allowance:
    """What making a row may still cost."""

    _left = _ROW

    def renew(self) -> None:
        self._left = _ROW

    def spend(self, amount: int = 1) -> None:
        self._left -= amount
        if self._left < 0:
            raise _SpentError


_Step = Callable[[Any, _Allowance], Iterable[Any]]


@lru_cache(maxsize=1024)
def parse(path: str) -> tuple[_Step, ...] | None:
    """The steps of a path, None if it is more than we understand."""
    steps: list[_Step] = []
    position = 0
    while position < len(path):
        found = _token.match(path, position)
        if found is None:
            return None
        position = found.end()
        steps.append(_step(found))
    return tuple(steps)


def _step(found: re.Match[str]) -> _Step:
    """A step of a path: into a field, an element, all elements, or those for which a comparison holds."""
    if written := found["field"] or found["quoted"]:
        name = re.sub(r"\\(.)", r"\1", written)
        return lambda value, _: [value[name]] if isinstance(value, dict) and name in value else []
    if found["index"]:
        index = int(found["index"])

        def element(value: object, _: _Allowance) -> list[Any]:
            held = _elements(value)
            return [held[index]] if -len(held) <= index < len(held) else []

        return element
    if found["all"]:
        return lambda value, _: value.values() if isinstance(value, dict) else _elements(value)
    names, equal = found["key"].split("."), found["compare"] == "=="

    def chosen(value: object, allowance: _Allowance) -> Iterator[Any]:
        for each in _elements(value):
            allowance.spend(len(names))
            text = _text(at(each, *names))
            allowance.spend(len(text) // _LETTERS)
            if (text == found["value"]) == equal:
                yield each

    return chosen


def _elements(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def find(obj: object, path: str, allowance: _Allowance | None = None) -> Iterator[Any]:
    """All values at a path, each when it is asked for."""
    allowance = allowance or _Allowance()
    allowance.spend(len(path))
    steps = parse(path)
    if steps is None:
        return
    levels = [iter([obj])]
    while levels:
        for value in levels[-1]:
            allowance.spend()
            if len(levels) > len(steps):
                yield value
            else:
                levels.append(iter(steps[len(levels) - 1](value, allowance)))
                break
        else:
            levels.pop()


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _cell(path: str, kind: str, allowance: _Allowance, obj: Object, now: float) -> Any:  # noqa: ANN401
    try:
        found = next(find(obj, path, allowance), None)
        shown = None if found is None else _shown(found, kind, now)
        allowance.spend(len(shown) // _LETTERS if isinstance(shown, str) else 0)
    except _SpentError:
        return None
    return shown


def _first_cell(allowance: _Allowance, obj: Object, now: float) -> Any:  # noqa: ANN401
    """The name, with which every row begins."""
    allowance.renew()
    return NAME.cell(obj, now)


def _shown(value: Any, kind: str, now: float) -> Any:  # noqa: ANN401
    match kind:
        case "string":
            return _text(value)
        case "date" if isinstance(value, str):
            return age(value, now) if seconds_of(value) is not None else INVALID
        case "boolean" if isinstance(value, bool):
            return value
        case "integer" if isinstance(value, int | float) and not isinstance(value, bool):
            return int(value)
        case "number" if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return None


def columns(definitions: Sequence[Mapping[str, Any]] | None) -> tuple[Column, ...]:
    """The columns for ``additionalPrinterColumns``; the age alone if there are none."""
    if definitions is None:
        return (NAME, AGE)
    if not definitions:
        return (NAME, AGE._replace(type="date"))
    allowance = _Allowance()
    return (
        NAME._replace(cell=partial(_first_cell, allowance)),
        *(
            Column(
                str(each.get("name", "")),
                partial(_cell, str(each.get("jsonPath", "")), str(each.get("type", "string")), allowance),
                type=str(each.get("type", "string")),
                wide=bool(each.get("priority")),
                format=str(each.get("format", "")),
            )
            for each in definitions
        ),
    )
