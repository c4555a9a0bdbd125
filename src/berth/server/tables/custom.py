"""The columns a CustomResourceDefinition asks for, and the simple JSONPath they are written in.

Paths and objects are a client's to choose, and a row is made while others wait: one has an allowance, and
cells for which nothing is left of it stay empty.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from berth.kube.times import seconds_of
from berth.server.fields import at
from berth.server.tables.cells import AGE, INVALID, NAME, Column, Object, age

_token = re.compile(
    r"""\.(?P<field>(?:\\.|[^.\[\\])+)"""
    r"""|\[['"](?P<quoted>(?:\\.|[^'"\\])+)['"]\]"""
    r"""|\[(?P<index>-?\d+)\]"""
    r"""|(?P<all>\[\*\])"""
    r"""|\[\?\(\s*@\.(?P<key>[\w.\\/-]+)\s*(?P<compare>==|!=)\s*['"]?(?P<value>[^'")]*)['"]?\s*\)\]"""
)


class _Step(NamedTuple):
    """One step of a path: into a field, an element, all elements, or those for which a comparison holds."""

    kind: str
    text: str
    value: str = ""
    equal: bool = True


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
        if found["field"] or found["quoted"]:
            steps.append(_Step("field", re.sub(r"\\(.)", r"\1", found["field"] or found["quoted"])))
        elif found["index"]:
            steps.append(_Step("index", found["index"]))
        elif found["all"]:
            steps.append(_Step("all", ""))
        else:
            steps.append(_Step("filter", found["key"], found["value"], found["compare"] == "=="))
    return tuple(steps)


_ROW = 100_000  # values to look at, or characters of paths to read, for one row
_LETTERS = 16  # characters to show for each of these


class _SpentError(Exception):
    """Nothing is left for this row."""


class _Allowance:
    """What making a row may still cost."""

    def __init__(self) -> None:
        self._left = _ROW

    def renew(self) -> None:
        self._left = _ROW

    def spend(self, amount: int = 1) -> None:
        self._left -= amount
        if self._left < 0:
            raise _SpentError


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
                levels.append(iter(_take(value, steps[len(levels) - 1], allowance)))
                break
        else:
            levels.pop()


def _take(value: Any, step: _Step, allowance: _Allowance) -> Iterable[Any]:  # noqa: ANN401 -- any JSON value
    if isinstance(value, dict):
        if step.kind == "all":
            return value.values()
        return [value[step.text]] if step.kind == "field" and step.text in value else []
    return _take_elements(value, step, allowance) if isinstance(value, list) else []


def _take_elements(value: list[Any], step: _Step, allowance: _Allowance) -> Iterable[Any]:
    match step.kind:
        case "all":
            return value
        case "index":
            index = int(step.text)
            return [value[index]] if -len(value) <= index < len(value) else []
        case "filter":
            return _chosen(value, step, allowance)
    return []


def _chosen(value: list[Any], step: _Step, allowance: _Allowance) -> Iterator[Any]:
    names = step.text.split(".")
    for each in value:
        allowance.spend(len(names))
        text = _text(at(each, *names))
        allowance.spend(len(text) // _LETTERS)
        if (text == step.value) == step.equal:
            yield each


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _cell(path: str, kind: str, allowance: _Allowance) -> Callable[[Object, float], Any]:
    def cell(obj: Object, now: float) -> Any:  # noqa: ANN401
        try:
            found = next(find(obj, path, allowance), None)
            shown = None if found is None else _shown(found, kind, now)
            allowance.spend(len(shown) // _LETTERS if isinstance(shown, str) else 0)
        except _SpentError:
            return None
        return shown

    return cell


def _first_cell(allowance: _Allowance) -> Callable[[Object, float], Any]:
    """The name, with which every row begins."""

    def cell(obj: Object, now: float) -> Any:  # noqa: ANN401
        allowance.renew()
        return NAME.cell(obj, now)

    return cell


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
        NAME._replace(cell=_first_cell(allowance)),
        *(
            Column(
                str(each.get("name", "")),
                _cell(str(each.get("jsonPath", "")), str(each.get("type", "string")), allowance),
                type=str(each.get("type", "string")),
                wide=bool(each.get("priority")),
                format=str(each.get("format", "")),
            )
            for each in definitions
        ),
    )
