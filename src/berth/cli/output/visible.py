"""Untrusted text on a terminal: characters that would move the cursor or hide something are escaped."""

from __future__ import annotations

import io
import os
import re
import sys

# Control characters except tabs and ends of lines, and characters that change the writing direction.
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069"
_control = re.compile(f"[{_CONTROLS}]")
_colour_or_control = re.compile(rf"\x1b\[[0-9;]*m|[{_CONTROLS}]")


def visible(text: str) -> str:
    """The text with its invisible characters escaped."""
    return _control.sub(_spelt, text)


def _spelt(found: re.Match[str]) -> str:
    code = ord(found[0][0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


class _VisibleStream(io.TextIOWrapper):
    """Standard output that escapes invisible characters; Berth's own colours pass."""

    colours = False

    def write(self, text: str, /) -> int:
        super().write(_colour_or_control.sub(self._keep_colour, text) if self.colours else visible(text))
        return len(text)

    @staticmethod
    def _keep_colour(found: re.Match[str]) -> str:
        return found[0] if len(found[0]) > 1 else _spelt(found)


def guard_output() -> None:
    """Escape invisible characters in all that is written to standard output from now on."""
    stream = sys.stdout
    if type(stream) is not io.TextIOWrapper:
        return
    options = (stream.encoding, stream.errors, None, stream.line_buffering, stream.write_through)
    colours = stream.isatty() or os.environ.get("CLICOLOR_FORCE", "0") not in ("", "0")
    guarded = _VisibleStream(stream.detach(), *options)
    guarded.colours = colours
    sys.stdout = guarded
