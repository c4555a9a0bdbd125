"""A higher skew, fewer domains to wait for, or no constraint; and what keeps one from being met."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from msgspec.structs import replace

from berth.engine.rules.changes import Change, Question, Variant, missing_label, on_pod, short, why_refused
from berth.engine.rules.pod_topology_spread.constraints import HardConstraint
from berth.kube.objects import PodSpec, TopologySpreadConstraint
from berth.kube.text.words import count
from berth.kube.well_known import DO_NOT_SCHEDULE

# A skew no cluster reaches.
_ANY_SKEW = 1 << 20
_FIGURES = {
    "max_skew": ("maxSkew", "spread-max-skew"),
    "min_domains": ("minDomains", "spread-min-domains"),
}
_MOST_DOMAINS = 2


def relaxations(question: Question) -> Iterator[Change]:
    for i, constraint in enumerate(question.pod.spec.topology_spread_constraints or ()):
        if constraint.when_unsatisfiable != DO_NOT_SCHEDULE:
            continue
        path = f"spec.topologySpreadConstraints[{i}]"
        yield _other(question, constraint, path, "max_skew", _ANY_SKEW)
        if (constraint.min_domains or 1) > 1:
            yield _other(question, constraint, path, "min_domains", 1)
        phrase = f"without the spread constraint on {short(constraint.topology_key)}"
        yield Change("spread-constraint", path, phrase, on_pod(_changed(constraint, lambda _: None)))


def _other(
    question: Question, constraint: TopologySpreadConstraint, path: str, attribute: str, figure: int
) -> Change:
    """The constraint with another figure."""
    name, kind = _FIGURES[attribute]
    stated = getattr(constraint, attribute)
    make = partial(_other, question, constraint, path, attribute)

    def refine(others: Variant) -> Change:
        """With the figure closest to the stated one, which does not help, as this one does."""
        helps, fails = figure, stated or 1
        while abs(helps - fails) > 1:
            middle = (helps + fails) // 2
            if len(question.fitting(make(middle).apply(others))):
                helps = middle
            else:
                fails = middle
        return make(helps)

    phrase = f"with {name} {figure} instead of {stated} on {short(constraint.topology_key)}"
    apply = on_pod(_changed(constraint, lambda c: replace(c, **{attribute: figure})))
    return Change(kind, f"{path}.{name}", phrase, apply, value=str(figure), refine=refine)


def _changed(
    constraint: TopologySpreadConstraint,
    change: Callable[[TopologySpreadConstraint], TopologySpreadConstraint | None],
) -> Callable[[PodSpec], PodSpec]:
    """A constraint that is another then, or none."""

    def apply(spec: PodSpec) -> PodSpec:
        changed = [change(c) if _same(c, constraint) else c for c in spec.topology_spread_constraints or ()]
        return replace(spec, topology_spread_constraints=[c for c in changed if c is not None] or None)

    return apply


def _same(one: TopologySpreadConstraint, other: TopologySpreadConstraint) -> bool:
    """Whether both are the same constraint of a pod, with whatever skew: its key and kind are unique."""
    return (one.topology_key, one.when_unsatisfiable) == (other.topology_key, other.when_unsatisfiable)


# --- too few domains, or an emptiest one that takes nobody ----------------------------------------


def clues(rule: str, question: Question, constraints: Sequence[HardConstraint]) -> Iterator[str]:
    for spread in constraints:
        key = spread.constraint.topology_key
        if absent := missing_label(question, key):
            yield absent
            continue
        counts = spread.by_domain()
        wanted = spread.constraint.min_domains
        if not counts:
            continue  # no node has all the keys: that of another constraint is missing
        if len(counts) < wanted:
            each = f"each takes at most maxSkew {spread.constraint.max_skew}"
            yield (
                f"{short(key)} has {count(len(counts), 'domain')}, minDomains {wanted}: "
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
    for domain in [name for name, pods in counts.items() if pods == least][:_MOST_DOMAINS]:
        slots = np.flatnonzero(spread.column.ids == spread.column.id_of(domain)).tolist()
        verdicts = [[v for v in question.verdicts.get(slot, ()) if v.rule != rule] for slot in slots]
        if verdicts and all(verdicts):
            where = f"{short(spread.constraint.topology_key)}={domain}"
            why = why_refused(question, slots, [found[0].because[0] for found in verdicts])
            yield f"the emptiest domain, {where} with {count(least, 'pod')}, takes none: {why}"
