"""YAML as Kubernetes reads it (YAML 1.1 by way of sigs.k8s.io/yaml).

Differences from PyYAML's own loader: plain scalars that look like dates or like ``22:30`` stay
strings, exponents need no dot, a key may not occur twice in a mapping, and keys are strings.
Aliases are followed, but a document may not grow out of proportion by them, nor nest deeper
than anything sensible; values are built from parser events, so neither costs memory or stack.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import yaml

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML without libyaml: slower, otherwise the same
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

from berth.kube.text.decoding import YamlError

YamlParser = _Loader

_MAX_DEPTH = 200
# Longer numbers are taken for text: reading one takes time by the square of its length.
_MAX_DIGITS = 1000
# How many more values a document may hold than are written in it, unless said otherwise.
_MAX_EXPANDED = 1_000_000

# So much text weighs as much as one more value.
_TEXT_OF_A_VALUE = 100

_EVENTS_A_REPORT = 1000
_FLOAT_END = 10**308

_TAG = "tag:yaml.org,2002:"
MERGE_KEY = "<<"
_WORDS: dict[str, object] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_integer = re.compile(
    r"[-+]?(?:0b_*[01][01_]*|0x_*[0-9a-fA-F][0-9a-fA-F_]*|0o?_*[0-7][0-7_]*|0_*|[1-9][0-9_]*)"
).fullmatch
_float = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?").fullmatch
_NUMBER_START = frozenset("+-.0123456789")


@dataclass(frozen=True, slots=True)
class YamlDocument:
    value: Any
    line: int


def read(
    text: str,
    progress: Callable[[int], None] | None = None,
    *,
    most_expanded: int = _MAX_EXPANDED,
    repeated: list[str] | None = None,
) -> Iterator[YamlDocument]:
    """The documents of a YAML stream; empty ones are left out.

    `progress` is told the characters read. By aliases a document may hold `most_expanded` more values than
    are written in it. `repeated` takes in the keys that are set twice in a mapping, of which the last then
    counts; without it such a key is an error.
    """
    parser = YamlParser(text)
    try:
        yield from _documents(parser, progress, most_expanded, repeated)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlError(error.problem or str(error), mark.line + 1 if mark else None) from None
    except yaml.YAMLError as error:
        words = " ".join(str(error).split())
        raise YamlError(words.partition(' in "<unicode string>"')[0]) from None  # what nobody has written
    finally:
        parser.dispose()


def _documents(
    parser: Any,  # noqa: ANN401 - PyYAML's C parser has no useful type
    progress: Callable[[int], None] | None,
    most_expanded: int,
    repeated: list[str] | None,
) -> Iterator[YamlDocument]:
    builder, line = _Builder(most_expanded, repeated), 1
    for number in count():
        event = parser.get_event()
        if progress is not None and number % _EVENTS_A_REPORT == 0:
            progress(event.start_mark.index)
        if isinstance(event, yaml.StreamEndEvent):
            return
        if isinstance(event, yaml.DocumentStartEvent):
            builder = _Builder(most_expanded, repeated)
            line = _line(event)
        elif isinstance(event, yaml.DocumentEndEvent):
            if builder.value is not None:
                yield YamlDocument(builder.value, line)
        elif not isinstance(event, yaml.StreamStartEvent):
            builder.take(event)


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


# --- values from events ------------------------------------------------------------------------


@dataclass(slots=True)
class _Frame:
    """A collection being read."""

    value: dict[str, Any] | list[Any]
    anchor: str | None
    size: int = 1  # values in it, those behind aliases included
    key: str | None = None
    merged: list[dict[str, Any]] = field(default_factory=list)


class _Builder:
    def __init__(self, most_expanded: int, repeated: list[str] | None) -> None:
        self.value: Any = None
        self._most_expanded = most_expanded
        self._repeated = repeated
        self._stack: list[_Frame] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._written = 0

    def take(self, event: Any) -> None:  # noqa: ANN401
        line = _line(event)
        self._written += 1
        if isinstance(event, yaml.ScalarEvent):
            value, size = _scalar(event, line), 1 + len(event.value) // _TEXT_OF_A_VALUE
            self._written += size - 1
            if event.anchor:
                self._anchors[event.anchor] = value, size
            self._add(value, size, line)
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise YamlError(f"found undefined alias {event.anchor!r}", line)
            value, size = self._anchors[event.anchor]
            self._add(value, size, line)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            if len(self._stack) >= _MAX_DEPTH:
                raise YamlError(f"nested more than {_MAX_DEPTH} levels deep", line)
            mapping = isinstance(event, yaml.MappingStartEvent)
            self._stack.append(_Frame({} if mapping else [], event.anchor))
        else:
            self._close(line)

    def _close(self, line: int) -> None:
        frame = self._stack.pop()
        if isinstance(frame.value, dict):
            for merged in frame.merged:
                for key, value in merged.items():
                    frame.value.setdefault(key, value)
        if frame.anchor:
            # Only now: an anchor that contains itself would have no end.
            self._anchors[frame.anchor] = frame.value, frame.size
        self._add(frame.value, frame.size, line)

    def _add(self, value: Any, size: int, line: int) -> None:  # noqa: ANN401
        if not self._stack:
            self.value = value
            return
        frame = self._stack[-1]
        frame.size += size
        if frame.size > self._most_expanded + self._written:
            raise YamlError("document contains excessive aliasing", line)
        if isinstance(frame.value, list):
            frame.value.append(value)
        elif frame.key is None:
            frame.key = _key(value, line)
        else:
            self._set(frame, frame.value, value, line)

    def _set(self, frame: _Frame, mapping: dict[str, Any], value: Any, line: int) -> None:  # noqa: ANN401
        key, frame.key = frame.key or "", None
        if key == MERGE_KEY:
            sources = value if isinstance(value, list) else [value]
            if not all(isinstance(source, dict) for source in sources):
                raise YamlError("map merge requires map or sequence of maps as the value", line)
            frame.merged += sources
            return
        if key in mapping:
            if self._repeated is None:
                raise YamlError(f'key "{key}" is set twice in the same mapping', line)
            self._repeated.append(f'line {line}: key "{key}" already set in map')
        mapping[key] = value


def _key(value: object, line: int) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise YamlError("a key must be a string", line)


def _scalar(event: yaml.ScalarEvent, line: int) -> object:
    text: str = event.value
    if event.tag is None or event.tag == "!":
        # implicit[0]: a plain scalar, whose type is to be guessed
        return _plain(text) if event.implicit[0] and event.tag is None else text
    kind = event.tag.removeprefix(_TAG)
    if kind in ("str", "binary") or kind == event.tag:
        return text
    value = _plain(text)
    if kind == "float" and isinstance(value, int) and abs(value) < _FLOAT_END:
        return float(value)
    if type(value).__name__.replace("NoneType", "null") != kind:
        raise YamlError(f'cannot decode "{text}" as a !!{kind}', line)
    return value


def _plain(text: str) -> object:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_START or len(text) > _MAX_DIGITS:
        return text
    if _integer(text):
        return _parse_int(text.replace("_", ""))
    if not _float(text):
        return text
    value = float(text)
    return text if math.isinf(value) else value  # a float that is out of range is none


def _parse_int(text: str) -> int:
    """The integer with all its digits; Kubernetes' reader would round those beyond 64 bits."""
    digits = text.lstrip("+-")
    if digits.startswith(("0x", "0b", "0o")):
        return int(text, 0)
    return int(text, 8 if digits.startswith("0") else 10)
