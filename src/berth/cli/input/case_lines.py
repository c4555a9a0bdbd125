"""Cases in, answers out, one JSON object a line: what the two `evaluate` commands share."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import click
import msgspec

from berth.cli.input.validating import IGNORE, STRICT
from berth.cli.output.tables import tell
from berth.kube.manifests.unknown_fields import fields_beyond, hint, sentence, without_indexes
from berth.kube.schema import SchemaNode, SchemaStruct
from berth.kube.validation.errors import Path as FieldPath
from berth.kube.validation.errors import render

_C = TypeVar("_C")
GZIP = b"\x1f\x8b"


def judge_lines(
    file: str, fields: CaseFields, decode: Callable[[bytes], _C], evaluate: Callable[[_C], object]
) -> int:
    """Write the answer to every line of a file, ``-`` for standard input; the exit code.

    Args:
        file: JSON lines, which may be compressed with gzip.
        fields: Looks for unknown fields; its `refusal` is also what `decode` raises for a line that is no
            case.
        decode: Line -> case.
        evaluate: Case -> answer.
    """

    def judge(line: bytes, number: int) -> object:
        case = decode(line)
        fields.check(line, number)
        return evaluate(case)

    out = sys.stdout.buffer
    good = True
    with _opened(file) as lines:
        for number, line in _numbered(file, lines):
            answer, ok = _answer(line, number, judge, fields.refusal)
            good &= ok
            out.write(answer + b"\n")
            out.flush()
    fields.sum_up()
    return 0 if good else 1


@contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        opened = Path(file).open("rb")  # noqa: SIM115 - what goes wrong later is another matter
    except FileNotFoundError:
        raise click.ClickException(f"{file}: no such file") from None
    except OSError as error:
        raise click.ClickException(f"{file}: cannot be read: {error.strerror}") from None
    with opened:
        packed = opened.peek(len(GZIP))[: len(GZIP)] == GZIP
        yield cast("BinaryIO", gzip.GzipFile(fileobj=opened)) if packed else opened


def _numbered(file: str, lines: BinaryIO) -> Iterator[tuple[int, bytes]]:
    try:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield number, line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise click.ClickException(f"{file}: cannot be unpacked: {error}") from None


def _answer(
    line: bytes, number: int, judge: Callable[[bytes, int], object], bad: type[Exception]
) -> tuple[bytes, bool]:
    try:
        return msgspec.json.encode(judge(line, number)), True
    except bad as error:
        message = str(error)
    except RecursionError:
        message = "it nests too deeply"
    except Exception as error:  # noqa: BLE001 - whatever is wrong with one line, the others still run
        message = f"unexpected {type(error).__name__}: {error}"
    failure: dict[str, Any] = {"id": _id_of(line), "line": number, "error": f"line {number}: {message}"}
    return msgspec.json.encode(failure), False


class _CaseHead(msgspec.Struct):
    id: Any = None


class _Line(_CaseHead):
    case: _CaseHead | None = None


def _id_of(line: bytes) -> object:
    """The case's id, at the top or in `case`, if the line is JSON at all."""
    for form in (_Line, _CaseHead):
        try:
            found = msgspec.json.decode(line, type=form)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        return found.case.id if isinstance(found, _Line) and found.case is not None else found.id
    return None


# --- unknown fields ---------------------------------------------------------------------------------------


class CaseFields:
    """Looks for unknown fields in cases.

    Args:
        validate: Whether they are ignored, warned of or refused.
        objects: The objects in a case, by field; other fields are not checked.
        refusal: What is raised in a strict command.
    """

    def __init__(self, validate: str, objects: Mapping[str, SchemaNode], refusal: type[Exception]) -> None:
        self._validate = validate
        self.refusal = refusal
        case = _open_struct("case", objects)
        self._wrapped = _open_struct("line", {**objects, "case": case})
        self._lines: Counter[FieldPath] = Counter()

    def check(self, line: bytes, number: int) -> None:
        """Warn about the line if it is the first with an unknown field, or refuse it."""
        if self._validate == IGNORE:
            return
        seen: set[FieldPath] = set()
        for place, name, value in fields_beyond(self._wrapped, msgspec.Raw(line)):
            path = (*place.path, name)
            said = sentence(path, hint(place, name, value))
            if self._validate == STRICT:
                raise self.refusal(said)
            anywhere = without_indexes(path)
            if anywhere not in self._lines:
                tell("warning", f"line {number}: {said}")
            seen.add(anywhere)
        self._lines.update(seen)

    def sum_up(self) -> None:
        """Print how many lines have each unknown field, if it is more than the one warned of."""
        for path, lines in self._lines.items():
            if lines > 1:
                tell("warning", f"{render(path)}: unknown field in {lines} lines")


def _open_struct(name: str, fields: Mapping[str, SchemaNode]) -> SchemaNode:
    return SchemaNode(type="object", struct=SchemaStruct(name, lambda: fields), preserve_unknown=True)
