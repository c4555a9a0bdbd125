"""Spread constraints: a higher skew, or none of them."""

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
        phrase = f"without the spread constraint on {short(constraint.topology_key)}"
        yield Change("spread-constraint", path, phrase, on_pod(_dropped(constraint)))


def _raised(question: Question, constraint: TopologySpreadConstraint, path: str, skew: int) -> Change:
    def apply(spec: PodSpec) -> PodSpec:
        raised = [
            replace(c, max_skew=skew) if _same(c, constraint) else c
            for c in spec.topology_spread_constraints or ()
        ]
        return replace(spec, topology_spread_constraints=raised)

    def refine(others: Variant) -> Change:
        low, high = constraint.max_skew or 1, skew  # fits with high, not with low
        while high - low > 1:
            middle = (low + high) // 2
            if len(question.fitting(_raised(question, constraint, path, middle).apply(others))):
                high = middle
            else:
                low = middle
        return _raised(question, constraint, path, high)

    phrase = f"with maxSkew {skew} instead of {constraint.max_skew} on {short(constraint.topology_key)}"
    return Change("spread-max-skew", f"{path}.maxSkew", phrase, on_pod(apply), value=str(skew), refine=refine)


def _dropped(constraint: TopologySpreadConstraint) -> Callable[[PodSpec], PodSpec]:
    def apply(spec: PodSpec) -> PodSpec:
        kept = [c for c in spec.topology_spread_constraints or () if not _same(c, constraint)]
        return replace(spec, topology_spread_constraints=kept or None)

    return apply


def _same(one: TopologySpreadConstraint, other: TopologySpreadConstraint) -> bool:
    """Whether both are the same constraint of a pod, with whatever skew: its key and kind are unique."""
    return (one.topology_key, one.when_unsatisfiable) == (other.topology_key, other.when_unsatisfiable)
