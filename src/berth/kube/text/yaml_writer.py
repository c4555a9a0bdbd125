"""JSON values as YAML, in pieces: what is written first can be sent before the rest is looked at."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

# What reads as the same text in YAML 1.1 and 1.2 without quotes, unless it is one of the words.
_plain = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*").fullmatch
# In any mixture of capitals, to be safe.
_WORDS = frozenset(("null", "true", "false", "yes", "no", "on", "off", "y", "n"))
# JSON leaves these as they are; YAML breaks lines at some and takes none of the others.
_odd = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_quote = msgspec.json.Encoder().encode


def write(value: Any) -> Iterator[str]:  # noqa: ANN401 - any JSON value
    """The value as one document, line by line."""
    if isinstance(value, dict) and value:
        yield from _mapping(value, "")
    elif isinstance(value, list) and value:
        yield from write_items(value)
    else:
        yield _scalar(value) + "\n"


def _mapping(value: dict[str, Any], indent: str, first: str | None = None) -> Iterator[str]:
    """Its lines; `first` is the beginning of the first one, if that is not just the indent."""
    start = indent if first is None else first
    for key, item in value.items():
        head = f"{start}{_text(key)}:"
        start = indent
        if isinstance(item, dict) and item:
            yield f"{head}\n"
            yield from _mapping(item, indent + "  ")
        elif isinstance(item, list) and item:
            yield f"{head}\n"
            yield from write_items(item, indent)
        else:
            yield f"{head} {_scalar(item)}\n"


def write_items(items: Iterable[Any], indent: str = "") -> Iterator[str]:
    """The elements of a list; without an indent, of one that is the value of a key at the top."""
    for item in items:
        if isinstance(item, dict) and item:
            yield from _mapping(item, indent + "  ", f"{indent}- ")
        elif isinstance(item, list) and item:
            yield f"{indent}-\n"
            yield from write_items(item, indent + "  ")
        else:
            yield f"{indent}- {_scalar(item)}\n"


def _scalar(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, list):
        return "[]"
    return _quote(value).decode()


def _text(text: str) -> str:
    if _plain(text) and text.lower() not in _WORDS:
        return text
    return _odd.sub(lambda found: f"\\u{ord(found[0]):04x}", _quote(text).decode())
