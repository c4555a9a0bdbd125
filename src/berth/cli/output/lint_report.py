"""Findings for people and programs: lines, JSON, SARIF 2.1.0, and GitHub's workflow commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from berth import __version__
from berth.cli.output.documents import fields
from berth.cli.output.tables import Terminal, indented
from berth.engine.offline.lint.findings import Check, Finding, Severity
from berth.engine.offline.lint.run import LintResult
from berth.kube.objects import Document
from berth.kube.text.words import count
from berth.kube.well_known import BERTH_API_VERSION

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "blue"}
_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


@dataclass(frozen=True, slots=True)
class LocatedFinding:
    """A finding with its line, None if that is not known."""

    finding: Finding
    line: int | None

    @property
    def place(self) -> str:
        file = self.finding.hit.source.file
        return f"{file}:{self.line}" if self.line else file


def report(result: LintResult, placed: Sequence[LocatedFinding], term: Terminal) -> Iterator[str]:
    """A paragraph for each finding, as compilers print them, and their number."""
    for each in placed:
        finding = each.finding
        severity = term.styled(str(finding.severity), _COLOURS[finding.severity])
        where = f": {finding.hit.path}" if finding.hit.path else ""
        yield f"{each.place}: {severity} {finding.code} {finding.hit.title}{where}"
        yield indented(finding.hit.why, "  ", term)
        yield indented(f"fix: {finding.hit.fix}", "  ", term)
        yield ""
    yield conclusion(result)


def conclusion(result: LintResult) -> str:
    found = Counter(finding.severity for finding in result.findings)
    nouns = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "remark"}
    counted = [count(found[severity], noun) for severity, noun in nouns.items() if found[severity]]
    ignored = f", {result.ignored} ignored" if result.ignored else ""
    return f"{', '.join(counted) or 'Nothing found'} in {count(result.objects, 'object')}{ignored}."


def lint_document(
    result: LintResult, placed: Iterable[LocatedFinding], notes: Sequence[str], *, failed: bool
) -> Document:
    found = Counter(finding.severity for finding in result.findings)
    return {
        "apiVersion": BERTH_API_VERSION,
        "kind": "Lint",
        "summary": {
            "objects": result.objects,
            "errors": found[Severity.ERROR],
            "warnings": found[Severity.WARNING],
            "infos": found[Severity.INFO],
            "ignored": result.ignored,
            "failed": failed,
        },
        "findings": [_finding(each) for each in placed],
        "notes": list(notes),
    }


def _finding(placed: LocatedFinding) -> Document:
    finding, found = placed.finding, placed.finding.hit
    return {
        "code": finding.code,
        "name": finding.words.name,
        "severity": str(finding.severity),
        "file": found.source.file,
        "line": placed.line,
        "object": found.title,
        **fields(found, "path", "why", "fix"),
    }


# --- SARIF -------------------------------------------------------------------------------------------


def sarif(placed: Sequence[LocatedFinding], checks: Sequence[Check[Any]]) -> Document:
    """The findings as code scanning reads them; every check is one of its rules."""
    numbers = {check.code: i for i, check in enumerate(checks)}
    driver = {"name": "berth", "version": __version__, "rules": [_rule(check) for check in checks]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(each, numbers[each.finding.code]) for each in placed],
    }
    return {"$schema": _SARIF, "version": "2.1.0", "runs": [run]}


def _rule(check: Check[Any]) -> Document:
    words = check.words
    return {
        "id": check.code,
        "name": words.name,
        "shortDescription": {"text": words.what},
        "fullDescription": {"text": words.why},
        "help": {
            "text": f"{words.why} {words.fix}",
            "markdown": f"{words.why}\n\n{words.fix}\n\n```yaml\n{words.example.rstrip()}\n```",
        },
        "defaultConfiguration": {"level": _LEVELS[check.severity]},
    }


def _result(placed: LocatedFinding, number: int) -> Document:
    finding, found = placed.finding, placed.finding.hit
    physical: Document = {"artifactLocation": {"uri": _uri(found.source.file)}}
    if placed.line:
        physical["region"] = {"startLine": placed.line}
    logical = {"fullyQualifiedName": f"{found.title}: {found.path}" if found.path else found.title}
    end = "?" if found.fix.endswith("?") else "."
    return {
        "ruleId": finding.code,
        "ruleIndex": number,
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{found.title}: {found.why}. Fix: {found.fix.removesuffix('?')}{end}"},
        "locations": [{"physicalLocation": physical, "logicalLocations": [logical]}],
        # Stays the same when the object moves to another line of the file.
        "partialFingerprints": {"berth/v1": f"{finding.code}:{found.title}:{found.path}"},
    }


def _uri(file: str) -> str:
    """A file as an artifact: relative to where the command runs, if it is below."""
    path = Path(file)
    if path.is_absolute():
        if not path.is_relative_to(Path.cwd()):
            return path.as_uri()
        path = path.relative_to(Path.cwd())
    return quote(path.as_posix())


# --- GitHub ------------------------------------------------------------------------------------------


def workflow_commands(placed: Iterable[LocatedFinding]) -> Iterator[str]:
    """One command a finding, which GitHub shows beside the line in a pull request."""
    for each in placed:
        finding, found = each.finding, each.finding.hit
        properties = {"file": found.source.file, "line": each.line, "title": f"{finding.code} {found.title}"}
        given = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items() if value)
        where = f"{found.path}: " if found.path else ""
        message = _data(f"{where}{found.why}\nfix: {found.fix}")
        yield f"::{_COMMANDS[finding.severity]} {given}::{message}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
