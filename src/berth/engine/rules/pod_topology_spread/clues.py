"""What keeps a constraint from being met: too few domains, or an emptiest one that takes nobody."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from berth.engine.rules.pod_topology_spread.constraints import HardConstraint
from berth.engine.rules.pod_topology_spread.skew import by_domain
from berth.engine.rules.relaxing import Question, missing_label, short, why_refused

_MOST_DOMAINS = 2


def clues(rule: str, question: Question, constraints: Sequence[HardConstraint]) -> Iterator[str]:
    for spread in constraints:
        key = spread.constraint.topology_key
        if absent := missing_label(question, key):
            yield absent
            continue
        counts = by_domain(spread)
        wanted = spread.constraint.min_domains
        if not counts:
            continue  # no node has all the keys: that of another constraint is missing
        if len(counts) < wanted:
            number = f"{len(counts)} domain{'' if len(counts) == 1 else 's'}"
            each = f"each takes at most maxSkew {spread.constraint.max_skew}"
            yield (
                f"{short(key)} has {number}, minDomains {wanted}: "
                f"until there are {wanted}, {each}{_uncounted(spread)}"
            )
        else:
            yield from _unusable(rule, question, spread, counts)


def _uncounted(spread: HardConstraint) -> str:
    """Why there are domains that do not count, by the first reason that leaves some out."""
    ids = spread.column.ids
    counted = {0, *ids[np.flatnonzero(spread.eligible)].tolist()}
    for why, slots in spread.left_out().items():
        if not counted.issuperset(ids[slots].tolist()):
            return f"; others do not count: {why}"
    return ""


def _unusable(rule: str, question: Question, spread: HardConstraint, counts: dict[str, int]) -> Iterator[str]:
    """The emptiest domains whose nodes are all refused for another reason: they hold the others back."""
    least = min(counts.values())
    column, nodes = spread.column, question.cluster.nodes
    for domain in [name for name, count in counts.items() if count == least][:_MOST_DOMAINS]:
        number = column.values.index(domain)
        slots = np.flatnonzero((column.ids[: nodes.count] == number) & nodes.alive[: nodes.count]).tolist()
        verdicts = [[v for v in question.verdicts.get(slot, ()) if v.rule != rule] for slot in slots]
        if verdicts and all(verdicts):
            where = f"{short(spread.constraint.topology_key)}={domain}"
            pods = f"{least} pod{'' if least == 1 else 's'}"
            why = why_refused(question, slots, [found[0].because[0] for found in verdicts])
            yield f"the emptiest domain, {where} with {pods}, takes none: {why}"
