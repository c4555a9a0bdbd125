"""Node affinity without one requirement, or without all of them, and labels that nodes nearly have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from msgspec.structs import replace

from berth.engine.rules.changes import MOST, Change, Question, label_keys, on_pod
from berth.engine.state.pod_class import REQUIRED, PodClass, written
from berth.kube.affinity.annotations import stated_affinity
from berth.kube.objects import Affinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec
from berth.kube.selectors import IN, Requirement
from berth.kube.text.near import nearest


def relaxations(question: Question) -> Iterator[Change]:
    yield from _selector_changes(question)
    yield from _affinity_changes(stated_affinity(question.written, question.cluster.options.gates))


def wanted_labels(question: Question) -> Iterator[tuple[str, str]]:
    """The labels of the pod's node selector that a user may add to a node.

    Only keys without a domain are suggested.  Under a domain, software states facts about the node
    (Kubernetes, a cloud, a device plugin, a CSI driver, node feature discovery), and a label that people
    chose under their company's domain cannot be told from those.  Misspelt labels are not suggested either.
    """
    for key, value in (question.pod.spec.node_selector or {}).items():
        if "/" not in key and not _misspelt(question, key, value):
            yield key, value


def _selector_changes(question: Question) -> Iterator[Change]:
    for key, value in (question.pod.spec.node_selector or {}).items():

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


def _affinity_changes(stated: Sequence[tuple[str, Affinity]]) -> Iterator[Change]:
    """Dropping requirements, wherever in the pod they stand."""
    for attribute, name in REQUIRED.items():
        found = written(stated, "node_affinity", {attribute: name})
        selectors: list[tuple[str, NodeSelector]] = [(path, selector) for path, _, selector in found]
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
                unpins=".matchFields[" in path,
            )
        if len(requirements) != 1:
            phrase = "without the required node affinity"
            change = on_pod(_with_selector(attribute, lambda _: None))
            yield Change("node-affinity", selectors[0][0], phrase, change, unpins=True)


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


# --- labels that nodes nearly have ----------------------------------------------------------------


def clues(question: Question) -> Iterator[str]:
    if any(not required.selector.terms for required in question.pod_class.required_nodes):
        yield "the required node affinity has no term with a requirement, and an empty one matches no node"
    for requirement in _stated_requirements(question.pod_class):
        if requirement.operator != IN:
            continue
        values = _values(question, requirement.key)
        if not values and (meant := nearest(requirement.key, label_keys(question.nodes.values()))):
            yield f"no node has a label {requirement.key}; {meant} is there"
        for value in sorted(requirement.values):
            if values and (meant := nearest(value, values)):
                found = f"{requirement.key}={meant} is on {values[meant]}"
                yield f"no node has the label {requirement.key}={value}; {found}"


def _misspelt(question: Question, key: str, value: str) -> bool:
    """Whether a label is nearly one that nodes have."""
    values = _values(question, key)
    return nearest(value, values) is not None or nearest(key, label_keys(question.nodes.values())) is not None


def _stated_requirements(pod_class: PodClass) -> Iterable[Requirement]:
    found = list(pod_class.node_selector.requirements) if pod_class.node_selector is not None else []
    found += [
        r for required in pod_class.required_nodes for term in required.selector.terms for r in term.labels
    ]
    return dict.fromkeys(sorted(found, key=str))


def _values(question: Question, key: str) -> dict[str, str]:
    """The values of a label, each with the nodes it is on, in words."""
    nodes: dict[str, list[str]] = {}
    for name, node in question.nodes.items():
        value = (node.metadata.labels or {}).get(key)
        if value is not None:
            nodes.setdefault(value, []).append(name)
    return {value: names[0] if len(names) == 1 else f"{len(names)} nodes" for value, names in nodes.items()}
