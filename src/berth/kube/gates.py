"""Feature gates, in Kubernetes' syntax: ``--feature-gates=NodeAffinityEviction=true,AllBeta=false``.

A disabled gate removes its fields from objects being created; on update they stay if the
stored object already used them, and are then ignored wherever rules are evaluated.  That is
how upstream treats a field whose feature was switched off after use (KEP-4328).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from berth.kube.objects import Affinity, NodeAffinity, Pod, PodAffinity, TopologySpreadConstraint, changed

_A = TypeVar("_A", NodeAffinity, PodAffinity)

NODE_AFFINITY_EVICTION = "NodeAffinityEviction"
POD_AFFINITY_EVICTION = "PodAffinityEviction"
EVEN_PODS_SPREAD = "EvenPodsSpread"
KEEP_SPREAD = "KeepSpread"

# Gates that are on by default (beta, as Kubernetes says), and those that are off (alpha).
_ATTRIBUTE = {
    NODE_AFFINITY_EVICTION: "node_affinity_eviction",
    POD_AFFINITY_EVICTION: "pod_affinity_eviction",
    EVEN_PODS_SPREAD: "even_pods_spread",
    KEEP_SPREAD: "keep_spread",
}
_ALPHA = frozenset((KEEP_SPREAD,))
_ALL_ALPHA, _ALL_BETA = "AllAlpha", "AllBeta"
_KNOWN = (*_ATTRIBUTE, _ALL_ALPHA, _ALL_BETA)
_BOOLS = dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "false", "FALSE", "False"), False
)


class FeatureGateError(ValueError):
    pass


@dataclass(frozen=True, slots=True)
class FeatureGates:
    node_affinity_eviction: bool = True
    pod_affinity_eviction: bool = True
    even_pods_spread: bool = True
    keep_spread: bool = False

    @staticmethod
    def parse(text: str, base: FeatureGates | None = None) -> FeatureGates:
        """Read ``A=true,B=false``. A gate's own entry wins over its stage's; others are as in `base`."""
        given: dict[str, bool] = {}
        for item in filter(None, text.split(",")):
            name, equals, value = (part.strip() for part in item.partition("="))
            if not equals:
                raise FeatureGateError(f"missing bool value for {name}: write {name}=true or {name}=false")
            if name not in _KNOWN:
                raise FeatureGateError(
                    f"unrecognized feature gate: {name} (known gates: {', '.join(_KNOWN)})"
                )
            if value not in _BOOLS:
                raise FeatureGateError(f"invalid value of {name}={value}: expected true or false")
            given[name] = _BOOLS[value]
        stages = {_ALL_ALPHA: _ALPHA, _ALL_BETA: _ATTRIBUTE.keys() - _ALPHA}
        chosen = {name: given[stage] for stage, names in stages.items() if stage in given for name in names}
        chosen.update({name: value for name, value in given.items() if name in _ATTRIBUTE})
        return replace(base or FeatureGates(), **{_ATTRIBUTE[name]: value for name, value in chosen.items()})

    @property
    def all_enabled(self) -> bool:
        return self.node_affinity_eviction and self.pod_affinity_eviction and self.even_pods_spread

    def __str__(self) -> str:
        values = {name: getattr(self, attribute) for name, attribute in _ATTRIBUTE.items()}
        return ",".join(f"{name}={str(value).lower()}" for name, value in values.items())


DEFAULT_GATES = FeatureGates()


# --- objects under disabled gates -----------------------------------------------------------


def enabled_affinity(affinity: Affinity | None, gates: FeatureGates = DEFAULT_GATES) -> Affinity | None:
    """The affinity without the rules of disabled gates; the same object if none is affected."""
    if affinity is None or gates.all_enabled:
        return affinity
    node, pod, anti = affinity.node_affinity, affinity.pod_affinity, affinity.pod_anti_affinity
    if not gates.node_affinity_eviction:
        node = _without_execution(node)
    if not gates.pod_affinity_eviction:
        pod, anti = _without_execution(pod), _without_execution(anti)
    return changed(affinity, node_affinity=node, pod_affinity=pod, pod_anti_affinity=anti)


def enabled_constraints(
    pod: Pod, gates: FeatureGates = DEFAULT_GATES
) -> list[TopologySpreadConstraint] | None:
    return pod.spec.topology_spread_constraints if gates.even_pods_spread else None


def drop_disabled_fields(new: Pod, old: Pod | None, gates: FeatureGates) -> Pod:
    """The pod as it may be stored: without fields of disabled gates, unless `old` already used them."""
    if gates.all_enabled:
        return new
    used = (old.spec.affinity if old else None) or Affinity()
    pod_rules = _has_execution_rules(used.pod_affinity) or _has_execution_rules(used.pod_anti_affinity)
    kept = FeatureGates(
        node_affinity_eviction=gates.node_affinity_eviction or _has_execution_rules(used.node_affinity),
        pod_affinity_eviction=gates.pod_affinity_eviction or pod_rules,
        even_pods_spread=gates.even_pods_spread or bool(old and old.spec.topology_spread_constraints),
    )
    affinity = enabled_affinity(new.spec.affinity, kept)
    constraints = enabled_constraints(new, kept)
    spec = changed(new.spec, affinity=affinity, topology_spread_constraints=constraints)
    return changed(new, spec=spec)


def _without_execution(affinity: _A | None) -> _A | None:
    if affinity is None:
        return None
    return changed(affinity, required_during_scheduling_required_during_execution=None)


def _has_execution_rules(affinity: NodeAffinity | PodAffinity | None) -> bool:
    return affinity is not None and affinity.required_during_scheduling_required_during_execution is not None
