"""Shelves go with the last thing on them."""

from __future__ import annotations

from berth.machines.cache import take


def test_what_is_left_stays() -> None:
    """Removing one entry of a group leaves the others."""
    shelves = {"a": {1: None, 2: None}}
    take(shelves, "a", 1)
    assert shelves == {"a": {2: None}}


def test_an_empty_shelf_goes() -> None:
    """A group goes with its last entry."""
    shelves = {"a": {1: None}, "b": {1: None}}
    take(shelves, "a", 1)
    assert shelves == {"b": {1: None}}


def test_what_was_never_there_is_no_trouble() -> None:
    """Removing what is not there changes nothing."""
    shelves = {"a": {1: None}}
    take(shelves, "a", 7)
    take(shelves, "z", 7)
    assert shelves == {"a": {1: None}}
