"""Other people's text on a terminal: what would move the cursor or hide something is spelt out."""

from __future__ import annotations

import io
import os
import re
import sys

# Everything that controls a terminal except tabs and ends of lines, and what turns the writing direction.
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069"
_control = re.compile(f"[{_CONTROLS}]")
_colour_or_control = re.compile(rf"\x1b\[[0-9;]*m|[{_CONTROLS}]")


def visible(text: str) -> str:
    """The text with what cannot be seen in it spelt out."""
    return _control.sub(_spelt, text)


def _spelt(found: re.Match[str]) -> str:
    code = ord(found[0][0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


class _VisibleStream(io.TextIOWrapper):
    """Standard output; colours, which we make ourselves, pass where there are any."""

    colours = False

    def write(self, text: str, /) -> int:
        super().write(_colour_or_control.sub(self._keep_colour, text) if self.colours else visible(text))
        return len(text)

    @staticmethod
    def _keep_colour(found: re.Match[str]) -> str:
        return found[0] if len(found[0]) > 1 else _spelt(found)


def guard_output() -> None:
    """From here on nothing is written to standard output that cannot be seen."""
    stream = sys.stdout
    if type(stream) is not io.TextIOWrapper:
        return
    options = (stream.encoding, stream.errors, None, stream.line_buffering, stream.write_through)
    colours = stream.isatty() or os.environ.get("CLICOLOR_FORCE", "0") not in ("", "0")
    guarded = _VisibleStream(stream.detach(), *options)
    guarded.colours = colours
    sys.stdout = guarded
