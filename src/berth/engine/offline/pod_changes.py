"""Changes to what a pod asks for: its terms, constraints, selectors, tolerations and ports."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from berth.engine.offline.changes import MOST, REQUIRED, Change, on_pod, short, without
from berth.engine.rules.pod_topology_spread.constraints import HARD
from berth.engine.rules.taint_toleration.taints import HARD_EFFECTS, describe, tolerates
from berth.kube.annotations import IN_ANNOTATION, IN_SPEC
from berth.kube.objects import (
    Affinity,
    LabelSelector,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodSpec,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from berth.kube.selectors import Requirement, parse_label_selector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from berth.engine.offline.variants import Variant, WhatIf

UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
_TERM_KINDS = (
    ("pod_affinity", "affinity", "podAffinity"),
    ("pod_anti_affinity", "anti-affinity", "podAntiAffinity"),
)
# A skew no cluster reaches.
_ANY_SKEW = 1 << 20


# --- spread constraints -----------------------------------------------------------------


def spread_changes(what_if: WhatIf, pod: Pod) -> Iterator[Change]:
    for i, constraint in enumerate(pod.spec.topology_spread_constraints or ()):
        if constraint.when_unsatisfiable != HARD:
            continue
        path = f"spec.topologySpreadConstraints[{i}]"
        yield _raised(what_if, constraint, path, _ANY_SKEW)
        phrase = f"without the spread constraint on {short(constraint.topology_key)}"
        yield Change("spread-constraint", path, phrase, on_pod(_dropped(constraint)))


def _dropped(constraint: TopologySpreadConstraint) -> Callable[[PodSpec], PodSpec]:
    def apply(spec: PodSpec) -> PodSpec:
        kept = [c for c in spec.topology_spread_constraints or () if not _same(c, constraint)]
        return replace(spec, topology_spread_constraints=kept or None)

    return apply


def _same(one: TopologySpreadConstraint, other: TopologySpreadConstraint) -> bool:
    """Whether both are the same constraint of a pod, with whatever skew: its key and kind are unique."""
    return (one.topology_key, one.when_unsatisfiable) == (other.topology_key, other.when_unsatisfiable)


def _raised(what_if: WhatIf, constraint: TopologySpreadConstraint, path: str, skew: int) -> Change:
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
            if len(what_if.fitting(_raised(what_if, constraint, path, middle).apply(others))):
                high = middle
            else:
                low = middle
        return _raised(what_if, constraint, path, high)

    phrase = f"with maxSkew {skew} instead of {constraint.max_skew} on {short(constraint.topology_key)}"
    return Change("spread-max-skew", f"{path}.maxSkew", phrase, on_pod(apply), value=str(skew), refine=refine)


# --- ports and taints ---------------------------------------------------------------------------


def port_changes(pod: Pod) -> Iterator[Change]:
    for i, container in enumerate(pod.spec.containers or ()):
        for j, port in enumerate(container.ports or ()):
            if not port.host_port:
                continue

            def apply(spec: PodSpec, dropped: object = port) -> PodSpec:
                containers = [
                    replace(c, ports=[p for p in c.ports if p is not dropped]) if c.ports else c
                    for c in spec.containers or ()
                ]
                return replace(spec, containers=containers)

            path = f"spec.containers[{i}].ports[{j}].hostPort"
            phrase = f"without the host port {port.host_port}/{port.protocol or 'TCP'}"
            yield Change("host-port", path, phrase, on_pod(apply))


def toleration_changes(what_if: WhatIf, pod: Pod) -> Iterator[Change]:
    counts: Counter[Taint] = Counter()
    for node in what_if.nodes.values():
        for taint in (node.spec and node.spec.taints) or ():
            if taint.effect in HARD_EFFECTS and not tolerates(pod.spec.tolerations, taint):
                counts[taint] += 1
    for taint, _ in counts.most_common(MOST):
        if taint.key == UNSCHEDULABLE_TAINT:
            continue  # uncordoning removes it
        added = Toleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)

        def apply(spec: PodSpec, toleration: Toleration = added) -> PodSpec:
            return replace(spec, tolerations=[*(spec.tolerations or ()), toleration])

        phrase = f"with a toleration for the taint {describe(taint)}"
        yield Change("toleration", "spec.tolerations", phrase, on_pod(apply), value=describe(taint))


# --- node selectors ----------------------------------------------------------------------------


def node_selector_changes(pod: Pod) -> Iterator[Change]:
    for key, value in (pod.spec.node_selector or {}).items():

        def apply(spec: PodSpec, dropped: str = key) -> PodSpec:
            return replace(
                spec, node_selector={k: v for k, v in (spec.node_selector or {}).items() if k != dropped}
            )

        yield Change(
            "node-selector",
            f"spec.nodeSelector[{key}]",
            f"without the nodeSelector {key}={value}",
            on_pod(apply),
        )


def node_affinity_changes(stated: Iterable[tuple[str, Affinity]]) -> Iterator[Change]:
    """Dropping requirements, wherever in the pod they stand."""
    rules = [(where, affinity.node_affinity) for where, affinity in stated if affinity.node_affinity]
    for attribute, field_name in REQUIRED.items():
        selectors: list[tuple[str, NodeSelector]] = [
            (f"{where}.nodeAffinity.{field_name}", selector)
            for where, affinity in rules
            if (selector := getattr(affinity, attribute)) is not None
        ]
        if not selectors:
            continue
        requirements = list(_requirements(selectors))
        for path, requirement in requirements[:MOST]:
            shown = Requirement(
                requirement.key or "", requirement.operator or "", frozenset(requirement.values or ())
            )
            yield Change(
                "node-affinity-requirement",
                path,
                f"without the required node affinity {shown}",
                on_pod(_with_selector(attribute, partial(_without_requirement, requirement))),
            )
        if len(requirements) != 1:
            phrase = "without the required node affinity"
            change = on_pod(_with_selector(attribute, lambda _: None))
            yield Change("node-affinity", selectors[0][0], phrase, change)


def _requirements(
    selectors: Iterable[tuple[str, NodeSelector]],
) -> Iterator[tuple[str, NodeSelectorRequirement]]:
    """Distinct requirements with the place of their first occurrence."""
    seen: list[NodeSelectorRequirement] = []
    for path, selector in selectors:
        for i, term in enumerate(selector.node_selector_terms or ()):
            for name, requirements in (
                ("matchExpressions", term and term.match_expressions),
                ("matchFields", term and term.match_fields),
            ):
                for j, requirement in enumerate(requirements or ()):
                    if requirement not in seen:
                        seen.append(requirement)
                        yield f"{path}.nodeSelectorTerms[{i}].{name}[{j}]", requirement


def _without_requirement(requirement: NodeSelectorRequirement, selector: NodeSelector) -> NodeSelector | None:
    terms = []
    for term in selector.node_selector_terms or ():
        if term is None or not (term.match_expressions or term.match_fields):
            continue
        expressions = [e for e in term.match_expressions or () if e != requirement]
        fields = [e for e in term.match_fields or () if e != requirement]
        if not expressions and not fields:
            return None  # an alternative without requirements would match every node
        terms.append(NodeSelectorTerm(match_expressions=expressions or None, match_fields=fields or None))
    return NodeSelector(node_selector_terms=list(terms))


def _with_selector(
    attribute: str, change: Callable[[NodeSelector], NodeSelector | None]
) -> Callable[[PodSpec], PodSpec]:
    def apply(spec: PodSpec) -> PodSpec:
        affinity = spec.affinity and spec.affinity.node_affinity
        selector: NodeSelector | None = getattr(affinity, attribute) if affinity else None
        if spec.affinity is None or affinity is None or selector is None:
            return spec
        changed = replace(affinity, **{attribute: change(selector)})
        return replace(spec, affinity=replace(spec.affinity, node_affinity=changed))

    return apply


# --- pod affinity ----------------------------------------------------------------------------------


def term_changes(pod: Pod, written: Pod) -> Iterator[Change]:
    """Dropping a required term; `written` is the pod with its annotation, where the term may stand."""
    for kind, words, camel in _TERM_KINDS:
        rules: PodAffinity | None = getattr(pod.spec.affinity, kind) if pod.spec.affinity else None
        stated = getattr(written.spec.affinity, kind) if written.spec.affinity else None
        for attribute, field_name in REQUIRED.items():
            in_spec = len((getattr(stated, attribute) if stated else None) or ())
            for i, term in enumerate((getattr(rules, attribute) if rules else None) or ()):
                what = f"{_selected(term.label_selector)} on {short(term.topology_key)}"
                place, index = (IN_SPEC, i) if i < in_spec else (IN_ANNOTATION, i - in_spec)
                yield Change(
                    f"pod-{words}-term",
                    f"{place}.{camel}.{field_name}[{index}]",
                    f"without the required {words} to {what}",
                    on_pod(without_term(kind, attribute, term)),
                )


def _selected(selector: LabelSelector | None) -> str:
    return str(parse_label_selector(selector))


def without_term(kind: str, attribute: str, term: object) -> Callable[[PodSpec], PodSpec]:
    def apply(spec: PodSpec) -> PodSpec:
        affinity = spec.affinity or Affinity()
        rules: PodAffinity = getattr(affinity, kind) or PodAffinity()
        kept = without(getattr(rules, attribute), term)
        return replace(spec, affinity=replace(affinity, **{kind: replace(rules, **{attribute: kept})}))

    return apply
