"""What Kubernetes v1.36.4 said about recorded pods, to the letter."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from berth.kube.defaults import created
from berth.kube.objects import Pod
from berth.kube.text.decoding import convert
from berth.kube.validation.objects import validate_pod
from tests.support import paths

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = paths.DATA / "conformance"
VALIDATION = DATA / "validation.jsonl.gz"
OTHERS = sorted(set(DATA.glob("*.jsonl.gz")) - {VALIDATION})

Triple = tuple[str, str, str]


def lines(file: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(file) as stream:
        for line in stream:
            yield msgspec.json.decode(line)


def found(raw: dict[str, Any]) -> list[Triple]:
    errors = validate_pod(created(convert(raw, Pod)))
    return sorted((error.field, error.type, error.detail) for error in errors)


def test_recorded_verdicts_are_reproduced() -> None:
    """Field, type and detail of every recorded error come out, and no error more."""
    count = 0
    for line in lines(VALIDATION):
        recorded = line["expect"]["validation"]
        expected = sorted((error["field"], error["type"], error.get("detail", "")) for error in recorded)
        assert found(line["case"]["pod"]) == expected, line["case"]["id"]
        count += 1
    assert count >= 300


@pytest.mark.parametrize("file", OTHERS, ids=lambda file: file.name)
def test_what_upstream_scheduled_is_valid(file: Path) -> None:
    """Pods that got past validation upstream do so here."""
    for line in lines(file):
        case = line["case"]
        for raw in [case["pod"]] if "pod" in case else case["sequence"]:
            assert found(raw) == [], case["id"]


def test_every_recorded_error_can_be_shown() -> None:
    """An error reads like the API server's: field, kind, value, detail."""
    for line in lines(VALIDATION):
        for error in validate_pod(created(convert(line["case"]["pod"], Pod))):
            assert str(error).startswith(f"{error.field}: ")
            assert str(error).endswith(error.detail)
