"""The lines on which fields of manifests stand. Files are read again, and only those asked about.

Readers keep no positions, since next to nobody asks for one.  Who does hands in the text of one document
and a path; of a field that is not there, it is the line of what it would be in.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from berth.kube.manifests.manifest import STANDARD_INPUT, Source
from berth.kube.text import json_reader
from berth.kube.text.decoding import DecodeError
from berth.kube.text.yaml_reader import MERGE_KEY, YamlParser

Segments = tuple[str | int, ...]

_breaks = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # as YAML counts lines
_next_document = re.compile(r"---(\s|$)").match
_LITERAL = "|"
# The parts of ``spec.containers[0].name`` and ``metadata.annotations[a.b/c]``.
_segments = re.compile(r"\[(\d+)\]|\[([^\]]*)\]|([^.\[]+)").findall
_blank = re.compile(r"[ \t\r\n]*").match
_decoder = json.JSONDecoder(parse_int=str, parse_float=str)


class Positions:
    """Finds the lines on which the fields of objects are written; `stdin` is what standard input held."""

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
        where = tuple(int(index) if index else key or name for index, key, name in _segments(path))
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
        found = []
        head = json_reader.decode(content.removeprefix(b"\xef\xbb\xbf"), json_reader.Head)
        for item in json_reader.items(head) or ():
            raw = bytes(item)
            start = content.index(raw, position)
            line += content.count(b"\n", position, start)
            found.append((line, raw.decode()))
            position = start + len(raw)
            line += raw.count(b"\n")
        self._items[file] = found
        return found


# --- within a text --------------------------------------------------------------------------------


def yaml_line(text: str, path: Segments) -> int:
    """The line, counted from 1, of a field in the first document of a YAML text."""
    try:
        node = next(yaml.compose_all(text, YamlParser), None)
    except (yaml.YAMLError, RecursionError):
        return 1
    return 1 if node is None else _descend(node, path) + 1


def _descend(node: yaml.Node, path: Segments) -> int:
    line: int = node.start_mark.line
    for i, segment in enumerate(path):
        if isinstance(node, yaml.ScalarNode):
            return _within_text(node, path[i:], line)
        found = _item(node, segment) if isinstance(segment, int) else _member(node, segment)
        if found is None:
            return line
        line, node = found
    return line


def _item(node: yaml.Node, index: int) -> tuple[int, yaml.Node] | None:
    if not isinstance(node, yaml.SequenceNode) or index >= len(node.value):
        return None
    item = node.value[index]
    return item.start_mark.line, item


def _member(node: yaml.Node, name: str) -> tuple[int, yaml.Node] | None:
    """Where a key and what is its value, be it merged from elsewhere."""
    if not isinstance(node, yaml.MappingNode):
        return None
    for key, value in node.value:
        if key.value == name:
            return key.start_mark.line, value
    for key, value in node.value:
        if key.value == MERGE_KEY:
            sources = value.value if isinstance(value, yaml.SequenceNode) else [value]
            for source in sources:
                if (found := _member(source, name)) is not None:
                    return found
    return None


def _within_text(node: yaml.ScalarNode, path: Segments, line: int) -> int:
    """A text may be YAML or JSON itself, as an annotation's value can; only a literal one keeps its lines."""
    if node.style != _LITERAL:
        return line
    first: int = node.start_mark.line + 1
    return first + yaml_line(node.value, path) - 1


def json_line(text: str, path: Segments) -> int:
    """The line, counted from 1, of a field in a well-formed JSON text."""
    position = _skip(text, 0)
    found = position
    for segment in path:
        inner = _json_item(text, position, segment)
        if inner is None:
            break
        found, position = inner
    return text.count("\n", 0, found) + 1


def _json_item(text: str, start: int, segment: str | int) -> tuple[int, int] | None:
    """Where an item of the object or list at `start` begins, and where its value does."""
    if text[start] != ("[" if isinstance(segment, int) else "{"):
        return None
    at, number = _skip(text, start + 1), 0
    while text[at] not in "]}":
        begin, key = at, None
        if isinstance(segment, str):
            key, at = _decoder.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        if segment in (key, number):
            return begin, at
        _, at = _decoder.raw_decode(text, at)
        at, number = _skip(text, at), number + 1
        if text[at] == ",":
            at = _skip(text, at + 1)
    return None


def _skip(text: str, at: int) -> int:
    found = _blank(text, at)
    return found.end() if found else at
