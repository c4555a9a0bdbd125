"""The columns a CustomResourceDefinition asks for, and the simple JSONPath they are written in."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from berth.kube.times import seconds_of
from berth.server.tables.ages import INVALID, age
from berth.server.tables.cells import AGE, NAME, Column, Object, at

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


def find(obj: object, path: str) -> list[Any]:
    """All values at a path."""
    values: list[Any] = [obj]
    for step in parse(path) or (_Step("none", ""),):
        values = [inner for value in values for inner in _take(value, step)]
    return values


def _take(value: Any, step: _Step) -> Iterable[Any]:  # noqa: ANN401 -- any JSON value
    if isinstance(value, dict):
        if step.kind == "all":
            return value.values()
        return [value[step.text]] if step.kind == "field" and step.text in value else []
    return _take_elements(value, step) if isinstance(value, list) else []


def _take_elements(value: list[Any], step: _Step) -> Iterable[Any]:
    match step.kind:
        case "all":
            return value
        case "index":
            index = int(step.text)
            return [value[index]] if -len(value) <= index < len(value) else []
        case "filter":
            names = step.text.split(".")
            return [each for each in value if (_text(at(each, *names)) == step.value) == step.equal]
    return []


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _cell(path: str, kind: str) -> Callable[[Object, float], Any]:
    def cell(obj: Object, now: float) -> Any:  # noqa: ANN401
        found = find(obj, path)
        return _shown(found[0], kind, now) if found and found[0] is not None else None

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
    return (
        NAME,
        *(
            Column(
                str(each.get("name", "")),
                _cell(str(each.get("jsonPath", "")), str(each.get("type", "string"))),
                type=str(each.get("type", "string")),
                wide=bool(each.get("priority")),
                format=str(each.get("format", "")),
            )
            for each in definitions
        ),
    )
