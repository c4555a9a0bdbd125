"""Which examples have a test."""

from __future__ import annotations

import pytest

from tests.support.cli.example_placements import ExamplePlacements

SHOWN: set[str] = set()


def example(file: str, *others: str) -> pytest.MarkDecorator:
    """The test gets where the pods of a file go, and asserts about it and about others beside it."""
    SHOWN.update((file, *others))
    return pytest.mark.parametrize("example", [ExamplePlacements(file)], ids=[file])
