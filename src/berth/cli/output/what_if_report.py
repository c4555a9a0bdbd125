"""A what-if for people: the answer first, then the details; and the other reports of `what-if`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from berth.cli.output.tables import YES_OR_NO, Terminal, first_rows, indented, table, titled_rows
from berth.engine.offline.what_if.outcome import (
    LargestPod,
    PodMove,
    SkewState,
    StrandedPod,
    Utilisation,
    UtilisationChange,
    WhatIfOutcome,
)
from berth.engine.offline.what_if.questions import DomainLoss, EveryLoss, FittingReplicas
from berth.engine.offline.what_if.run import Comparison
from berth.engine.offline.what_if.scenario import ScenarioOutcome
from berth.engine.rules.changes import short
from berth.kube.text.words import count

_ROWS_LISTED, _NAMES_LISTED = 40, 6
_LOSSES_LISTED, _LOST_LISTED, _PODS_LISTED = 100, 3, 20
_listed = partial(titled_rows, most=_ROWS_LISTED, of="in all")


def report(found: WhatIfOutcome, term: Terminal) -> Iterator[str]:
    yield _answer(found.sentence, term, ok=found.ok)
    for section in (
        _unplaced,
        _moves,
        _preempted,
        _gone,
        _stays,
        _rounds,
        _rollouts,
        _budgets,
        _rules,
        _skews,
        _local,
        _usage,
    ):
        if lines := list(section(found, term)):
            yield ""
            yield from lines


def _answer(sentence: str, term: Terminal, *, ok: bool) -> str:
    return indented(term.styled(sentence[:1].upper() + sentence[1:], "green" if ok else "red"), "", term)


# --- pods ----------------------------------------------------------------------------------------------


def _moves(found: WhatIfOutcome, term: Terminal) -> Iterator[str]:
    rounds = any(move.round is not None for move in found.moves) and len(found.rounds) > 1
    several = len({each.change for each in found.rounds}) > 1
    headers = ["POD", "FROM", "TO", *(["ROUND"] if rounds else []), "WHY THERE"]
    rows = [
        [
            _name(move.namespace, move.pod),
            _place(move.source, move.source_zone) if move.source else "(new)",
            _place(move.target, move.target_zone),
            *([_round(move, several=several)] if rounds else []),
            move.why or "-",
        ]
        for move in found.moves
    ]
    yield from _listed("Moves:", headers, rows, term)


def _unplaced(found: WhatIfOutcome, term: Terminal) -> Iterator[str]:
    if not found.unplaced:
        return
    yield term.title("Without a node:")
    groups: dict[tuple[str, str | None, str], list[StrandedPod]] = {}
    for pod in found.unplaced:
        key = (pod.namespace, pod.owner or pod.pod, pod.message)
        groups.setdefault(key, []).append(pod)
    for (_, owner, message), pods in groups.items():
        names = [_name(pod.namespace, pod.pod) for pod in pods]
        if term.wide:
            who = ", ".join(names)
        else:
            who = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more of {owner}"
        before = " (had none before)" if all(pod.waited for pod in pods) else ""
        yield indented(f"{who}{before}: {message}", "  ", term)
        helped = next((pod.help for pod in pods if pod.help), None)
        if helped:
            yield indented(f"what would help: {helped}", "    ", term)


def _preempted(found: WhatIfOutcome, term: Terminal) -> Iterator[str]:
    rows = [
        (_name(pod.namespace, pod.pod), pod.node, pod.by, pod.lands_on or "nowhere")
        for pod in found.preempted
    ]
    yield from _listed("Preempted:", ("POD", "NODE", "FOR", "LANDS ON"), rows, term, {"nowhere": "red"}.get)


def _gone(found: WhatIfOutcome, term: Terminal) -> Iterator[str]:
    rows = [
        (
            _name(pod.namespace, pod.pod),
            pod.node,
            pod.lost,
            f"replaced by {pod.replaced_by}" if pod.replaced_by else pod.why,
        )
        for pod in sorted(found.gone, key=lambda pod: not pod.lost)
    ]
    yield from _listed("Gone:", ("POD", "NODE", "LOST", "WHY"), rows, term)


def _stays(found: WhatIfOutcome, term: Terminal) -> Iterator[str]:
    rows = [(_name(pod.namespace, pod.pod), pod.node, pod.why) for pod in found.stays]
    yield from _listed("Stays behind:", ("POD", "NODE", "WHY"), rows, term)


def _round(move: PodMove, *, several: bool) -> str:
    """The round in which a pod is evicted, with the number of the drain if there are several."""
    if move.round is None:
        return "-"
    return f"{move.change}.{move.round}" if several else str(move.round)


def _rounds(found: WhatIfOutcome, term: Terminal) -> Iterator[str]:
    if len(found.rounds) < 2:
        return
    yield term.title("Evicted in rounds, as budgets allow:")
    several = len({each.change for each in found.rounds}) > 1
    for each in found.rounds:
        of = f"change {each.change}, " if several else ""
        names = [_name(*pod.split("/", 1)) for pod in each.pods]
        yield indented(term.first_of(names, _NAMES_LISTED), f"  {of}{each.round}.  ", term)


def _rollouts(found: WhatIfOutcome, term: Terminal) -> Iterator[str]:
    if not found.rollouts:
        return
    yield term.title("Rollout:")
    for step in found.rollouts:
        parts = [
            f"{word} {term.first_of([_name(*pod.split('/', 1)) for pod in pods], _NAMES_LISTED)}"
            for word, pods in (("remove", step.removed), ("create", step.created))
            if pods
        ]
        if step.stuck:
            parts.append(term.styled(f"stuck: {step.stuck}", "red"))
        yield indented("; ".join(parts), f"  {step.workload} {step.step}.  ", term)


def _local(found: WhatIfOutcome, term: Terminal) -> Iterator[str]:
    rows = [(_name(pod.namespace, pod.pod), ", ".join(pod.volumes)) for pod in found.local_storage]
    yield from _listed("Local storage that is lost (emptyDir):", ("POD", "VOLUMES"), rows, term)


# --- rules ---------------------------------------------------------------------------------------------


def _budgets(found: WhatIfOutcome, term: Terminal) -> Iterator[str]:
    rows = [
        (
            _name(each.namespace, each.name),
            _change(each.allowed_before, each.allowed_after),
            term.first_of(each.blocks, _NAMES_LISTED) if each.blocks else "-",
        )
        for each in found.budgets
        if term.wide or each.blocks or each.allowed_before != each.allowed_after
    ]
    yield from _listed("Disruption budgets:", ("BUDGET", "ALLOWED", "BLOCKS"), rows, term)


def _rules(found: WhatIfOutcome, term: Terminal) -> Iterator[str]:
    rows = [
        (
            state,
            _name(each.namespace, each.pod),
            each.node,
            each.rule,
            "hard" if each.hard else "soft",
            f"{each.path}: {each.cause}" if term.wide and each.path else each.cause,
        )
        for state, rules in (("broken", found.broken), ("healed", found.healed))
        for each in rules
    ]
    headers = ("", "POD", "NODE", "RULE", "KIND", "WHY")
    yield from _listed("Rules:", headers, rows, term, {"broken": "red", "healed": "green"}.get)


def _skews(found: WhatIfOutcome, term: Terminal) -> Iterator[str]:
    rows = [
        (
            _name(each.namespace, each.owner),
            each.topology_key if term.wide else short(each.topology_key),
            "hard" if each.hard else "soft",
            _change(each.before and each.before.skew, each.after and each.after.skew),
            each.max_skew,
            each.after.ok if each.after else None,
            _counts(each.before, each.after, term),
        )
        for each in found.spread
        if term.wide or each.changed
    ]
    headers = ("OWNER", "SPREAD OVER", "KIND", "SKEW", "MAX", "OK", "PODS PER DOMAIN")
    yield from _listed("Spread:", headers, rows, term, YES_OR_NO)


def _counts(before: SkewState | None, after: SkewState | None, term: Terminal) -> str:
    old, new = before.counts if before else {}, after.counts if after else {}
    domains = sorted({*old, *new})
    shown = domains if term.wide else [each for each in domains if old.get(each) != new.get(each)]
    names = [f"{each} {_change(old.get(each), new.get(each))}" for each in shown]
    return term.first_of(names, _NAMES_LISTED) if names else "-"


# --- nodes ---------------------------------------------------------------------------------------------


def _usage(found: WhatIfOutcome, term: Terminal) -> Iterator[str]:
    for title, headers, changes in (
        ("Utilisation by zone:", ("ZONE", "CPU", "MEMORY", "PODS"), found.zones),
        ("Utilisation by node:", ("NODE", "CPU", "MEMORY", "PODS"), found.nodes),
    ):
        rows = [_used(each) for each in changes if term.wide or each.before != each.after]
        if changes is found.nodes or len(found.zones) > 1 or any(each.name for each in found.zones):
            yield from _listed(title, headers, rows, term)


def _used(change: UtilisationChange) -> tuple[str | None, str, str, str]:
    old, new = change.before, change.after
    return (
        change.name,
        _change(_share(old, "cpu"), _share(new, "cpu")),
        _change(_share(old, "memory"), _share(new, "memory")),
        _change(old and old.pods, new and new.pods),
    )


def _share(used: Utilisation | None, resource: str) -> str | None:
    if used is None:
        return None
    allocatable = getattr(used, f"{resource}_allocatable")
    return f"{100 * getattr(used, resource) // allocatable}%" if allocatable else "-"


def _change(before: object, after: object) -> str:
    if before == after:
        return "-" if before is None else str(before)
    return f"{'-' if before is None else before} → {'-' if after is None else after}"


def _place(node: str, zone: str | None) -> str:
    return f"{node} ({zone})" if zone else node


def _name(namespace: str, name: str) -> str:
    return name if namespace == "default" else f"{namespace}/{name}"


# --- every ---------------------------------------------------------------------------------------------


def every_report(found: EveryLoss, term: Terminal) -> Iterator[str]:
    yield _answer(found.sentence, term, ok=found.ok)
    rows = found.rows
    if not term.wide and len(rows) > _LOSSES_LISTED:
        # Domains that cannot be lost come first, then those whose loss does the most.
        rows = sorted(rows, key=lambda row: (row.ok, -row.preempted, -row.pods))[:_LOSSES_LISTED]
    if rows:
        yield ""
        headers = ("LOSE", "NODES", "PODS", "MOVE", "PREEMPT", "NO NODE", "LOST", "OK", "WHY")
        yield table(headers, [_row(row, term) for row in rows], term, YES_OR_NO)
    if len(rows) < len(found.rows):
        yield f"({len(found.rows)} rows; -o wide lists every one)"
    if found.waiting:
        yield f"({count(found.waiting, 'pod')} without a node to begin with, not counted here)"


def _row(row: DomainLoss, term: Terminal) -> tuple[object, ...]:
    reasons = (
        (row.unplaced, row.message),
        (row.lost, f"nobody makes {'it' if len(row.lost) == 1 else 'them'} again"),
    )
    why = "; ".join(f"{term.first_of(names, _LOST_LISTED)}: {reason}" for names, reason in reasons if names)
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


def fit_report(found: FittingReplicas, term: Terminal) -> Iterator[str]:
    yield _answer(found.sentence, term, ok=found.ok)
    if found.help:
        yield indented(f"what would help: {found.help}", "  ", term)
    if found.zones:
        yield ""
        yield table(("ZONE", "FURTHER REPLICAS"), list(found.zones.items()), term)
    if found.nodes and (term.wide or len(found.nodes) <= _PODS_LISTED):
        yield ""
        yield table(("NODE", "FURTHER REPLICAS"), list(found.nodes.items()), term)


# --- scenario ------------------------------------------------------------------------------------------


def scenario_report(found: ScenarioOutcome, term: Terminal) -> Iterator[str]:
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
    yield table(headers, rows, term, YES_OR_NO)
    for step in found.steps:
        if term.wide or not step.ok:
            yield ""
            yield term.title(f"{step.name}: {', '.join(step.outcome.changes) or 'nothing changed'}")
            yield from report(step.outcome, term)


# --- two ways ------------------------------------------------------------------------------------------


def versus_report(found: Comparison, term: Terminal) -> Iterator[str]:
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
            ("fragmentation", lambda m: f"{100 * m.fragmentation:.0f}%"),
        )
    ]
    yield table(("", a.name, b.name), rows, term)
    if found.differing:
        yield ""
        yield term.title("On another node:")
        pods = [(each.pod, each.a, each.b) for each in found.differing]
        yield first_rows(("POD", a.name, b.name), pods, term, most=_PODS_LISTED, of="pods")


def _largest(pod: LargestPod | None) -> str:
    return f"{pod.cpu}m cpu, {pod.memory >> 20}Mi memory on {pod.node}" if pod else "none"
