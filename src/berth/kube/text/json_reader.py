"""JSON manifests, read without building the parts that are not needed.

A dump of a large cluster is one ``List`` of a hundred megabytes.  Its items stay slices of the
text until each is decoded on its own, straight into its typed view; managed fields and most of
the status are skipped by the decoder.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from berth.kube.text.decoding import TOO_DEEP, MalformedTextError, convert, without_nulls
from berth.kube.text.words import told

_T = TypeVar("_T")

_MAX_DIGITS = 1000
_MOST_REPEATED = 100  # paths of keys that are told
_byte_position = re.compile(r"\(byte (\d+)\)")
# What decoders raise over a text that is no JSON, or that they cannot take.
_FAILURES = (msgspec.DecodeError, json.JSONDecodeError, RecursionError, UnicodeDecodeError)


class JsonError(MalformedTextError):
    """The text is not JSON."""


class Head(msgspec.Struct, rename="camel", gc=False):
    """As much of an object as tells what it is; its items, if it has any, remain a slice of the text."""

    api_version: object = None
    kind: object = None
    items: msgspec.Raw = msgspec.Raw()


_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


def _decoder(kind: type[_T]) -> msgspec.json.Decoder[_T]:
    known = _decoders.get(kind)
    if known is None:
        known = _decoders[kind] = msgspec.json.Decoder(kind)
    return known


def items(head: Head) -> list[msgspec.Raw] | None:
    """The items of a list, undecoded; None if it has no such thing."""
    if bytes(memoryview(head.items)[:1]) != b"[":
        return None
    return _decoder(list[msgspec.Raw]).decode(head.items)


def decode(text: bytes | msgspec.Raw, kind: type[_T]) -> _T:
    """The object as a `kind`; null stands for an absent field.

    Raises:
        JsonError: this is not JSON.
        DecodeError: it is JSON, but not an object of that kind.
    """
    try:
        return _decoder(kind).decode(text)
    except msgspec.ValidationError:
        # The slow way: without nulls it may be one; if not, the error tells the field.
        return convert(without_nulls(to_builtins(text)), kind)
    except _FAILURES as error:
        raise _explained(error, text) from None


def to_builtins(text: bytes | msgspec.Raw) -> Any:  # noqa: ANN401 - whatever the JSON holds
    """The value with all its digits, as text where no float can hold them; raises JsonError if it is none."""
    try:
        try:
            return msgspec.json.decode(text)
        except msgspec.ValidationError:  # a number is out of range
            return json.loads(bytes(memoryview(text)), parse_float=_float, parse_int=_int)
    except _FAILURES as error:
        raise _explained(error, text) from None


def _float(text: str) -> float | str:
    return number if math.isfinite(number := float(text)) else text


def _int(text: str) -> int | str:
    return int(text) if len(text) <= _MAX_DIGITS else text


# --- keys ---------------------------------------------------------------------------------------


class _RepeatedKey(ValueError):  # noqa: N818 - a finding, not a failure
    """Its argument is the key."""


def _refuse_repeated(pairs: list[tuple[str, object]]) -> None:
    if len(dict(pairs)) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _RepeatedKey(key)
            seen.add(key)


# From an object to something in it: the way to what holds that, and its key or index there.
_Way = tuple["_Way | None", str | int]

# Numbers may have any length here: they are not looked at.
_keys = json.JSONDecoder(object_pairs_hook=_refuse_repeated, parse_int=str, parse_float=str)
_pairs = json.JSONDecoder(object_pairs_hook=tuple, parse_int=str, parse_float=str)


def repeated_name(text: str) -> str | None:
    """A key that an object in well-formed `text` has twice, without the path to it."""
    try:
        _keys.decode(text)
    except _RepeatedKey as found:
        return str(found)
    except RecursionError:
        pass  # so deep that decoding will fail as well
    return None


def repeated_keys(text: bytes | msgspec.Raw) -> list[str]:
    """The paths of keys that objects in well-formed `text` have twice, in its order; not all of many."""
    try:
        written = str(memoryview(text), "utf-8")
        _keys.decode(written)
    except _RepeatedKey:
        return list(told(_paths_of_repeated(_pairs.decode(written)), _MOST_REPEATED, len))
    except _FAILURES as error:
        raise _explained(error, text) from None
    return []


def _paths_of_repeated(value: object) -> Iterator[str]:
    waiting: list[tuple[_Way | None, object]] = [(None, value)]
    while waiting:
        way, value = waiting.pop()
        if isinstance(value, list):
            waiting += [((way, i), item) for i, item in enumerate(value)][::-1]
        elif isinstance(value, tuple):
            counts = Counter(key for key, _ in value)
            yield from (_path((way, key)) for key, times in counts.items() if times > 1)
            waiting += [((way, key), item) for key, item in value][::-1]


def _path(way: _Way | None) -> str:
    """A way as text; only made for paths that are reported, since keys may be long."""
    steps = []
    while way is not None:
        way, last = way
        steps.append(f"[{last}]" if isinstance(last, int) else f".{last}")
    return "".join(reversed(steps)).removeprefix(".")


# --- errors -------------------------------------------------------------------------------------


def _explained(error: Exception, text: bytes | msgspec.Raw) -> JsonError:
    """One of the failures, in words and with its line."""
    if isinstance(error, RecursionError):
        return JsonError(TOO_DEEP)
    if isinstance(error, UnicodeDecodeError):
        return JsonError("not UTF-8 text")
    if isinstance(error, json.JSONDecodeError):
        return JsonError(error.msg, error.lineno)
    detail = str(error).removeprefix("JSON is malformed: ")
    position = _byte_position.search(detail)
    if position is None:
        return JsonError(detail)
    line = bytes(memoryview(text)[: int(position[1])]).count(b"\n") + 1
    return JsonError(_byte_position.sub("", detail).strip(), line)
