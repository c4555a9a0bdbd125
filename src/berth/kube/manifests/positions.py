"""The lines on which fields of manifests stand. Files are read again, and only those asked about."""

from __future__ import annotations

import re
from pathlib import Path

from berth.kube.manifests.manifest import STANDARD_INPUT, Source
from berth.kube.text import json_reader
from berth.kube.text.decoding import DecodeError
from berth.kube.text.lines import Segments, json_line, segments, yaml_line

_breaks = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # as YAML counts lines
_next_document = re.compile(r"---(\s|$)").match


class Positions:
    """Args:
    stdin: What was read from standard input, if it was.
    """

    def __init__(self, stdin: bytes = b"") -> None:
        self._stdin = stdin
        self._contents: dict[str, bytes] = {}
        self._lines: dict[str, list[str]] = {}
        self._items: dict[str, list[tuple[int, str]]] = {}

    def line(self, source: Source, path: str) -> int | None:
        """The line, counted from 1, of a field in an object; None if nobody knows."""
        if source.file not in self._contents:
            self._contents[source.file] = self._content(source.file)
        if not self._contents[source.file]:
            return None
        where = segments(path)
        if source.line:
            inner: Segments = () if source.item is None else ("items", source.item)
            return source.line - 1 + yaml_line(self._document(source), (*inner, *where))
        return self._json_line(source, where)

    def _content(self, file: str) -> bytes:
        if file == STANDARD_INPUT:
            return self._stdin
        try:
            return Path(file).read_bytes()
        except OSError:
            return b""  # it was there a moment ago

    # --- YAML ------------------------------------------------------------------------------------

    def _document(self, source: Source) -> str:
        """The text from the line on which a document begins to the next one."""
        lines = self._lines.get(source.file)
        if lines is None:
            text = self._contents[source.file].decode("utf-8-sig", errors="replace")
            lines = self._lines[source.file] = _breaks.split(text)
        first = end = source.line - 1
        while end < len(lines) and (end == first or not _next_document(lines[end])):
            end += 1
        return "\n".join(lines[first:end])

    # --- JSON ------------------------------------------------------------------------------------

    def _json_line(self, source: Source, path: Segments) -> int | None:
        try:
            if source.item is None:
                return json_line(self._contents[source.file].decode("utf-8-sig"), path)
            before, text = self._json_items(source.file)[source.item]
            return before + json_line(text, path)
        except (json_reader.JsonError, DecodeError, UnicodeDecodeError, IndexError, RecursionError):
            return None

    def _json_items(self, file: str) -> list[tuple[int, str]]:
        """The items of a list, each with the number of lines that end before it."""
        found = self._items.get(file)
        if found is not None:
            return found
        content, position, line = self._contents[file], 0, 0
        found = self._items[file] = []
        for item in json_reader.items(json_reader.head(content.removeprefix(b"\xef\xbb\xbf"))) or ():
            raw = bytes(item)
            start = content.index(raw, position)
            line += content.count(b"\n", position, start)
            found.append((line, raw.decode()))
            position = start + len(raw)
            line += raw.count(b"\n")
        return found
