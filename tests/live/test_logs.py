"""Logs are one entry a line, in klog's style or as JSON, whatever the values hold."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.live import logs
from berth.live.logs import JsonFormatter, TextFormatter, say, v

log = logging.getLogger("berth.tests.logs")
_HEAD = re.compile(r"^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ \S+:\d+\] ")


@pytest.fixture(autouse=True)
def undone() -> Iterator[None]:
    """Leave the logging of the other tests alone."""
    root, ours = logging.getLogger(), logging.getLogger("berth")
    levels = root.level, ours.level
    yield
    root.handlers = [handler for handler in root.handlers if not isinstance(handler, logs._Handler)]
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


def text(stream: io.StringIO) -> list[str]:
    """The lines without their heads."""
    lines = stream.getvalue().splitlines()
    assert all(_HEAD.match(line) for line in lines)
    return [_HEAD.sub("", line) for line in lines]


def test_text_is_klogs() -> None:
    """Severity, time, process, place; then the message in quotation marks and pairs."""
    stream = io.StringIO()
    logs.set_up("text", 0, stream)
    say(log, logging.INFO, "Bound", pod="shop/web-1", nodes=3, ratio=0.5, ok=True, none=None)
    say(log, logging.WARNING, "Careful", err=ValueError("it's bad"), labels={"a": ["b"]})
    assert text(stream) == [
        '"Bound" pod="shop/web-1" nodes=3 ratio=0.5 ok=true none=null',
        '"Careful" err="it\'s bad" labels={"a": ["b"]}',
    ]
    assert [line[0] for line in stream.getvalue().splitlines()] == ["I", "W"]
    assert " test_logs.py:" in stream.getvalue()


def test_json_is_an_object_a_line() -> None:
    """JSON logs are one object a line with time, level, place, message and keys."""
    stream = io.StringIO()
    logs.set_up("json", 0, stream)
    say(log, logging.ERROR, "Failed", pod="shop/web-1", err=OSError("gone"), msg="mine", x=float("nan"))
    entry = json.loads(stream.getvalue())
    assert isinstance(entry.pop("ts"), float)
    assert re.fullmatch(r"test_logs\.py:\d+", entry.pop("caller"))
    assert entry == {
        "level": "error",
        "msg": "Failed",
        "pod": "shop/web-1",
        "err": "gone",
        "msg_": "mine",
        "x": "nan",
    }


def test_plain_logging_works_too() -> None:
    """Plain records are formatted with arguments and indented traces."""
    stream = io.StringIO()
    logs.set_up("text", 0, stream)
    log.info("%s is %d", "this", 1)
    assert text(stream) == ['"this is 1"']
    try:
        json.loads('I1115 12:00:00.000000 1 x.py:1] "Forged"')
    except ValueError:
        log.exception("Broke")
    lines = stream.getvalue().splitlines()[1:]
    assert lines[0].endswith('"Broke" stacktrace=<')
    assert lines[-1] == " >"
    assert all(line.startswith("\t") for line in lines[1:-1])
    error = ValueError('bad\nI1115 12:00:00.000000 1 x.py:1] "Forged"')
    log.error("Broke", exc_info=error)
    assert sum(bool(_HEAD.match(line)) for line in stream.getvalue().splitlines()) == 3


@pytest.mark.parametrize(("verbosity", "heard"), [(0, 0), (2, 2), (3, 3), (4, 4), (6, 6), (10, 10)])
def test_verbosity(verbosity: int, heard: int) -> None:
    """What is said up to that level is heard; libraries are heard when they warn."""
    stream = io.StringIO()
    logs.set_up("text", verbosity, stream)
    for level in range(11):
        say(log, v(level), "Said", level=level)
    assert text(stream) == [f'"Said" level={level}' for level in range(heard + 1)]
    stream.truncate(0)
    logging.getLogger("aiohttp.access").info("not of interest")
    assert not stream.getvalue().strip("\0")


def test_levels_are_in_order() -> None:
    """More verbose is lower; 0 and 4 are Python's own."""
    levels = [v(number) for number in range(14)]
    assert levels == sorted(set(levels), reverse=True)
    assert (v(0), v(4)) == (logging.INFO, logging.DEBUG)


def test_setting_up_again_replaces() -> None:
    """Nothing is said twice."""
    first, second = io.StringIO(), io.StringIO()
    logs.set_up("text", 0, first)
    logs.set_up("json", 0, second)
    say(log, logging.INFO, "Once")
    assert not first.getvalue()
    assert second.getvalue().count("\n") == 1


values = st.one_of(
    st.text(),
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.binary(),
    st.lists(st.text()),
    st.dictionaries(st.text(), st.text()),
    st.text().map(ValueError),
)


def record(message: str, keys: dict[str, Any]) -> logging.LogRecord:
    made = logging.LogRecord("berth", logging.INFO, "file.py", 1, message, None, None)
    made.keys = keys
    return made


@given(st.text(), st.dictionaries(st.text(), values, max_size=4))
def test_no_value_can_forge_a_line(message: str, keys: dict[str, Any]) -> None:
    """Every entry is one line of printable characters, and JSON stays JSON."""
    line = TextFormatter().format(record(message, keys))
    assert line.isprintable()
    assert line.encode().decode() == line
    entry = JsonFormatter().format(record(message, keys))
    assert entry.isascii()
    assert entry.isprintable()
    assert json.loads(entry)["msg"] == message


@given(st.text(), st.text())
def test_values_cannot_pose_as_other_pairs(message: str, value: str) -> None:
    """A quotation mark in a value does not end it."""
    line = TextFormatter().format(record(message, {"pod": value, "node": "n1"}))
    quoted = r'"(?:[^"\\]|\\.)*"'
    assert re.search(rf"\] {quoted} pod={quoted} node=\"n1\"$", line)
