"""Selectors: parsed once, compared by meaning, matched as Kubernetes matches."""

from __future__ import annotations

import pytest
from msgspec import convert

from berth.kube.objects import LabelSelector, NodeSelector, PreferredSchedulingTerm
from berth.kube.selectors import (
    EVERYTHING,
    NOTHING,
    parse_label_selector,
    parse_node_selector,
    parse_preferred_terms,
)
from berth.kube.text.words import aggregated
from tests.kube import written


def selects(selector: str, labels: str) -> bool:
    parsed = parse_label_selector(written.view(LabelSelector, selector))
    return parsed.matches(written.value(labels))


def node_matches(terms: str, labels: str, name: str = "n1") -> bool:
    parsed = parse_node_selector(written.view(NodeSelector, f"nodeSelectorTerms: {terms}"))
    assert parsed is not None
    return parsed.matches(written.value(labels), name)


@pytest.mark.parametrize(
    ("requirement", "value", "expected"),
    [
        ("operator: In, values: [a, b]", "a", True),
        ("operator: In, values: [a, b]", "c", False),
        ("operator: In, values: [a, b]", None, False),
        ("operator: NotIn, values: [a]", "a", False),
        ("operator: NotIn, values: [a]", None, True),
        ("operator: Exists", "", True),
        ("operator: Exists", None, False),
        ("operator: DoesNotExist", None, True),
        ("operator: DoesNotExist", "a", False),
    ],
)
def test_operators(requirement: str, value: str | None, expected: bool) -> None:
    """A missing label satisfies NotIn and DoesNotExist, an empty one Exists."""
    labels = "{}" if value is None else f"{{key: '{value}'}}"
    assert selects(f"matchExpressions: [{{key: key, {requirement}}}]", labels) == expected


def test_missing_and_empty_selectors_are_opposites() -> None:
    """None selects nothing, {} everything."""
    assert parse_label_selector(None) == NOTHING
    assert parse_label_selector(LabelSelector()) == EVERYTHING
    assert (str(NOTHING), str(EVERYTHING)) == ("<nothing>", "<everything>")


def test_selectors_compare_by_meaning() -> None:
    """The order and the form of requirements do not matter."""
    one = written.view(LabelSelector, "{matchLabels: {a: x}, matchExpressions: [{key: b, operator: Exists}]}")
    other = written.view(
        LabelSelector, "matchExpressions: [{key: b, operator: Exists}, {key: a, operator: In, values: [x]}]"
    )
    assert parse_label_selector(one) == parse_label_selector(other)
    assert str(parse_label_selector(one)) == "a=x,b"


def test_node_selector_terms_are_alternatives() -> None:
    """Any term will do; within one, labels and fields must all match; empty and null terms match nothing."""
    terms = (
        "[{}, null, {matchExpressions: [{key: cores, operator: Gt, values: ['4']}]},"
        " {matchFields: [{key: metadata.name, operator: In, values: [n1]}],"
        " matchExpressions: [{key: zone, operator: Exists}]}]"
    )
    assert node_matches(terms, "{cores: '08'}", "n9")
    assert not node_matches(terms, "{cores: '4'}")
    assert not node_matches(terms, "{cores: many}")
    assert node_matches(terms, "{zone: a}", "n1")
    assert not node_matches(terms, "{zone: a}", "n2")
    assert not node_matches("[{}]", "{}")


@pytest.mark.parametrize(
    "requirement",
    [
        "{key: a, operator: Near}",
        "{key: a, operator: In}",
        "{key: a, operator: Exists, values: [x]}",
        "{key: a, operator: Gt, values: [x]}",
        "{key: -a, operator: Exists}",
        "{key: a, operator: In, values: [-]}",
    ],
)
def test_a_term_that_cannot_be_parsed_matches_nothing(requirement: str) -> None:
    """A term that cannot be parsed matches nothing, and keeps upstream's sentences about itself."""
    parsed = parse_node_selector(
        written.view(NodeSelector, f"nodeSelectorTerms: [{{matchExpressions: [{requirement}]}}]")
    )
    assert parsed is not None
    (term,) = parsed.terms
    assert term.errors
    assert not term.matches({"a": "5"}, "n1")


def test_preferred_terms_without_weight_or_content_are_dropped() -> None:
    """Preferred terms that would add nothing are dropped, and the others keep their weight."""
    content = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    given = [
        {"weight": 0, "preference": content},
        {"weight": 5, "preference": {}},
        {"weight": 7, "preference": content},
    ]
    parsed = parse_preferred_terms(convert(given, list[PreferredSchedulingTerm]))
    assert [term.weight for term in parsed] == [7]
    assert parse_preferred_terms(None) == ()


def test_several_errors_make_one_sentence() -> None:
    """Several errors are joined in brackets, without repeats."""
    assert aggregated(["a"]) == "a"
    assert aggregated(["a", "b", "a"]) == "[a, b]"
