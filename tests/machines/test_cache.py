"""A group of an index goes with its last entry."""

from __future__ import annotations

from berth.machines.cache import take


def test_what_is_left_stays() -> None:
    """Removing one entry of a group leaves the others."""
    index = {"a": {1: None, 2: None}}
    take(index, "a", 1)
    assert index == {"a": {2: None}}


def test_an_empty_group_goes() -> None:
    """A group goes with its last entry."""
    index = {"a": {1: None}, "b": {1: None}}
    take(index, "a", 1)
    assert index == {"b": {1: None}}


def test_what_was_never_there_is_no_trouble() -> None:
    """Removing what is not there changes nothing."""
    index = {"a": {1: None}}
    take(index, "a", 7)
    take(index, "z", 7)
    assert index == {"a": {1: None}}
