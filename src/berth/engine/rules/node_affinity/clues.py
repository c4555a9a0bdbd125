"""Labels that nodes nearly have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from berth.engine.rules.near_misses import nearest
from berth.engine.rules.relaxing import Question, labels_of
from berth.engine.state.pod_class import PodClass
from berth.kube.selectors import IN, Requirement


def clues(question: Question) -> Iterator[str]:
    if any(not required.selector.terms for required in question.pod_class.required_nodes):
        yield "the required node affinity has no term with a requirement, and an empty one matches no node"
    for requirement in _requirements(question.pod_class):
        if requirement.operator != IN:
            continue
        values = _values(question, requirement.key)
        if not values and (meant := nearest(requirement.key, labels_of(question))):
            yield f"no node has a label {requirement.key}; {meant} is there"
        for value in sorted(requirement.values):
            if values and (meant := nearest(value, values)):
                found = f"{requirement.key}={meant} is on {values[meant]}"
                yield f"no node has the label {requirement.key}={value}; {found}"


def misspelt(question: Question, key: str, value: str) -> bool:
    """Whether a label is nearly one that nodes have."""
    values = _values(question, key)
    return nearest(value, values) is not None or nearest(key, labels_of(question)) is not None


def _requirements(pod_class: PodClass) -> Iterable[Requirement]:
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
