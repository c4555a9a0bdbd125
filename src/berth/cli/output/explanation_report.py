"""An explanation for people: the verdict, every node, the scores, and what would help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import click

from berth.cli.output.tables import Terminal, indented, table
from berth.engine.offline.explaining.nodes import NodeGroup, NodeVerdict
from berth.engine.offline.explaining.replicas import FurtherReplicas
from berth.engine.offline.explanation import FITS, RUNS, TERMINATING, Explanation
from berth.engine.rules.verdicts import WorkloadOf, merged, words_of
from berth.kube.text.words import count, first_of
from berth.kube.well_known import SUCCEEDED

# Up to here every node has a line; beyond, nodes refused for the same reasons share one.
_NODES_LISTED = 12
_GROUPS_LISTED = 8
_NAMES_LISTED = 3
_LABELS_LISTED = 3
_SCORED_LISTED = 10
_CHANGES_LISTED = 6
_HANGING = "    "
_LEAST_WHY = 30  # columns that a reason needs beside a node's name; with fewer it goes below


def report(explanation: Explanation, term: Terminal) -> Iterator[str]:
    good = explanation.state in (FITS, TERMINATING, SUCCEEDED) or (
        explanation.state == RUNS and not explanation.broken
    )
    owner = f" ({explanation.entry.owner})" if explanation.entry.owner else ""
    # Wrapped before it is coloured, since escape sequences would count as text.
    yield term.title(indented(f"Pod {explanation.entry.key}{owner}", "", term))
    yield term.styled(indented(explanation.message, "", term), "green" if good else "red")
    if explanation.entry.gates:
        yield indented(f"Scheduling gates: {', '.join(explanation.entry.gates)}", "", term)
    yield from _turn(explanation, term)
    yield from _nodes(explanation, term)
    if explanation.clues:
        yield ""
        yield term.title("Look at this first:")
        yield from (indented(clue, "  - ", term) for clue in explanation.clues)
    yield from _waits(explanation, term)
    scored = any(node.feasible for node in explanation.nodes)
    if explanation.relaxations:
        yield ""
        yield term.title("What would help:")
        listed = explanation.relaxations if term.wide else explanation.relaxations[:_CHANGES_LISTED]
        for relaxation in listed:
            yield indented(relaxation.sentence, "  - ", term)
        if left := len(explanation.relaxations) - len(listed):
            yield f"  - and {left} more (-o wide lists them)"
    elif not good and not scored and explanation.nodes:
        yield ""
        yield "No change that Berth knows to try would help."


def _turn(explanation: Explanation, term: Terminal) -> Iterator[str]:
    queue, further = explanation.queue, explanation.further
    if queue is not None and queue.waiting > 1:
        priority = f"priority {explanation.entry.priority}"
        place = f"It is number {queue.place} of {queue.waiting} pods in the queue ({priority})."
        yield indented(place, "", term)
    if further is not None:
        yield indented(_further(further, explanation.message), "", term)


def _further(further: FurtherReplicas, verdict: str) -> str:
    """How many replicas fit beyond those there are; what the verdict says already is left out."""
    least = "at least " if further.most else ""
    number = f"{least}{count(further.count, 'further replica')}" if further.count else "no further replica"
    then = f"{', and not the next' if further.count else ''}: {further.message}"
    if not further.message or (not further.count and further.message == verdict):
        then = " either." if further.waiting and not further.count else "."
    beyond = f"Beyond those it has, {number} would find a node{then}"
    if not further.waiting:
        return beyond
    verb, waits = ("finds", "waits") if further.waiting == 1 else ("find", "wait")
    return f"{further.waiting} of its {count(further.pods, 'pod')} {verb} no node and {waits}. {beyond}"


def _nodes(explanation: Explanation, term: Terminal) -> Iterator[str]:
    refused = [node for node in explanation.nodes if not node.feasible]
    scored = [node for node in explanation.nodes if node.feasible]
    if explanation.beside:
        others = count(explanation.beside.total(), "other pod")
        yield ""
        yield indented(f"The nodes are judged with {others} of its group where they would go:", "", term)
    if refused:
        yield ""
        yield from _refusals(explanation, refused, term)
    if scored:
        yield ""
        yield _scores(scored, explanation.node, term)
    if explanation.decision:
        yield indented(explanation.decision, "", term)


def _waits(explanation: Explanation, term: Terminal) -> Iterator[str]:
    found = explanation.preemption
    if found is not None:
        owners = explanation.workloads
        named = [f"{pod} of {owners(pod)}" if owners(pod) else pod for pod in found.victims]
        broken = f", {found.violations} of them against a disruption budget" if found.violations else ""
        victims = first_of(named, _NAMES_LISTED)
        yield ""
        words = f"Its priority lets it preempt on {found.node}: {victims} would be evicted{broken}."
        yield indented(words, "", term)
    elif explanation.no_preemption:
        why = explanation.no_preemption.removeprefix("preemption: ")
        yield ""
        yield indented(f"Preemption does not help: {why}", "", term)
    if explanation.waits:
        yield ""
        yield term.title("It waits for:")
        for wait in explanation.waits:
            where = wait.nodes[0] if len(wait.nodes) == 1 else count(len(wait.nodes), "node")
            told = len(explanation.waits) > 1 or len(wait.nodes) == 1 < len(explanation.nodes)
            if wait.sentence.startswith("a node with "):
                where += " lacks it" if len(wait.nodes) == 1 else " lack it"
            yield indented(f"{wait.sentence} ({where})" if told else wait.sentence, "  - ", term)


# --- nodes that are refused ----------------------------------------------------------------


def _refusals(explanation: Explanation, nodes: list[NodeVerdict], term: Terminal) -> Iterator[str]:
    owners = explanation.workloads
    if not term.wide and len(nodes) > _NODES_LISTED:
        for group in explanation.groups[:_GROUPS_LISTED]:
            yield from _group(group, owners, term, explanation.beside)
        left = sum(len(group.names) for group in explanation.groups[_GROUPS_LISTED:])
        others = f", {left} of them for other reasons" if left else ""
        yield f"({count(len(nodes), 'node')}{others}; -o wide lists every one)"
        return
    beside = explanation.beside
    rows = [row for node in nodes for row in _rows(node, owners, beside[node.name], wide=term.wide)]
    widest = [max(len(str(cell or "")) for cell in column) for column in zip(*rows, strict=True)]
    if not term.wide and term.width is not None and term.width - sum(widest[:-1]) - 9 < _LEAST_WHY:
        for node in nodes:
            yield indented(f"{node.name} ({node.zone})" if node.zone else node.name, "", term)
            for _, _, rule, why in _rows(node, owners, beside[node.name], wide=False):
                yield indented(f"{rule}: {why}", "  ", term, _HANGING)
        return
    yield table(("NODE", "ZONE", "RULE", "WHY"), rows, term)


def _group(group: NodeGroup, owners: WorkloadOf, term: Terminal, beside: Mapping[str, int]) -> Iterator[str]:
    names = first_of(group.names, _NAMES_LISTED)
    number = f"{count(len(group.names), 'node')}: " if len(group.names) > 1 else ""
    labels = ", ".join(f"{key}={value}" for key, value in group.labels[:_LABELS_LISTED])
    yield indented(f"{number}{names}{f' ({labels})' if labels else ''}", "", term, _HANGING)
    theirs = merged(str(beside.get(name, 0)) for name in group.names)
    told = dict.fromkeys(f"{shared.rule}: {words_of(shared.causes, owners)}" for shared in group.causes)
    for words in told:
        yield indented(f"{words}{_with_its_group(theirs)}", "  ", term, _HANGING)


def _with_its_group(pods: str) -> str:
    return "" if pods == "0" else f", with {pods} of its group there"


def _rows(
    node: NodeVerdict, owners: WorkloadOf, beside: int, *, wide: bool
) -> Iterator[tuple[str | None, ...]]:
    name, zone = node.name, node.zone
    for verdict in node.verdicts:
        told = {cause.words(owners): cause for cause in verdict.because}  # two rules may say the same
        for said, cause in told.items():
            words = f"{said}{_with_its_group(str(beside))}"
            why = f"{', '.join(verdict.reasons)}: {words}" if wide and cause.form else words
            yield name, zone, verdict.rule, why
            name, zone = "-", "-"


# --- nodes that fit ------------------------------------------------------------------------


def _scores(nodes: list[NodeVerdict], chosen: str | None, term: Terminal) -> str:
    listed = nodes if term.wide or len(nodes) <= _NODES_LISTED else nodes[:_SCORED_LISTED]
    sheet = _sheet(listed, chosen, term, set())
    if _is_too_wide(sheet, term):
        # Rules that say the same about every node decide nothing; they go under the table.
        same = _undecided(listed)
        sheet = _sheet(listed, chosen, term, set(same))
        if _is_too_wide(sheet, term):
            sheet = _list(listed, chosen, term, set(same))
        if same:
            equal = ", ".join(f"{rule} {points}" for rule, points in same.items())
            sheet += "\n" + indented(f"The same everywhere: {equal}", "", term)
    if len(listed) < len(nodes):
        sheet += f"\n(the best {len(listed)} of {len(nodes)} nodes that fit; -o wide lists every one)"
    return sheet


def _is_too_wide(sheet: str, term: Terminal) -> bool:
    return term.width is not None and max(map(len, click.unstyle(sheet).splitlines())) > term.width


def _list(nodes: list[NodeVerdict], chosen: str | None, term: Terminal, left_out: set[str]) -> str:
    """The scores of a node as a list below its name, for terminals too narrow for columns."""
    lines = []
    for node in nodes:
        zone = f" ({node.zone})" if node.zone else ""
        title = indented(f"{node.name}{' *' if node.name == chosen else ''}{zone}: {node.total}", "", term)
        lines.append(term.styled(title, "green" if node.name == chosen else None))
        scores = (
            f"{score.rule} {score.normalized}{f' ({score.raw})' if term.wide else ''} x{score.weight}"
            for score in node.scores
            if score.rule not in left_out
        )
        lines.append(indented(", ".join(scores), "  ", term))
    return "\n".join(lines)


def _sheet(nodes: list[NodeVerdict], chosen: str | None, term: Terminal, left_out: set[str]) -> str:
    rules = [score for score in nodes[0].scores if score.rule not in left_out]
    headers = ["NODE", "ZONE", "TOTAL", *(f"{score.rule} x{score.weight}" for score in rules)]
    rows = [
        [
            f"{node.name} *" if node.name == chosen else node.name,
            node.zone,
            node.total,
            *(
                f"{score.normalized} ({score.raw})" if term.wide else score.normalized
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
