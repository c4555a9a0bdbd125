"""Tables for people, in kubectl's manner: capitals on top, three spaces between columns."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

import click

from berth.kube.text.words import first_of

NONE = "<none>"
_GAP = "   "
_LEAST_WRAPPED = 30

Style = Callable[[str], str | None]
YES_OR_NO: Style = {"yes": "green", "no": "red"}.get


@dataclass(frozen=True, slots=True)
class Terminal:
    """The properties of standard output, and how much is to be listed.

    Attributes:
        color: Whether there are colours.
        width: Its columns; None for any number.
        wide: Whether everything is to be listed, however much it is (`-o wide`).
    """

    color: bool = False
    width: int | None = None
    wide: bool = False

    def styled(self, text: str, color: str | None, *, bold: bool = False) -> str:
        return click.style(text, fg=color, bold=bold or None) if self.color and (color or bold) else text

    def title(self, text: str) -> str:
        return self.styled(text, None, bold=True)

    def first_of(self, names: Sequence[str], most: int) -> str:
        """The first names, and how many more there are; if everything is wanted, all of them."""
        return first_of(names, len(names) if self.wide else most)


def terminal(*, wide: bool = False) -> Terminal:
    """Colours go to terminals only, unless the environment says otherwise (no-color.org, CLICOLOR_FORCE)."""
    is_terminal = sys.stdout.isatty()
    forced = os.environ.get("CLICOLOR_FORCE", "0") not in ("", "0")
    color = (is_terminal or forced) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Terminal(color, _columns(sys.stdout) if is_terminal else None, wide)


def _columns(stream: TextIO) -> int:
    """The width of a terminal; shutil would ask the original stdout, which may be closed by now."""
    try:
        return int(os.environ.get("COLUMNS") or 0) or os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def table(
    headers: Sequence[str], rows: Iterable[Sequence[object]], term: Terminal, style: Style | None = None
) -> str:
    """The table as text; the last column is wrapped where the terminal ends."""
    cells = [[shown(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    room = None if term.width is None else term.width - sum(widths[:-1]) - len(_GAP) * (len(widths) - 1)
    lines = [term.title(_line(headers, widths))]
    for row in cells:
        lines += _wrapped(row, widths, room, term, style)
    return "\n".join(lines)


def first_rows(
    headers: Sequence[str],
    rows: Sequence[Sequence[object]],
    term: Terminal,
    style: Style | None = None,
    *,
    most: int,
    of: str,
) -> str:
    """A table of the first rows, and how many there are, `of` what, if not all are shown."""
    if term.wide or len(rows) <= most:
        return table(headers, rows, term, style)
    return f"{table(headers, rows[:most], term, style)}\n({len(rows)} {of}; -o wide lists every one)"


def titled_rows(
    title: str,
    headers: Sequence[str],
    rows: Sequence[Sequence[object]],
    term: Terminal,
    style: Style | None = None,
    *,
    most: int,
    of: str,
) -> Iterator[str]:
    """A title and `first_rows`; nothing without rows."""
    if rows:
        yield term.title(title)
        yield first_rows(headers, rows, term, style, most=most, of=of)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _wrapped(
    row: list[str], widths: list[int], room: int | None, term: Terminal, style: Style | None
) -> Iterable[str]:
    *cells, last = row
    lines = [last]
    if room is not None and len(last) > room:
        lines = textwrap.wrap(last, max(room, _LEAST_WRAPPED), break_on_hyphens=False) or [""]
    texts = [*(cell.ljust(width) for cell, width in zip(cells, widths, strict=False)), lines[0]]
    colours = [style(cell) if style else None for cell in row]
    yield _GAP.join(map(term.styled, texts, colours)).rstrip()
    indent = " " * (sum(widths[:-1]) + len(_GAP) * (len(widths) - 1))
    for more in lines[1:]:
        yield f"{indent}{more}"


def shown(value: object) -> str:
    if value is None or value == "":
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def indented(text: str, indent: str, term: Terminal, hanging: str | None = None) -> str:
    """A paragraph, wrapped on a terminal, the lines after the first under its text or as `hanging` says."""
    if term.width is None:
        return f"{indent}{text}"
    return textwrap.fill(
        text,
        max(term.width, _LEAST_WRAPPED),
        initial_indent=indent,
        subsequent_indent=" " * len(indent) if hanging is None else hanging,
        break_on_hyphens=False,
        break_long_words=False,
    )


def tell(label: str, *texts: str) -> None:
    """A line each on stderr such as ``note: …``, wrapped if that is a terminal."""
    term = Terminal(width=_columns(sys.stderr) if sys.stderr.isatty() else None)
    for text in texts:
        click.echo(indented(text, f"{label}: ", term, hanging="  "), err=True)


def first_cause(error: BaseException) -> BaseException:
    """The error that came first in a group of errors from several tasks."""
    return first_cause(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error
