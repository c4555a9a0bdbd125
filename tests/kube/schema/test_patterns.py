"""Patterns as Go reads them."""

from __future__ import annotations

import pytest

from berth.kube.schema import patterns
from berth.kube.schema.constraints import violations
from berth.kube.schema.registry import root_node


@pytest.mark.parametrize(
    ("pattern", "text", "occurs"),
    [
        ("^a$", "a", True),
        ("^a$", "a\n", False),
        (r"^a\z", "a", True),
        (r"^\d$", "3", True),
        (r"^\d$", "٣", False),
        (r"^\w+$", "ä", False),
        ("^[[:alpha:]]+$", "abc", True),
        ("^[[:alpha:]]+$", "1", False),
        (r"^\pL+$", "ä", True),
        ("b", "abc", True),
        ("(?i)^ABC$", "abc", True),
        (r"^\Qa.b\E$", "a.b", True),
        (r"^\Qa.b\E$", "axb", False),
        (r"^\\C$", r"\C", True),
    ],
)
def test_dialect(pattern: str, text: str, *, occurs: bool) -> None:
    """Ends of lines, digits, letters and classes are Go's, not Python's."""
    assert bool(patterns.searcher(pattern)(text)) is occurs


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|a)*b", "(.*)*x", "a{0,999}a{0,999}b", r"^(([a-z])+.)+[A-Z]([a-z])+$"]
)
def test_no_pattern_is_endless(pattern: str) -> None:
    """What takes Python's patterns longer than the universe lasts is answered, and rightly."""
    assert not patterns.searcher(pattern)("a" * 100_000 + "!")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", "error parsing regexp: missing closing ): `(`"),
        ("(?=a)", "error parsing regexp: invalid or unsupported Perl syntax: `(?=`"),
        ("a{1001}", "error parsing regexp: invalid repeat count: `{1001}`"),
        (r"(a)\1", r"error parsing regexp: invalid escape sequence: `\1`"),
        (r"^\C$", r"error parsing regexp: invalid escape sequence: `\C`"),
    ],
)
def test_what_is_no_pattern(pattern: str, message: str) -> None:
    """What Go does not compile is refused in its words."""
    with pytest.raises(patterns.PatternError) as caught:
        patterns.compiled(pattern)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("step", "value", "fits"),
    [
        (0.1, 0.3, True),
        (0.01, 4.35, True),
        (0.01, 1.1, True),
        (0.1, 0.35, False),
        (3, 9007199254740993, True),
        (2, 9007199254740993, False),
        (1e-300, 1, True),
    ],
)
def test_multiples_are_exact(step: float, value: float, *, fits: bool) -> None:
    """A number is a multiple if it is one as written, however large or small."""
    schema = {"type": "object", "properties": {"n": {"type": "number", "multipleOf": step}}}

    assert (violations({"n": value}, root_node(schema, "x")) == []) is fits


def test_weight() -> None:
    """Large patterns and many defaults make a schema heavy, wherever they stand."""
    light = {"properties": {"a": {"type": "string", "pattern": "^a$"}}}
    heavy = {"properties": {"a": {"allOf": [{"pattern": f"^[a-z]{{{i}}}$"} for i in range(500, 600)]}}}

    filled = {"items": {"properties": {f"f{i}": {"default": "x"} for i in range(1600)}}}

    assert patterns.weight(light) == 1
    assert patterns.weight(filled) > 100
    assert patterns.weight(heavy) > 100
