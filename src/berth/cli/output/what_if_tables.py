"""The other answers of `what-if` for people: every loss, what fits, a scenario, two ways compared."""

from __future__ import annotations

from collections.abc import Iterator

from berth.cli.output.tables import Terminal, count, first_of, indented, table
from berth.cli.output.what_if_report import report
from berth.engine.offline.what_if.outcome import LargestPod, Measures
from berth.engine.offline.what_if.questions.every import DomainLoss, EveryLoss
from berth.engine.offline.what_if.questions.fitting import FittingReplicas
from berth.engine.offline.what_if.questions.scenario import ScenarioOutcome
from berth.engine.offline.what_if.questions.versus import Versus

_ROWS_LISTED = 100
_PODS_LISTED = 20
_NAMES_LISTED = 3


def _answer(sentence: str, term: Terminal, *, ok: bool) -> str:
    return indented(term.styled(sentence[:1].upper() + sentence[1:], "green" if ok else "red"), "", term)


# --- every ---------------------------------------------------------------------------------------------


def every_report(found: EveryLoss, term: Terminal, *, wide: bool) -> Iterator[str]:
    yield _answer(found.sentence, term, ok=found.ok)
    rows = found.rows
    if not wide and len(rows) > _ROWS_LISTED:
        # What cannot be lost matters; of the others, those that come nearest to it.
        rows = sorted(rows, key=lambda row: (row.ok, -row.preempted, -row.pods))[:_ROWS_LISTED]
    if rows:
        yield ""
        headers = ("LOSE", "NODES", "PODS", "MOVE", "PREEMPT", "NO NODE", "LOST", "OK", "WHY")
        yield table(headers, [_row(row, wide=wide) for row in rows], term, {"yes": "green", "no": "red"}.get)
    if len(rows) < len(found.rows):
        yield f"({len(found.rows)} rows; -o wide lists every one)"
    if found.waiting:
        yield f"({count(found.waiting, 'pod')} without a node to begin with, not counted here)"


def _row(row: DomainLoss, *, wide: bool) -> tuple[object, ...]:
    reasons = (
        (row.unplaced, row.message),
        (row.lost, f"nobody makes {'it' if len(row.lost) == 1 else 'them'} again"),
    )
    why = "; ".join(
        f"{first_of(names, len(names) if wide else _NAMES_LISTED)}: {reason}"
        for names, reason in reasons
        if names
    )
    return (
        row.domain,
        row.nodes,
        row.pods,
        row.moved,
        row.preempted,
        len(row.unplaced),
        len(row.lost),
        row.ok,
        why or "-",
    )


# --- fit -----------------------------------------------------------------------------------------------


def fit_report(found: FittingReplicas, term: Terminal, *, wide: bool) -> Iterator[str]:
    yield _answer(found.sentence, term, ok=found.ok)
    if found.help:
        yield indented(f"what would help: {found.help}", "  ", term)
    if found.zones:
        yield ""
        yield table(("ZONE", "FURTHER REPLICAS"), list(found.zones.items()), term)
    if found.nodes and (wide or len(found.nodes) <= _PODS_LISTED):
        yield ""
        yield table(("NODE", "FURTHER REPLICAS"), list(found.nodes.items()), term)


# --- scenario ------------------------------------------------------------------------------------------


def scenario_report(found: ScenarioOutcome, term: Terminal, *, wide: bool) -> Iterator[str]:
    yield _answer(found.sentence, term, ok=found.ok)
    yield ""
    rows = [
        (
            i,
            step.name,
            step.ok,
            "; ".join(f"{each.expected}: {each.found}" for each in step.expectations) or "all is well",
            step.outcome.sentence,
        )
        for i, step in enumerate(found.steps, start=1)
    ]
    headers = ("STEP", "NAME", "OK", "EXPECTED: FOUND", "ANSWER")
    yield table(headers, rows, term, {"yes": "green", "no": "red"}.get)
    for step in found.steps:
        if wide or not step.ok:
            yield ""
            yield term.title(f"{step.name}: {', '.join(step.outcome.changes) or 'nothing changed'}")
            yield from report(step.outcome, term, wide=wide)


# --- two ways ------------------------------------------------------------------------------------------


def versus_report(found: Versus, term: Terminal, *, wide: bool) -> Iterator[str]:
    yield _answer(found.sentence, term, ok=found.ok)
    yield ""
    a, b = found.a, found.b
    for side in (a, b):
        yield indented(f"{side.what}: {side.sentence}", f"{side.name}  ", term)
    yield ""
    rows = [
        (label, show(a.measures), show(b.measures))
        for label, show in (
            ("placed", lambda m: m.placed),
            ("without a node", lambda m: m.unplaced),
            ("moved", lambda m: m.moved),
            ("preempted", lambda m: m.preempted),
            ("mean skew", lambda m: f"{m.mean_skew:.2f}"),
            ("worst skew", lambda m: m.worst_skew),
            ("nodes used", lambda m: m.nodes_used),
            ("largest pod that fits", lambda m: _largest(m.largest_pod)),
            ("fragmentation", _fragmentation),
        )
    ]
    yield table(("", a.name, b.name), rows, term)
    if found.differing:
        yield ""
        yield term.title("On another node:")
        listed = found.differing if wide else found.differing[:_PODS_LISTED]
        yield table(("POD", a.name, b.name), [(each.pod, each.a, each.b) for each in listed], term)
        if len(listed) < len(found.differing):
            yield f"({len(found.differing)} pods; -o wide lists every one)"


def _fragmentation(measures: Measures) -> str:
    return f"{100 * measures.fragmentation:.0f}%"


def _largest(pod: LargestPod | None) -> str:
    return f"{pod.cpu}m cpu, {pod.memory >> 20}Mi memory on {pod.node}" if pod else "none"
