"""Which examples have a test."""

from __future__ import annotations

import pytest

from tests.support.cli.example_placements import EXAMPLES, ExamplePlacements

SHOWN: set[str] = set()
FOLDERS = ("clusters", "node-affinity", "pod-affinity", "topology-spread", "execution-time")
FILES = sorted(f"{folder}/{path.name}" for folder in FOLDERS for path in (EXAMPLES / folder).glob("*.yaml"))


def example(file: str, *others: str) -> pytest.MarkDecorator:
    """The test gets where the pods of a file go, and asserts about it and about others beside it."""
    SHOWN.update((file, *others))
    return pytest.mark.parametrize("example", [ExamplePlacements(file)], ids=[file])
