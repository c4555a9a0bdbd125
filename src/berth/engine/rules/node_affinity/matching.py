"""Which nodes node selectors and node affinity terms match."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from berth.engine.rules.verdicts import Reason
from berth.engine.state.cluster_events import NodeAdded, NodeUpdated
from berth.engine.state.columns import BoolArray, Slots
from berth.engine.state.pod_class import PodClass
from berth.engine.state.tables import NodeTable
from berth.kube.selectors import NodeTerm, NodeTerms

REASON_POD = "node(s) didn't match Pod's node affinity/selector"
_CHANGES = (NodeAdded, NodeUpdated)

SELECTOR = Reason(
    "NodeSelectorMismatch",
    REASON_POD,
    "{field} wants {wanted}, the node has {found}",
    varies=("found",),
    waits_for="a node with {wanted}",
    events=_CHANGES,
)
AFFINITY = replace(SELECTOR, code="NodeAffinityMismatch")
ADDED_AFFINITY = Reason(
    "AddedAffinityMismatch",
    "node(s) didn't match scheduler-enforced node affinity",
    "{field} wants {wanted}",
    waits_for="a node with {wanted}",
    events=_CHANGES,
)


def match_term(nodes: NodeTable, term: NodeTerm, slots: Slots) -> BoolArray:
    if term.errors:
        return np.zeros_like(nodes.alive[slots])
    matches = nodes.matching(term.labels, slots)
    for requirement in term.fields:
        named = np.zeros(nodes.capacity, dtype=np.bool_)
        named[[nodes.slot_of[name] for name in requirement.values if name in nodes.slot_of]] = True
        matches &= named[slots] if requirement.operator == "In" else ~named[slots]
    return matches


def match_terms(nodes: NodeTable, terms: NodeTerms, slots: Slots) -> BoolArray:
    matches = np.zeros_like(nodes.alive[slots])
    for term in terms.terms:
        matches |= match_term(nodes, term, slots)
    return matches


def match_required(nodes: NodeTable, pod_class: PodClass, slots: Slots) -> BoolArray:
    """Whether nodes satisfy what the pod itself requires of them (not `addedAffinity`)."""
    selector = pod_class.node_selector
    matches = nodes.matching(() if selector is None else selector.requirements, slots)
    for required in pod_class.required_nodes:
        matches &= match_terms(nodes, required.selector, slots)
    return matches


def has_required(pod_class: PodClass, labels: Mapping[str, str], name: str) -> bool:
    """`match_required` of one node, given by its labels and name."""
    selector = pod_class.node_selector
    return (selector is None or selector.matches(labels)) and all(
        required.selector.matches(labels, name) for required in pod_class.required_nodes
    )


def why_unmet(selector: NodeTerms, labels: Mapping[str, str]) -> str:
    """What a node that has these labels lacks, label by label."""
    if len(selector.terms) == 1 and (unmet := [r for r in selector.terms[0].labels if not r.matches(labels)]):
        return "; ".join(f"{r}, the node has {found_label(labels, r.key)}" for r in unmet)
    keys = dict.fromkeys(r.key for term in selector.terms for r in term.labels)
    found = ", ".join(found_label(labels, key) for key in keys)
    return f"{selector}, the node has {found}" if found else str(selector)


def found_label(labels: Mapping[str, str], key: str) -> str:
    return f"{key}={labels[key]}" if key in labels else f"no label {key}"
