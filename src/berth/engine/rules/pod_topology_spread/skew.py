"""How even the pods are that the constraints of a class count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from berth.engine.rules.pod_topology_spread.constraints import (
    CountedConstraint,
    HardConstraint,
    SoftConstraint,
)
from berth.engine.rules.verdicts import ConstraintCounts
from berth.engine.state.arrays import Int32Array
from berth.kube.well_known import DO_NOT_SCHEDULE, SCHEDULE_ANYWAY


def constraint_counts(
    rule: str, hard: Sequence[HardConstraint], soft: Sequence[SoftConstraint]
) -> Iterator[ConstraintCounts]:
    for spread in hard:
        counts = by_domain(spread)
        yield _counted(rule, spread, counts, spread.minimum, DO_NOT_SCHEDULE)
    for ranked in soft:
        counts = by_domain(ranked, ranked.counter.counts[1:] if ranked.per_node else None)
        enough = len(counts) >= ranked.constraint.min_domains
        yield _counted(
            rule, ranked, counts, min(counts.values(), default=0) if enough else 0, SCHEDULE_ANYWAY
        )


def _counted(
    rule: str, spread: CountedConstraint, counts: dict[str, int], minimum: int, action: str
) -> ConstraintCounts:
    constraint = spread.constraint
    return ConstraintCounts(
        rule=rule,
        constraint=constraint,
        path=constraint.path,
        topology_key=constraint.topology_key,
        selector=str(constraint.selector),
        when_unsatisfiable=action,
        hard=action == DO_NOT_SCHEDULE,
        max_skew=constraint.max_skew,
        counts=counts,
        minimum=minimum,
        counts_own=spread.matches_self,
        left_out=spread.left_out,
    )


def by_domain(spread: CountedConstraint, per_node: Int32Array | None = None) -> dict[str, int]:
    """Domain -> count, for domains with an eligible node, in order of their names."""
    column = spread.column
    slots = np.flatnonzero(spread.eligible)
    found = column.ids[slots]
    by_domain = spread.counter.counts if per_node is None else np.bincount(found, weights=per_node[slots])
    names = {domain: column.values[domain] for domain in np.unique(found).tolist()}
    totals = {name: int(by_domain[domain]) for domain, name in names.items() if name is not None}
    return dict(sorted(totals.items()))
