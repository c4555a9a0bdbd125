"""What keeps a constraint from being met: too few domains, or an emptiest one that takes nobody."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from berth.engine.rules.pod_topology_spread.constraints import HardConstraint
from berth.engine.rules.pod_topology_spread.skew import by_domain
from berth.engine.rules.relaxing import Question, missing_label, short


def clues(rule: str, question: Question, constraints: Sequence[HardConstraint]) -> Iterator[str]:
    for spread in constraints:
        key = spread.constraint.topology_key
        if absent := missing_label(question, key):
            yield absent
            continue
        counts = by_domain(spread)
        wanted = spread.constraint.min_domains
        if len(counts) < wanted:
            yield (
                f"{short(key)} has {len(counts)} domains, minDomains {wanted}: "
                f"until there are {wanted}, each takes at most maxSkew {spread.constraint.max_skew}"
            )
        elif counts:
            yield from _unusable(rule, question, spread, counts)


def _unusable(rule: str, question: Question, spread: HardConstraint, counts: dict[str, int]) -> Iterator[str]:
    """The emptiest domains whose nodes are all refused for another reason: they hold the others back."""
    least = min(counts.values())
    column, nodes = spread.column, question.cluster.nodes
    for domain in [name for name, count in counts.items() if count == least][:1]:
        number = column.values.index(domain)
        slots = np.flatnonzero((column.ids[: nodes.count] == number) & nodes.alive[: nodes.count]).tolist()
        verdicts = [[v for v in question.verdicts.get(slot, ()) if v.rule != rule] for slot in slots]
        if verdicts and all(verdicts):
            why = (verdicts[0][0].causes or verdicts[0][0].reasons)[0]
            more = f" and {len(slots) - 1} more" if len(slots) > 1 else ""
            where = f"{short(spread.constraint.topology_key)}={domain}"
            pods = f"{least} pod{'' if least == 1 else 's'}"
            which = f"{nodes.names[slots[0]]}{more}"
            yield f"the emptiest domain, {where} with {pods}, takes none: {why} ({which})"
