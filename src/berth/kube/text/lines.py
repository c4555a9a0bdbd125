"""On which line of a YAML or JSON text a field stands.

Readers keep no positions, since next to nobody asks for one.  Who does hands in the text of one document
and a path; of a field that is not there, it is the line of what it would be in.
"""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from berth.kube.text.yaml_reader import MERGE_KEY, YamlParser

Segments = tuple[str | int, ...]

_LITERAL = "|"
_segments = re.compile(r"\[(\d+)\]|\[([^\]]*)\]|([^.\[]+)").findall
_blank = re.compile(r"[ \t\r\n]*").match
_decoder = json.JSONDecoder(parse_int=str, parse_float=str)


def segments(path: str) -> Segments:
    """``spec.containers[0].name`` and ``metadata.annotations[a.b/c]`` in parts."""
    return tuple(int(index) if index else key or name for index, key, name in _segments(path))


def yaml_line(text: str, path: Segments) -> int:
    """The line, counted from 1, of a field in the first document of a YAML text."""
    try:
        node = _composed(text)
    except (yaml.YAMLError, RecursionError):
        return 1
    return 1 if node is None else _descend(node, path) + 1


def _composed(text: str) -> yaml.Node | None:
    parser: Any = YamlParser(text)
    try:
        node: yaml.Node | None = parser.get_node() if parser.check_node() else None
    finally:
        parser.dispose()
    return node


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
