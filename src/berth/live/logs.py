"""Structured logs: a message that never varies, and keys with values beside it.

Text follows klog, one line an entry; JSON is one object a line.  Names and messages come from other
people's objects, so whatever could end a line or move the cursor is escaped.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import math
import os
import sys
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, Literal, TextIO

Form = Literal["text", "json"]

_LEVELS = ((logging.CRITICAL, "fatal"), (logging.ERROR, "error"), (logging.WARNING, "warning"), (0, "info"))
_RESERVED = frozenset({"ts", "level", "caller", "msg", "v", "stacktrace"})


def v(verbosity: int) -> int:
    """The logging level of a klog verbosity: 0 is INFO, 4 is DEBUG."""
    return logging.INFO - verbosity * 5 // 2 if verbosity <= 4 else max(logging.DEBUG + 4 - verbosity, 1)


def say(logger: logging.Logger, level: int, message: str, /, **keys: object) -> None:
    """Log `message` with what it is about: ``say(log, v(2), "Bound pod", pod="shop/web", node="n1")``."""
    if logger.isEnabledFor(level):
        # What `logger.log` does, without looking for the caller: it is the next one.
        logger.handle(_Entry(logger.name, level, message, sys._getframe(1), keys))  # noqa: SLF001


class _Entry(logging.LogRecord):
    """A log record that is cheap to make, since there is one for every binding."""

    def __init__(  # the parent's would split the path, and look up thread and process
        self, name: str, level: int, message: str, caller: FrameType, keys: Mapping[str, object]
    ) -> None:
        self.name, self.levelno, self.levelname = name, level, logging.getLevelName(level)
        self.msg, self.args, self.keys = message, (), keys
        self.pathname, self.lineno = caller.f_code.co_filename, caller.f_lineno
        self.filename, self.module = _file(self.pathname)
        self.funcName = caller.f_code.co_name
        self.created = time.time()
        self.msecs = self.created % 1 * 1000
        self.relativeCreated = 0.0
        self.exc_info = self.exc_text = self.stack_info = None
        self.thread = self.threadName = self.process = self.processName = None


@cache
def _file(path: str) -> tuple[str, str]:
    return Path(path).name, Path(path).stem


def set_up(form: Form = "text", verbosity: int = 0, stream: TextIO | None = None) -> None:
    """Send the logs of this process to a stream, by default stderr; may be repeated.

    Libraries are heard only when they warn.
    """
    # No format below shows threads or processes, so records need not look them up.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = _Handler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root = logging.getLogger()
    for old in [old for old in root.handlers if isinstance(old, _Handler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("berth").setLevel(v(verbosity))


class _Handler(logging.StreamHandler[TextIO]):
    """Ours, to be told from those of others."""


class TextFormatter(logging.Formatter):
    """As klog does it: ``I1115 12:00:00.000000       1 file.py:1] "Message" key="value"``."""

    def __init__(self) -> None:
        super().__init__()
        self._second = (-1, "")  # the last one, and how it is written

    def format(self, record: logging.LogRecord) -> str:
        second = int(record.created)
        if second != self._second[0]:
            when = dt.datetime.fromtimestamp(second)  # noqa: DTZ006 - klog tells local time
            self._second = (second, f"{when:%m%d %H:%M:%S}")
        level, micros = _level(record.levelno)[0].upper(), int((record.created - second) * 1e6)
        head = f"{level}{self._second[1]}.{micros:06d} {os.getpid():7d} {record.filename}:{record.lineno}]"
        line = f"{head} {quote(record.getMessage())}"
        for key, value in _keys(record).items():
            line += f" {key if key.isidentifier() else quote(key)}={_value(value)}"
        if stack := _stack(self, record):
            # Indented, so that no line of it can be taken for an entry.
            lines = "".join(f"\t{_escaped(part)}\n" for part in stack.splitlines())
            line += f" stacktrace=<\n{lines} >"
        return line


class JsonFormatter(logging.Formatter):
    """One object a line; `ts` is in milliseconds, as in the JSON logs of Kubernetes."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "ts": round(record.created * 1000, 3),
            "level": _level(record.levelno),
            "caller": f"{record.filename}:{record.lineno}",
            "msg": record.getMessage(),
        }
        for key, value in _keys(record).items():
            entry[f"{key}_" if key in _RESERVED else key] = _plain(value)
        if stack := _stack(self, record):
            entry["stacktrace"] = stack
        return json.dumps(entry, ensure_ascii=True, default=str, allow_nan=False)


def quote(text: str) -> str:
    """The text in quotation marks, on one line and without surprises for a terminal."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + _escaped(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def _escaped(text: str) -> str:
    escapes = (char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    return text if text.isprintable() else "".join(escapes)


@cache
def _level(number: int) -> str:
    return next(name for least, name in _LEVELS if number >= least)


def _keys(record: logging.LogRecord) -> Mapping[str, object]:
    keys = getattr(record, "keys", None)
    return keys if isinstance(keys, dict) else {}


def _value(value: object) -> str:
    plain = _plain(value)
    if isinstance(plain, str):
        return quote(plain)
    return json.dumps(plain, ensure_ascii=True, default=str, allow_nan=False)


def _plain(value: object) -> Any:  # noqa: ANN401 - what JSON has
    """The value as JSON has it; what JSON does not have becomes text."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return str(value) or type(value).__name__


def _stack(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    if not (record.exc_info or record.stack_info):
        return ""
    raised = record.exc_info
    trace = formatter.formatException(raised) if raised and raised[0] is not None else ""
    return "\n".join(filter(None, (trace, record.stack_info)))
