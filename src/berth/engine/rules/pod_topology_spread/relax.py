"""Spread constraints: a higher skew, fewer domains to wait for, or none of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from berth.engine.rules.relaxing import Change, Question, Variant, on_pod, short
from berth.kube.objects import PodSpec, TopologySpreadConstraint
from berth.kube.well_known import DO_NOT_SCHEDULE

# A skew no cluster reaches.
_ANY_SKEW = 1 << 20


def relaxations(question: Question) -> Iterator[Change]:
    for i, constraint in enumerate(question.pod.spec.topology_spread_constraints or ()):
        if constraint.when_unsatisfiable != DO_NOT_SCHEDULE:
            continue
        path = f"spec.topologySpreadConstraints[{i}]"
        yield _raised(question, constraint, path, _ANY_SKEW)
        if (constraint.min_domains or 1) > 1:
            yield _fewer(question, constraint, path, 1)
        phrase = f"without the spread constraint on {short(constraint.topology_key)}"
        yield Change("spread-constraint", path, phrase, on_pod(_dropped(constraint)))


def _raised(question: Question, constraint: TopologySpreadConstraint, path: str, skew: int) -> Change:
    def make(figure: int) -> Change:
        return _raised(question, constraint, path, figure)

    phrase = f"with maxSkew {skew} instead of {constraint.max_skew} on {short(constraint.topology_key)}"
    apply = on_pod(_changed(constraint, lambda c: replace(c, max_skew=skew)))
    refine = _closest(question, make, skew, constraint.max_skew or 1)
    return Change("spread-max-skew", f"{path}.maxSkew", phrase, apply, value=str(skew), refine=refine)


def _fewer(question: Question, constraint: TopologySpreadConstraint, path: str, count: int) -> Change:
    wanted = constraint.min_domains or 1

    def make(figure: int) -> Change:
        return _fewer(question, constraint, path, figure)

    phrase = f"with minDomains {count} instead of {wanted} on {short(constraint.topology_key)}"
    apply = on_pod(_changed(constraint, lambda c: replace(c, min_domains=count)))
    refine = _closest(question, make, count, wanted)
    return Change("spread-min-domains", f"{path}.minDomains", phrase, apply, value=str(count), refine=refine)


def _closest(
    question: Question, make: Callable[[int], Change], enough: int, stated: int
) -> Callable[[Variant], Change]:
    """The change whose figure is closest to the stated one, which does not help, as `enough` does."""

    def refine(others: Variant) -> Change:
        helps, fails = enough, stated
        while abs(helps - fails) > 1:
            middle = (helps + fails) // 2
            if len(question.fitting(make(middle).apply(others))):
                helps = middle
            else:
                fails = middle
        return make(helps)

    return refine


def _changed(
    constraint: TopologySpreadConstraint,
    change: Callable[[TopologySpreadConstraint], TopologySpreadConstraint],
) -> Callable[[PodSpec], PodSpec]:
    def apply(spec: PodSpec) -> PodSpec:
        changed = [change(c) if _same(c, constraint) else c for c in spec.topology_spread_constraints or ()]
        return replace(spec, topology_spread_constraints=changed)

    return apply


def _dropped(constraint: TopologySpreadConstraint) -> Callable[[PodSpec], PodSpec]:
    def apply(spec: PodSpec) -> PodSpec:
        kept = [c for c in spec.topology_spread_constraints or () if not _same(c, constraint)]
        return replace(spec, topology_spread_constraints=kept or None)

    return apply


def _same(one: TopologySpreadConstraint, other: TopologySpreadConstraint) -> bool:
    """Whether both are the same constraint of a pod, with whatever skew: its key and kind are unique."""
    return (one.topology_key, one.when_unsatisfiable) == (other.topology_key, other.when_unsatisfiable)
