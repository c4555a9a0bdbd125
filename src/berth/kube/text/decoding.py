"""Decoded YAML or JSON to typed views, with errors that name the field, its value and what may be meant."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import TypeVar

import msgspec

from berth.kube.objects import Struct
from berth.kube.text.near import meant, possible

_T = TypeVar("_T")

_message = re.compile(r"(?P<what>.*?)(?: - at `(?P<keys>key in )?\$(?P<path>.*)`)?", re.DOTALL).fullmatch
_expected = re.compile(r"Expected `(?P<wanted>[^`]*)`, got `(?P<got>[^`]*)`").fullmatch
_bound = re.compile(r"Expected `int` (?P<sign>[<>])= (?P<limit>-?[0-9]+)").fullmatch
_segments = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]").findall

# The decoder's names of types: what they are in Python, and in words.
_TYPES: dict[str, tuple[type, str]] = {
    "str": (str, "a string"),
    "int": (int, "an integer"),
    "float": (float, "a number"),
    "bool": (bool, "true or false"),
    "array": (list, "a list"),
    "object": (dict, "a mapping"),
    "null": (type(None), "null"),
}
# Where the integers of Kubernetes end.
_WIDTHS = {
    **dict.fromkeys((-(2**31), 2**31 - 1), "a 32-bit integer"),
    **dict.fromkeys((-(2**63), 2**63 - 1), "a 64-bit integer"),
}
TOO_DEEP = "nested too deeply"


class MalformedTextError(ValueError):
    """The text is not what it should be; `line` counts from 1."""

    def __init__(self, detail: str, line: int | None = None) -> None:
        super().__init__(f"line {line}: {detail}" if line else detail)
        self.detail = detail
        self.line = line


class YamlError(MalformedTextError):
    """The text is not YAML that Kubernetes would read."""


class DecodeError(ValueError):
    """A value does not have the form its field needs; `path` is empty for the object itself."""

    def __init__(self, path: str, detail: str, value: object = None) -> None:
        super().__init__(f"{path}: {detail}" if path else detail)
        self.path = path
        self.detail = detail
        self.value = value


def convert(raw: object, kind: type[_T]) -> _T:
    """`raw`, as YAML or JSON decoding gave it, as a `kind`."""
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise explain(error, raw) from None
    except RecursionError:
        raise DecodeError("", TOO_DEEP) from None


def explain(error: msgspec.ValidationError, raw: object) -> DecodeError:
    """The decoder's complaint about `raw` in terms of its fields."""
    match = _message(str(error))
    if match is None:
        return DecodeError("", str(error))
    path, value, what = "", raw, match["what"]
    expected = _expected(what)
    for name, index in _segments(match["path"] or ""):
        if index == "...":
            key, value = _culprit(value, expected["got"] if expected else "")
            path += f"[{key}]"
        elif index:
            path += f"[{index}]"
            value = value[int(index)] if isinstance(value, list) else None
        else:
            path = f"{path}.{name}" if path else name
            value = value.get(name) if isinstance(value, dict) else None
    if (bound := _bound(what)) is not None:
        limit, side = int(bound["limit"]), "at most" if bound["sign"] == "<" else "at least"
        width = _WIDTHS.get(limit) or f"an integer of {side} {limit}"
        return DecodeError(path, f"expected {width}, got {show(value)}", value)
    if expected is None:
        return DecodeError(path, what[:1].lower() + what[1:], value)
    names = [name for name in expected["wanted"].split(" | ") if name != "null"]
    wanted = [_TYPES[name][1] if name in _TYPES else name for name in names]
    return DecodeError(path, f"expected {' or '.join(wanted)}, got {show(value)}", value)


def _culprit(container: object, got: str) -> tuple[object, object]:
    """The entry of a mapping that has the type the decoder did not want."""
    if isinstance(container, dict) and got in _TYPES:
        wrong = _TYPES[got][0]
        for key, value in container.items():
            if isinstance(value, wrong) and (got == "bool" or not isinstance(value, bool)):
                return key, value
    return "...", None


def show(value: object) -> str:
    """A value as a reader of the manifest would recognise it, shortened."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:76]}..."


class UnknownFieldError(ValueError):
    """A field that a view has no place for; `near` is the one that was probably meant."""

    def __init__(self, path: str, known: Collection[str]) -> None:
        super().__init__(f"{path}: unknown field")
        name = path.rpartition(".")[2]
        self.path, self.near = path, meant(known, name) or possible(known, name)


def convert_fully(raw: object, kind: type[_T], path: str = "") -> _T:
    """`raw` as a `kind` that has all its fields; `path` leads to `raw`, and is in messages.

    Raises:
        DecodeError: a value does not have the form its field needs.
        UnknownFieldError: there is no such field.
    """
    try:
        view = convert(raw, kind)
    except DecodeError as error:
        raise DecodeError(_below(path, error.path), error.detail, error.value) from None
    _refuse_unknown(raw, view, path)
    return view


def _refuse_unknown(raw: object, view: object, path: str) -> None:
    if isinstance(view, Struct) and isinstance(raw, dict):
        names = dict(zip(view.__struct_encode_fields__, view.__struct_fields__, strict=True))
        for key, value in raw.items():
            inner = f"{path}.{key}" if path else str(key)
            if key not in names:
                raise UnknownFieldError(inner, names)
            _refuse_unknown(value, getattr(view, names[key]), inner)
    elif isinstance(view, list) and isinstance(raw, list):
        for i, (value, item) in enumerate(zip(raw, view, strict=True)):
            _refuse_unknown(value, item, f"{path}[{i}]")


def _below(path: str, rest: str) -> str:
    return f"{path}.{rest}" if path and rest and not rest.startswith("[") else path + rest


_TEXTS = frozenset({"labels", "annotations", "matchLabels", "nodeSelector"})
_AMOUNTS = frozenset({"requests", "limits", "capacity", "allocatable", "overhead", "allocatedResources"})
_LABEL_SELECTOR = frozenset({"matchLabels", "matchExpressions"})


def without_nulls(raw: object) -> object:
    """Decoded YAML or JSON as Go reads it.

    A null field is an absent one, but in maps null is a value: the empty text, or no amount. An amount
    that is written as a number has all its digits, however many.

    Raises:
        DecodeError: it nests too deeply.
    """
    try:
        return _without_nulls(raw, "")
    except RecursionError:
        raise DecodeError("", TOO_DEEP) from None


def _without_nulls(raw: object, field: str) -> object:
    if isinstance(raw, dict):
        if field in _AMOUNTS:
            return {key: _amount(value) for key, value in raw.items()}
        if field in _TEXTS or (field == "selector" and not _LABEL_SELECTOR.issuperset(raw)):
            return {key: "" if value is None else value for key, value in raw.items()}
        return {key: _without_nulls(value, key) for key, value in raw.items() if value is not None}
    if isinstance(raw, list):
        return [_without_nulls(item, "") for item in raw]
    return raw


def _amount(value: object) -> object:
    if value is None:
        return 0
    return str(value) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value
