"""`berth evaluate`: recorded cases in, verdicts out, one JSON object a line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click
import msgspec

from berth.engine.cases import CaseError, decode_case, evaluate_case

if TYPE_CHECKING:
    from collections.abc import Iterator


@click.command("evaluate")
@click.argument("file", default="-", metavar="[FILE]")
@click.option(
    "--exact-namespace-selectors",
    is_flag=True,
    help="Read a namespaceSelector of only NotIn and DoesNotExist as documented, not as kube-scheduler does.",
)
@click.pass_context
def command(ctx: click.Context, *, file: str, exact_namespace_selectors: bool) -> None:
    """Judge cases: a small cluster and a pod a line in, the whole verdict a line out.

    FILE holds JSON lines; without it, or with -, they are read from standard input. A line that cannot be
    judged gives a line with "error", the others still run, and the exit code is 1.
    """
    out = sys.stdout.buffer
    failed = False
    with _opened(file) as lines:
        for number, line in _numbered(lines):
            answer, ok = _answer(line, number, exact=exact_namespace_selectors)
            failed |= not ok
            out.write(answer + b"\n")
            out.flush()
    ctx.exit(1 if failed else 0)


def _opened(file: str) -> BinaryIO:
    if file == "-":
        return sys.stdin.buffer
    try:
        return Path(file).open("rb")
    except FileNotFoundError:
        raise click.ClickException(f"{file}: no such file") from None
    except OSError as error:
        raise click.ClickException(f"{file}: cannot be read: {error.strerror}") from None


def _numbered(lines: BinaryIO) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield number, line


def _answer(line: bytes, number: int, *, exact: bool) -> tuple[bytes, bool]:
    try:
        verdict = evaluate_case(decode_case(line), exact_namespace_selectors=exact)
        return msgspec.json.encode(verdict), True
    except CaseError as error:
        message = str(error)
    except RecursionError:
        message = "it nests too deeply"
    except Exception as error:  # noqa: BLE001 - whatever is wrong with one line, the others still run
        message = f"unexpected {type(error).__name__}: {error}"
    failure: dict[str, Any] = {"id": _id_of(line), "line": number, "error": f"line {number}: {message}"}
    return msgspec.json.encode(failure), False


class _Identified(msgspec.Struct):
    id: Any = None


def _id_of(line: bytes) -> object:
    """The case's id if the line is JSON at all."""
    try:
        return msgspec.json.decode(line, type=_Identified).id
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
