"""`--validate` for cases: a line at a time, so each unknown field is told at its first line, and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import msgspec

from berth.cli.input.validating import IGNORE, STRICT
from berth.cli.output.tables import tell
from berth.kube.manifests.near_fields import hint
from berth.kube.manifests.unknown_fields import fields_beyond, sentence, without_indexes
from berth.kube.schema import SchemaNode, SchemaStruct
from berth.kube.validation.errors import Path, render


class CaseFields:
    """Looks for unknown fields in cases.

    Args:
        validate: What becomes of them.
        objects: What a case holds; what else is in it is not looked at.
        refusal: What is raised in a strict command.
    """

    def __init__(
        self, validate: str, objects: Mapping[str, SchemaNode], refusal: Callable[[str], Exception]
    ) -> None:
        self._validate = validate
        self._refusal = refusal
        case = _open_struct("case", objects)
        self._wrapped = _open_struct("line", {**objects, "case": case})
        self._lines: Counter[Path] = Counter()

    def check(self, line: bytes, number: int) -> None:
        """Warn about the line if it is the first with an unknown field, or refuse it."""
        if self._validate == IGNORE:
            return
        seen: set[Path] = set()
        for place, name, value in fields_beyond(self._wrapped, msgspec.Raw(line)):
            path = (*place.path, name)
            said = sentence(path, hint(place, name, value))
            if self._validate == STRICT:
                raise self._refusal(said)
            anywhere = without_indexes(path)
            if anywhere not in self._lines:
                tell("warning", f"line {number}: {said}")
            seen.add(anywhere)
        self._lines.update(seen)

    def sum_up(self) -> None:
        """Say how many lines have each field, if it is more than the one that was told."""
        for path, lines in self._lines.items():
            if lines > 1:
                tell("warning", f"{render(path)}: unknown field in {lines} lines")


def _open_struct(name: str, fields: Mapping[str, SchemaNode]) -> SchemaNode:
    return SchemaNode(type="object", struct=SchemaStruct(name, lambda: fields), preserve_unknown=True)
