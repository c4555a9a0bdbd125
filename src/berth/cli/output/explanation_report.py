"""An explanation for people: the verdict, every node, the scores, and what would help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

import click

from berth.cli.output.merging import merged
from berth.cli.output.tables import Terminal, count, first_of, indented, table
from berth.engine.offline.explanation import FITS, RUNS, TERMINATING, Explanation, NodeVerdict
from berth.engine.rules.verdicts import RuleVerdict
from berth.kube.well_known import SUCCEEDED

# Up to here every node has a line; beyond, nodes refused for the same reasons share one.
_NODES_LISTED = 40
_NAMES_LISTED = 3
_SCORED_LISTED = 10
_ROOMY = 120  # columns from which on several names and a zone fit beside the reason


def report(explanation: Explanation, term: Terminal, *, wide: bool) -> Iterator[str]:
    good = explanation.state in (FITS, TERMINATING, SUCCEEDED) or (
        explanation.state == RUNS and not explanation.broken
    )
    owner = f" ({explanation.entry.owner})" if explanation.entry.owner else ""
    yield term.title(f"Pod {explanation.entry.key}{owner}")
    yield indented(term.styled(explanation.message, "green" if good else "red"), "", term)
    if explanation.entry.gates:
        yield f"Scheduling gates: {', '.join(explanation.entry.gates)}"
    refused = [node for node in explanation.nodes if not node.feasible]
    scored = [node for node in explanation.nodes if node.feasible]
    if refused:
        yield ""
        yield _refusals(refused, term, wide=wide)
    if scored:
        yield ""
        yield _scores(scored, explanation.node, term, wide=wide)
    if explanation.decision:
        yield indented(explanation.decision, "", term)
    yield from _first_looks(explanation, term)
    if explanation.relaxations:
        yield ""
        yield term.title("What would help:")
        for relaxation in explanation.relaxations:
            yield indented(relaxation.sentence, "  - ", term)
    elif not good and not scored and explanation.nodes:
        yield ""
        yield "No change that Berth knows to try would help."


def _first_looks(explanation: Explanation, term: Terminal) -> Iterator[str]:
    if explanation.clues:
        yield ""
        yield term.title("Look at this first:")
        for clue in explanation.clues:
            yield indented(clue, "  - ", term)
    if explanation.preemption is not None:
        victims = first_of(explanation.preemption.victims, _NAMES_LISTED)
        yield ""
        node = explanation.preemption.node
        yield indented(f"Its priority lets it preempt on {node}: {victims} would be evicted.", "", term)


def _refusals(nodes: list[NodeVerdict], term: Terminal, *, wide: bool) -> str:
    headers: tuple[str, ...] = ("NODE", "ZONE", "RULE", "WHY")
    if wide or len(nodes) <= _NODES_LISTED:
        rows = [row for node in nodes for row in _rows(node.name, node.zone, node.verdicts, wide=wide)]
        return table(headers, rows, term)
    groups: dict[tuple[tuple[str, ...], ...], list[NodeVerdict]] = {}
    for node in nodes:
        groups.setdefault(tuple((r.rule, *r.reasons) for r in node.verdicts), []).append(node)
    roomy = term.width is None or term.width >= _ROOMY
    rows = []
    for members in sorted(groups.values(), key=len, reverse=True):
        zones = {node.zone for node in members}
        zone = members[0].zone if len(zones) == 1 else f"{len(zones)} zones"
        names = first_of([node.name for node in members], _NAMES_LISTED if roomy else 1)
        rows += _rows(names, zone, _shared_verdicts(members), wide=False)
    if not roomy:
        headers, rows = ("NODE", "RULE", "WHY"), [(name, *rest) for name, _, *rest in rows]
    return table(headers, rows, term) + f"\n({count(len(nodes), 'node')}; -o wide lists every one)"


def _shared_verdicts(nodes: list[NodeVerdict]) -> Iterator[RuleVerdict]:
    """What the rules say of nodes that they refuse for the same reasons, with ranges for what differs."""
    for verdicts in zip(*(node.verdicts for node in nodes), strict=True):
        causes, _ = Counter(len(verdict.causes) for verdict in verdicts).most_common(1)[0]
        alike = [verdict.causes for verdict in verdicts if len(verdict.causes) == causes]
        yield replace(verdicts[0], causes=tuple(merged(found) for found in zip(*alike, strict=True)))


def _rows(
    name: str, zone: str | None, verdicts: Iterable[RuleVerdict], *, wide: bool
) -> Iterator[tuple[str | None, ...]]:
    first = True
    for verdict in verdicts:
        for cause in verdict.causes or verdict.reasons:
            why = f"{', '.join(verdict.reasons)}: {cause}" if wide and verdict.causes else cause
            yield (name, zone, verdict.rule, why) if first else ("-", "-", verdict.rule, why)
            first = False


def _scores(nodes: list[NodeVerdict], chosen: str | None, term: Terminal, *, wide: bool) -> str:
    listed = nodes if wide or len(nodes) <= _NODES_LISTED else nodes[:_SCORED_LISTED]
    sheet = _sheet(listed, chosen, term, wide=wide, left_out=set())
    if term.width is not None and max(map(len, click.unstyle(sheet).splitlines())) > term.width:
        # Rules that say the same about every node decide nothing; they go under the table.
        same = _undecided(listed)
        sheet = _sheet(listed, chosen, term, wide=wide, left_out=set(same))
        if same:
            equal = ", ".join(f"{rule} {points}" for rule, points in same.items())
            sheet += "\n" + indented(f"The same everywhere: {equal}", "", term)
    if len(listed) < len(nodes):
        sheet += f"\n(the best {len(listed)} of {len(nodes)} nodes that fit; -o wide lists every one)"
    return sheet


def _sheet(
    nodes: list[NodeVerdict], chosen: str | None, term: Terminal, *, wide: bool, left_out: set[str]
) -> str:
    rules = [score for score in nodes[0].scores if score.rule not in left_out]
    headers = ["NODE", "ZONE", "TOTAL", *(f"{score.rule} x{score.weight}" for score in rules)]
    rows = [
        [
            f"{node.name} *" if node.name == chosen else node.name,
            node.zone,
            node.total,
            *(
                f"{score.normalized} ({score.raw})" if wide else score.normalized
                for score in node.scores
                if score.rule not in left_out
            ),
        ]
        for node in nodes
    ]
    return table(headers, rows, term, lambda cell: "green" if cell.endswith(" *") else None)


def _undecided(nodes: list[NodeVerdict]) -> dict[str, int]:
    points: dict[str, set[int]] = {}
    for node in nodes:
        for score in node.scores:
            points.setdefault(score.rule, set()).add(score.normalized)
    return {rule: values.pop() for rule, values in points.items() if len(values) == 1}
