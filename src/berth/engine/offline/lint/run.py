"""All checks over a world, and what their authors asked not to be told."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from berth.engine.offline.lint import disruption, documents, nodes, placement, selectors, spread
from berth.engine.offline.lint.documents import ignored_codes
from berth.engine.offline.lint.findings import Check, Finding, Hit, Severity
from berth.engine.offline.lint.world import World
from berth.kube.manifests.manifest import Manifest

_MODULES = (documents, selectors, spread, nodes, disruption, placement)
# By code, so that checks that place pods come last: they leave out pods that others found fault with.
CHECKS: tuple[Check[World], ...] = tuple(
    sorted(
        (found for module in _MODULES for found in vars(module).values() if isinstance(found, Check)),
        key=lambda found: found.code,
    )
)


@dataclass(frozen=True, slots=True)
class LintResult:
    """What was found.

    Attributes:
        findings: In the order of the files, and of the codes.
        ignored: How many more there are that annotations, or the user, asked not to be told.
        objects: How many objects were judged.
    """

    findings: list[Finding]
    ignored: int
    objects: int

    def worst(self) -> Severity | None:
        return max((finding.severity for finding in self.findings), default=None)


def lint(world: World, more: Iterable[Finding] = (), ignored: Collection[str] = ()) -> LintResult:
    """Everything the checks find in a world, and what others have found in it."""
    found: list[Finding] = []
    blaming = {(m.source, m.title): id(m) for m in world.manifests}
    for check in CHECKS:
        if check.words.nodes and not world.has_nodes:
            continue
        for each in check.find(world):
            finding = as_finding(check, each)
            found.append(finding)
            if finding.severity is Severity.ERROR:
                world.blamed.add(blaming.get((each.source, each.title), 0))
    unread = [each for each in world.given.refused if each.source is not None and not each.foreign]
    return told([*found, *more], world.given.files, ignored, len(unread))


def as_finding(check: Check[Any], each: Hit) -> Finding:
    severity = check.severity if each.severity is None else each.severity
    return Finding(check.code, check.words, each, severity)


def told(
    findings: Sequence[Finding], files: Sequence[Manifest], ignored: Collection[str], unread: int = 0
) -> LintResult:
    """The findings that are not ignored, in order."""
    order = {(m.source, m.title): i for i, m in enumerate(files)}
    unwanted = {(m.source, m.title): {code for _, codes in ignored_codes(m) for code in codes} for m in files}
    kept = [
        finding
        for finding in findings
        if finding.code not in ignored
        and finding.code not in unwanted.get((finding.hit.source, finding.hit.title), ())
    ]
    last = len(order)
    kept.sort(key=lambda f: (order.get((f.hit.source, f.hit.title), last), f.code))
    return LintResult(kept, len(findings) - len(kept), len(files) + unread)
