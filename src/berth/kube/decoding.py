"""Decoded YAML or JSON to typed views, with errors that name the field and show its value."""

from __future__ import annotations

import json
import re
from typing import TypeVar

import msgspec

from berth.kube.objects import Struct

_T = TypeVar("_T")

_message = re.compile(r"(?P<what>.*?)(?: - at `(?P<keys>key in )?\$(?P<path>.*)`)?", re.DOTALL).fullmatch
_expected = re.compile(r"Expected `(?P<wanted>[^`]*)`, got `(?P<got>[^`]*)`").fullmatch
_segments = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]").findall

_WORDS = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "null",
}
_TYPES: dict[str, type | tuple[type, ...]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}


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
    if expected is None:
        return DecodeError(path, what[:1].lower() + what[1:], value)
    wanted = [_WORDS.get(name, name) for name in expected["wanted"].split(" | ") if name != "null"]
    return DecodeError(path, f"expected {' or '.join(wanted)}, got {show(value)}", value)


def _culprit(container: object, got: str) -> tuple[object, object]:
    """The entry of a mapping that has the type the decoder did not want."""
    wrong = _TYPES.get(got, ())
    if isinstance(container, dict):
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


def unknown_field(raw: object, view: object) -> str | None:
    """The path of the first field in `raw` that `view`, decoded from it, has no place for."""
    if isinstance(view, Struct) and isinstance(raw, dict):
        names = dict(zip(view.__struct_encode_fields__, view.__struct_fields__, strict=True))
        for key, value in raw.items():
            if key not in names:
                return str(key)
            if (found := unknown_field(value, getattr(view, names[key]))) is not None:
                return found if not found else f"{key}{'' if found.startswith('[') else '.'}{found}"
    elif isinstance(view, list) and isinstance(raw, list):
        for i, (value, item) in enumerate(zip(raw, view, strict=True)):
            if (found := unknown_field(value, item)) is not None:
                return f"[{i}].{found}"
    return None


# Maps in which null is a value: the empty string or zero, as Go decodes it.
_NULL_VALUES: dict[str, object] = {
    **dict.fromkeys(("labels", "annotations", "matchLabels", "nodeSelector"), ""),
    **dict.fromkeys(("requests", "limits", "capacity", "allocatable", "overhead"), 0),
}


def without_nulls(raw: object, field: str = "") -> object:
    """Decoded YAML or JSON without its null fields, which mean the same as absent ones."""
    if isinstance(raw, dict):
        empty = _NULL_VALUES.get(field)
        return {
            key: empty if value is None else without_nulls(value, key)
            for key, value in raw.items()
            if value is not None or empty is not None
        }
    if isinstance(raw, list):
        return [without_nulls(item) for item in raw]
    return raw
