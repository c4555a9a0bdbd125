"""An audit for people: who breaks which rule, how even things are, and who would go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial

from berth.cli.output.simulation_report import spread_table
from berth.cli.output.tables import NONE, Terminal, indented, table, titled_rows
from berth.engine.execution.eviction_ceiling import name_of
from berth.engine.execution.rebalancing import NO_BETTER_PLACE, NO_NODE, NOT_READY, ROLLING_OUT, SCALING
from berth.engine.offline.audit import Audit, Eviction
from berth.engine.offline.snapshot import Entry
from berth.engine.rules.verdicts import RuleViolation
from berth.kube.text.words import count

# Up to here every row is shown; beyond, `-o wide` shows them.
_ROWS_LISTED = 100
_EXECUTION, _HARD, _SOFT = "execution", "hard", "soft"
STAYS = {
    NO_BETTER_PLACE: "no node that would take a replacement makes it more even",
    NO_NODE: "no node would take a replacement",
    SCALING: "it has more or fewer pods than it should",
    ROLLING_OUT: "a rollout is under way",
    NOT_READY: "not all its pods are Ready",
    "budget": "a disruption budget lets none go:",
}
_listed = partial(titled_rows, most=_ROWS_LISTED, of="pods")
_COLOURS = {_EXECUTION: "red", _HARD: "red", _SOFT: "yellow"}


def report(audit: Audit, term: Terminal) -> Iterator[str]:
    for section in (_violations, _spreads, _evictions, _rebalancing, _faulty):
        if lines := list(section(audit, term)):
            yield from lines
            yield ""
    yield from _conclusion(audit, term)


def _faulty(audit: Audit, term: Terminal) -> Iterator[str]:
    title = "Pods whose annotation is not valid, so that nobody enforces its rules:"
    rows = [(e.namespace, e.name, e.pod.spec.node_name, e.fault) for e in audit.faulty]
    yield from _listed(title, ("NAMESPACE", "POD", "NODE", "WHY"), rows, term)


# --- rules ------------------------------------------------------------------------------------


def _violations(audit: Audit, term: Terminal) -> Iterator[str]:
    def urgency(violation: RuleViolation) -> int:
        return list(_COLOURS).index(_kind(violation))

    violations = [(audit.entries[found.pod], found) for found in sorted(audit.violations, key=urgency)]
    if not violations:
        return
    if not term.wide and len(violations) > _ROWS_LISTED:
        yield _by_owner(violations, term)
        return
    rows = []
    for entry, found in violations:
        path = f"{found.path} (of the other pod)" if found.of_peer else found.path
        told = (entry.owner, path, found.cause) if term.wide else (found.cause,)
        rows.append((entry.namespace, entry.name, found.node, found.rule, _kind(found), *told))
    more = ("OWNER", "PATH") if term.wide else ()
    yield table(("NAMESPACE", "POD", "NODE", "RULE", "KIND", *more, "WHY"), rows, term, _COLOURS.get)


def _kind(violation: RuleViolation) -> str:
    if violation.execution:
        return _EXECUTION
    return _HARD if violation.hard else _SOFT


def _by_owner(violations: list[tuple[Entry, RuleViolation]], term: Terminal) -> str:
    groups: dict[tuple[str, ...], list[RuleViolation]] = {}
    for entry, found in violations:
        key = (entry.namespace, entry.workload, found.rule, _kind(found), found.reason)
        groups.setdefault(key, []).append(found)
    rows = []
    for (*shown, _), members in groups.items():
        pods = len({found.pod for found in members})
        nodes = len({found.node for found in members})
        rows.append((*shown, pods, nodes, _example(members)))
    headers = ("NAMESPACE", "OWNER", "RULE", "KIND", "PODS", "NODES", "WHY")
    lines = table(headers, rows, term, _COLOURS.get)
    return f"{lines}\n({count(len(violations), 'broken rule')}; -o wide lists every one)"


def _example(members: list[RuleViolation]) -> str:
    first = members[0]
    if len({found.cause for found in members}) == 1:
        return first.cause
    return f"{first.pod.partition('/')[2]} on {first.node}: {first.cause}"


# --- spreading and evicting ---------------------------------------------------------------


def _spreads(audit: Audit, term: Terminal) -> Iterator[str]:
    shown = sorted(audit.spreads, key=lambda spread: spread.ok)
    if not term.wide and len(shown) > _ROWS_LISTED:
        shown = [spread for spread in shown if not spread.ok][:_ROWS_LISTED]
    if shown:
        yield spread_table(shown, term)
    if len(shown) < len(audit.spreads):
        yield f"({count(len(audit.spreads), 'spread constraint')}; -o wide lists every one)"


def _evictions(audit: Audit, term: Terminal) -> Iterator[str]:
    rows = [
        (
            eviction.entry.namespace,
            eviction.entry.name,
            eviction.entry.node,
            eviction.replacement_node or "nowhere",
            _held_back(eviction),
            _why(eviction, wide=term.wide),
        )
        for eviction in audit.evictions
    ]
    headers = ("NAMESPACE", "POD", "NODE", "REPLACEMENT", "HELD BACK BY", "WHY")
    title, style = "What the controllers would evict:", {"nowhere": "red"}.get
    yield from _listed(title, headers, rows, term, style)


def _rebalancing(audit: Audit, term: Terminal) -> Iterator[str]:
    """Who would move where, and who stays uneven."""
    if (workloads := audit.rebalancing) is None:
        return
    turns = {
        turn: (each, move) for each in workloads for turn, move in zip(each.turns, each.moves, strict=True)
    }
    rows = [
        (
            workload.namespace,
            workload.owner,
            move.pod.partition("/")[2],
            move.node,
            move.replacement_node or "a new node",
            move.why,
        )
        for _, (workload, move) in sorted(turns.items(), key=lambda each: each[0])
    ]
    headers = ("NAMESPACE", "OWNER", "POD", "NODE", "REPLACEMENT", "WHY")
    yield from _listed("What would be moved for evenness, one after the other:", headers, rows, term)
    if not rows:
        yield "Nobody would be moved for evenness."
    for workload in workloads:
        if workload.stays_because is not None:
            budgets = ", ".join(budget.name for budget in workload.stopped_by)
            reason = STAYS.get(workload.stays_because, workload.stays_because) + (
                f" {budgets}" if budgets else ""
            )
            yield indented(f"{workload.namespace} {workload.owner} stays uneven: {reason}.", "", term)


def _held_back(eviction: Eviction) -> str:
    halt = []
    if eviction.halt:
        how = "one by one" if eviction.one_by_one else "halt"
        halt = [f"{how} in {name_of(eviction.halt.domain)}"]
    return ", ".join([*halt, *(f"budget {budget.name}" for budget in eviction.stopped_by)])


def _why(eviction: Eviction, *, wide: bool) -> str:
    causes = []
    for violation in eviction.violations:
        whose = "" if violation.pod == eviction.entry.key else f"for {violation.pod}: "
        path = f"{violation.path}: " if wide else ""
        causes.append(f"{path}{whose}{violation.cause}")
    return "; ".join(dict.fromkeys(causes)) or NONE


# --- the end -----------------------------------------------------------------------------------------


def _conclusion(audit: Audit, term: Terminal) -> Iterator[str]:
    if not audit.snapshot.running:
        yield "There is no running pod to judge."
        return
    hard = [violation for violation in audit.violations if violation.hard]
    soft = [violation for violation in audit.violations if not violation.hard]
    if hard:
        broken = f"{_pods(hard)} a hard rule ({_tally(hard)})."
        yield indented(term.styled(broken, "red"), "", term)
    if soft:
        yield indented(f"{_pods(soft)} a rule for newcomers only ({_tally(soft)}).", "", term)
    uneven = [spread for spread in audit.spreads if not spread.ok]
    if uneven:
        number = sum(spread.hard for spread in uneven)
        which = f"{number} hard, {len(uneven) - number} soft"
        verb = "is" if len(uneven) == 1 else "are"
        yield f"{count(len(uneven), 'spread constraint')} {verb} not kept ({which})."
    if audit.evictions:
        yield indented(_fates(audit.evictions), "", term)
    for halt in audit.halts:
        how = "go one by one" if halt.one_by_one else "be halted"
        fate = f"; {halt.outlook}" if halt.one_by_one else ""
        warning = f"Evictions would {how} in {name_of(halt.domain)}: {halt}{fate}."
        yield indented(term.styled(warning, "yellow"), "", term)
    if audit.clean:
        yield term.styled("Every hard rule holds.", "green")


def _pods(violations: Iterable[RuleViolation]) -> str:
    number = len({violation.pod for violation in violations})
    return f"{count(number, 'pod')} {'breaks' if number == 1 else 'break'}"


def _tally(violations: Iterable[RuleViolation]) -> str:
    """How many pods each rule is broken by."""
    pairs = {(violation.pod, violation.rule) for violation in violations}
    return ", ".join(f"{rule} {number}" for rule, number in sorted(Counter(r for _, r in pairs).items()))


def _fates(evictions: list[Eviction]) -> str:
    stopped = sum(bool(eviction.stopped_by) for eviction in evictions)
    unplaced = sum(eviction.replacement_node is None for eviction in evictions)
    halted = sum(eviction.halted for eviction in evictions)
    one_by_one = sum(eviction.one_by_one for eviction in evictions)
    parts = [f"{count(len(evictions), 'pod')} would be evicted"]
    several = len(evictions) > 1
    for number, how in (
        (one_by_one, "one by one"),
        (halted, "only when a halt is over"),
        (stopped, "only when a budget allows it"),
        (unplaced, "with no node for the replacement"),
    ):
        if number:
            parts.append(f"{number} of them {how}" if several else how)
    return f"{', '.join(parts)}."
