"""The patterns of schemas, in Go's dialect and in linear time: RE2's, of which Go's is a port."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import re2

_CACHED = 64  # each may take as many bytes as RE2 allows a pattern
_INSTRUCTIONS = 64  # so many instructions of a pattern take as long per byte as the rest of the server
_DEFAULTS = 16  # so many defaults are filled in as fast as one field is looked at
_UNICODE = 300  # instructions of a class such as pL
_any_byte = re.compile(r"(?<!\\)(?:\\\\)*\\C").search  # RE2 knows it, Go does not
_numbers = re.compile(r"[{,]([0-9]{1,4})").findall

# What Go calls the errors that RE2 has another word for.
_GO_WORDS = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "unexpected )": "unexpected )",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "trailing \\": "trailing backslash at end of expression",
    "invalid escape sequence": "invalid escape sequence",
}


class PatternError(ValueError):
    """A pattern that Go would not compile; the message is Go's."""


_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


@lru_cache(maxsize=_CACHED)
def compiled(pattern: str) -> Any:  # noqa: ANN401 - RE2 has no types
    """The pattern of RE2; raises PatternError if Go would not compile it."""
    if _any_byte(pattern) and "\\Q" not in pattern:
        raise PatternError("error parsing regexp: invalid escape sequence: `\\C`")
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        said = error.args[0] if error.args else b""
        text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        what, _, where = text.partition(": ")
        why = f"{_GO_WORDS.get(what, what)}: `{where or pattern}`"
        raise PatternError(f"error parsing regexp: {why}") from None


def searcher(pattern: str) -> Callable[[str], object]:
    """Whether a pattern occurs in a text; one that cannot be read, and is stored all the same, does."""
    try:
        found: Callable[[str], object] = compiled(pattern).search
    except PatternError:
        return lambda _: True
    return found


def weight(schema: Mapping[str, Any]) -> int:
    """How many times as long as without patterns and defaults it may take to judge a value by a schema.

    Patterns are not compiled for it, only looked at: there may be thousands.
    """
    instructions = defaults = 0
    waiting: list[Any] = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            defaults += "default" in one
            pattern = one.get("pattern")
            if isinstance(pattern, str):
                instructions += _instructions(pattern)
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return 1 + instructions // _INSTRUCTIONS + defaults // _DEFAULTS


def _instructions(pattern: str) -> int:
    """About how many a pattern has at most: its parts, as often as they are repeated."""
    times = max((int(number) for number in _numbers(pattern)), default=1)
    return (len(pattern) + _UNICODE * pattern.count("\\p")) * max(times, 1)
