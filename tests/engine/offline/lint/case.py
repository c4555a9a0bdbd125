"""What a case is."""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.manifests.lint import Object


@dataclass(frozen=True)
class Case:
    """One fault.

    Attributes:
        bad: Objects that have it, and `good`, nearly the same that do not.
        severity: What it comes to.
        path: The field that is to blame.
        flags: Given to the command both times.
    """

    bad: list[Object]
    good: list[Object]
    severity: str
    path: str
    flags: tuple[str, ...] = ()
