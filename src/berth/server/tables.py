"""Objects as a ``Table``, the form ``kubectl get`` asks for: how it is made of the columns that a kind has.

How ages, lists and selectors are written in a cell is the same for all kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from berth.kube.times import seconds_of
from berth.server.fields import at, items, mapping, number

Object = dict[str, Any]

NONE = "<none>"
UNSET = "<unset>"
UNKNOWN = "<unknown>"
INVALID = "<invalid>"

META_V1 = "meta.k8s.io/v1"
_LISTED = 3
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86_400, 365 * 86_400

# Up to which age it is written in which unit, with which smaller unit beside it.
_STEPS: tuple[tuple[int, int, str, int, str], ...] = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)


class Column(NamedTuple):
    """One column: its heading, how its cell is made, and whether it is shown only with ``-o wide``."""

    name: str
    cell: Callable[[Object, float], Any]
    type: str = "string"
    wide: bool = False
    format: str = ""

    def header(self) -> Object:
        shown = {"name": self.name, "type": self.type, "format": self.format}
        return {**shown, "description": "", "priority": int(self.wide)}


def text(*names: str, otherwise: str = "") -> Callable[[Object, float], str]:
    """A cell that shows a field as it is."""

    def cell(obj: Object, _: float) -> str:
        found = at(obj, *names)
        return otherwise if found is None or found == "" else str(found)

    return cell


def count(*names: str) -> Callable[[Object, float], int]:
    return lambda obj, _: number(obj, *names)


def size(*names: str) -> Callable[[Object, float], int]:
    """A cell that counts the entries of a list or map."""

    def cell(obj: Object, _: float) -> int:
        found = at(obj, *names)
        return len(found) if isinstance(found, list | dict) else 0

    return cell


def flag(*names: str) -> Callable[[Object, float], bool]:
    return lambda obj, _: bool(at(obj, *names))


def human_duration(seconds: float) -> str:
    """Two or three significant figures; a clock that is a little ahead is forgiven."""
    whole = int(seconds)
    if whole < -1:
        return INVALID
    whole = max(whole, 0)
    for limit, unit, letter, smaller, smaller_letter in _STEPS:
        if whole < limit:
            rest = whole % unit // smaller if smaller else 0
            return f"{whole // unit}{letter}" + (f"{rest}{smaller_letter}" if rest else "")
    return f"{whole // _YEAR}y"


def age(timestamp: object, now: float) -> str:
    """How long before `now` (seconds since the epoch) a timestamp was."""
    moment = seconds_of(timestamp)
    return UNKNOWN if moment is None else human_duration(now - moment)


NAME = Column("Name", text("metadata", "name"), format="name")
AGE = Column("Age", lambda obj, now: age(at(obj, "metadata", "creationTimestamp"), now))
CREATED_AT = Column("Created At", text("metadata", "creationTimestamp"), type="date")


def labels(held: Mapping[str, Any]) -> str:
    return ",".join(f"{key}={held[key]}" for key in sorted(held)) or NONE


def selector(held: object) -> str:
    """A label selector in the form ``kubectl get -l`` takes."""
    requirements = [(key, f"{key}={value}") for key, value in mapping(held, "matchLabels").items()]
    for each in items(held, "matchExpressions"):
        key, values = str(at(each, "key")), ",".join(sorted(map(str, items(each, "values"))))
        written = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        requirements.append((key, written.get(str(at(each, "operator")), "<error>")))
    return ",".join(shown for _, shown in sorted(requirements)) or NONE


def listed(found: list[str], otherwise: str = NONE) -> str:
    """The first few, and how many more there are."""
    if len(found) > _LISTED:
        return f"{','.join(found[:_LISTED])} + {len(found) - _LISTED} more..."
    return ",".join(found) or otherwise


def default_name(annotation: str) -> Column:
    """The name of a class, with a word if it is the default one by an annotation."""

    def cell(obj: Object, _: float) -> str:
        default = mapping(obj, "metadata", "annotations").get(annotation) == "true"
        return f"{at(obj, 'metadata', 'name')}{' (default)' if default else ''}"

    return NAME._replace(cell=cell)


def containers(*template: str) -> tuple[Column, Column]:
    """The names and images of a pod template, both for wide tables."""

    def joined(field: str) -> Callable[[Object, float], str]:
        return lambda obj, _: ",".join(
            str(at(each, field) or "") for each in items(obj, *template, "spec", "containers")
        )

    return Column("Containers", joined("name"), wide=True), Column("Images", joined("image"), wide=True)


def label_selector(*path: str) -> Column:
    return Column("Selector", lambda obj, _: selector(at(obj, *path)), wide=True)


# --- tables


def table_head(columns: tuple[Column, ...], metadata: Mapping[str, Any], *, headers: bool = True) -> Object:
    """What stands before the rows of a table; in a watch, `headers` are wanted with the first event only."""
    return {
        "kind": "Table",
        "apiVersion": META_V1,
        "metadata": dict(metadata),
        "columnDefinitions": [column.header() for column in columns] if headers else None,
    }


def render_row(columns: tuple[Column, ...], obj: Object, now: float, include: str) -> Object:
    """The row of one object at a moment (seconds since the epoch).

    `include` is ``None``, ``Metadata`` or ``Object``, as the query parameter has it.
    """
    row: Object = {"cells": [column.cell(obj, now) for column in columns]}
    if include == "Object":
        row["object"] = obj
    elif include != "None":
        row["object"] = partial_metadata(obj)
    return row


def partial_metadata(obj: Object) -> Object:
    """An object cut down to its metadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": META_V1, "metadata": obj.get("metadata", {})}
