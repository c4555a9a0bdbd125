"""YAML as Kubernetes reads it."""

from __future__ import annotations

import pytest

from berth.kube.text.decoding import YamlError
from berth.kube.text.yaml_reader import read


def only(text: str) -> object:
    (document,) = read(text)
    return document.value


@pytest.mark.parametrize(
    ("scalar", "expected"),
    [
        ("2024-01-02", "2024-01-02"),
        ("2024-01-02T03:04:05Z", "2024-01-02T03:04:05Z"),
        ("22:30", "22:30"),
        ("1.2.3", "1.2.3"),
        ("12", 12),
        ("-0x1F", -31),
        ("010", 8),
        ("0b11", 3),
        ("1_000", 1000),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("08", 8.0),
        ("99999999999999999999", 99999999999999999999),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("9" * 2000, "9" * 2000),
        ("1e999999", "1e999999"),
        ("0x_", "0x_"),
        ("0b_", "0b_"),
        ("0o_", "0o_"),
        ("yes", True),
        ("n", False),
        ("Off", False),
        ("~", None),
        ("", None),
        ("100m", "100m"),
        ("'12'", "12"),
        ('"yes"', "yes"),
        ("!!str 12", "12"),
        ("!!float 12", 12.0),
        ("! 12", "12"),
        ("!custom x", "x"),
        ("|\n  two\n  lines\n", "two\nlines\n"),
    ],
)
def test_scalars(scalar: str, expected: object) -> None:
    """Numbers and booleans follow YAML 1.1; dates and times stay text."""
    assert only(f"key: {scalar}") == {"key": expected}


def test_keys_are_strings() -> None:
    """Keys are read as strings, since JSON has no other keys."""
    assert only("{1: a, true: b, 1.5: c}") == {"1": "a", "true": "b", "1.5": "c"}


def test_documents_know_their_line_and_empty_ones_are_left_out() -> None:
    """A stream may hold several objects, separated by dashes."""
    documents = list(read("a: 1\n---\n# nothing\n---\n\nb: 2\n"))
    assert [(document.value, document.line) for document in documents] == [({"a": 1}, 1), ({"b": 2}, 4)]


def test_anchors_and_merge_keys() -> None:
    """A merged mapping gives way to keys that are written out, and earlier ones to none."""
    text = "base: &base {a: 1, b: 1}\nmore: &more {b: 2, c: 2}\nboth: {<<: [*base, *more], c: 3}\n"
    value = only(text)
    assert isinstance(value, dict)
    assert value["both"] == {"a": 1, "b": 1, "c": 3}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: 1\nb: 2\na: 3\n", 'line 3: key "a" is set twice'),
        ("a: b: c", "line 1: mapping values are not allowed"),
        ("a: &x [*x]", "line 1: found undefined alias 'x'"),
        ("a: \x01", "unacceptable character"),
        ("? [a]\n: b", "a key must be a string"),
        ("<<: 3", "map merge requires"),
        ("a: !!int x", 'cannot decode "x" as a !!int'),
        ("[" * 5000, "nested more than 200 levels deep"),
        ("a: !!float " + "9" * 400, "as a !!float"),
        ("a: [", "line"),
    ],
)
def test_what_is_refused(text: str, sentence: str) -> None:
    """Mistakes are named, with their line where there is one."""
    with pytest.raises(YamlError, match=sentence):
        list(read(text))


def test_aliases_cannot_explode() -> None:
    """A kilobyte that stands for billions of values is refused before it is built."""
    levels = "".join(f"l{i}: &l{i} [{','.join([f'*l{i - 1}'] * 9)}]\n" for i in range(1, 12))
    with pytest.raises(YamlError, match="excessive aliasing"):
        list(read(f"l0: &l0 [x]\n{levels}"))
