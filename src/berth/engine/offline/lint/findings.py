"""What a check is, and what it finds.

A check is words (``checks.yaml`` has its name, severity and documentation) and one function over a world.
The words of a finding are about the object at hand; those of the check are about the fault as such.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from importlib.resources import files
from typing import Generic, TypeVar

from berth.kube.manifests.manifest import Manifest, Source
from berth.kube.objects import Struct
from berth.kube.text import yaml_reader
from berth.kube.text.decoding import convert

_W = TypeVar("_W")


class Severity(IntEnum):
    """How bad it is: in order, so that they can be compared."""

    INFO = 1
    WARNING = 2
    ERROR = 3

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Hit:
    """A fault at one place.

    Attributes:
        source: Where the object was written, and `title`, what it is called.
        path: The field in the object, empty for all of it.
        why: What will happen, in one sentence without its full stop.
        fix: What to do about it.
        severity: That of the check, unless this one is more or less certain.
    """

    source: Source
    title: str
    path: str
    why: str
    fix: str
    severity: Severity | None = None


def hit(manifest: Manifest, path: str, why: str, fix: str, severity: Severity | None = None) -> Hit:
    return Hit(manifest.source, manifest.title, path, why, fix, severity)


class CheckWords(Struct, frozen=True):
    """The texts of a check.

    Attributes:
        severity: Of a hit that does not say otherwise.
        what: The fault in a few words.
        why: What it leads to.
        example: A piece of a manifest that has it.
        nodes: It finds nothing unless nodes are known.
    """

    name: str
    severity: str
    what: str
    why: str
    fix: str
    example: str
    nodes: bool = False


@dataclass(frozen=True, slots=True)
class Check(Generic[_W]):
    """One thing that can be wrong; its code never changes and is never used again."""

    code: str
    words: CheckWords
    find: Callable[[_W], Iterator[Hit]]

    @property
    def severity(self) -> Severity:
        return Severity[self.words.severity.upper()]


def check(code: str) -> Callable[[Callable[[_W], Iterator[Hit]]], Check[_W]]:
    """Make a check of a function that finds it."""
    return lambda find: Check(code, _words()[code], find)


@cache
def _words() -> dict[str, CheckWords]:
    text = files("berth.engine.offline.lint").joinpath("checks.yaml").read_text(encoding="utf-8")
    (document,) = yaml_reader.read(text)
    return convert(document.value, dict[str, CheckWords])


@dataclass(frozen=True, slots=True)
class Finding:
    """A hit of a check; `severity` is what it comes to."""

    code: str
    words: CheckWords
    hit: Hit
    severity: Severity
