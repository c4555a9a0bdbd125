"""Formats of names, label keys and label values, in the API machinery's own words."""

from __future__ import annotations

import pytest

from berth.kube import names


@pytest.mark.parametrize("key", ["app", "a", "example.com/App_1.x-y", "x" * 63, f"{'d' * 253}/n", "9"])
def test_label_keys_that_are_fine(key: str) -> None:
    """A name of up to 63 characters, with a DNS subdomain before it or not."""
    assert names.label_key_errors(key) == ()


@pytest.mark.parametrize(
    ("key", "beginnings"),
    [
        ("", ["name part must be non-empty", "name part must consist of"]),
        ("/a", ["prefix part must be non-empty"]),
        ("a/", ["name part must be non-empty", "name part must consist of"]),
        ("a/b/c", ["a valid label key must consist of"]),
        ("-a", ["name part must consist of"]),
        ("x" * 64, ["name part must be no more than 63 bytes"]),
        ("é" * 32, ["name part must be no more than 63 bytes", "name part must consist of"]),
        ("UP.com/a", ["prefix part a lowercase RFC 1123 subdomain must consist of"]),
        (f"{'d' * 254}/a", ["prefix part must be no more than 253 bytes"]),
    ],
)
def test_label_keys_that_are_not(key: str, beginnings: list[str]) -> None:
    """Every objection is given, in upstream's order."""
    found = names.label_key_errors(key)
    assert len(found) == len(beginnings)
    for message, beginning in zip(found, beginnings, strict=True):
        assert message.startswith(beginning)


@pytest.mark.parametrize("value", ["", "a", "A_b.c-9", "x" * 63])
def test_label_values_that_are_fine(value: str) -> None:
    """Label values have up to 63 characters, or none."""
    assert names.label_value_errors(value) == []


@pytest.mark.parametrize("value", ["-", "a b", "a/b", "x" * 64, "a\n", "ü"])
def test_label_values_that_are_not(value: str) -> None:
    """No blanks, slashes or line ends, and not too long."""
    assert names.label_value_errors(value)


def test_dns_names() -> None:
    """Labels have no dots, subdomains may; the hint tells which was meant."""
    assert names.dns_label_errors("a.b") == ["must not contain dots"]
    assert names.dns_subdomain_errors("a.b-c.9") == []
    assert names.dns_subdomain_errors("x" * 254) == ["must be no more than 253 characters"]
    assert names.dns_label_errors("x" * 64) == ["must be no more than 63 characters"]
    assert names.dns_label_errors("A")[0].endswith(
        "(e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
    )
