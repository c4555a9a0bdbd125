"""Relaxing a rule: small changes of a pod or of its cluster that might make the pod fit.

Each change knows its loosest form (the constraint dropped, the request gone) and, where there is
something in between, how to find the smallest form that still helps.  The rules say which changes there
are; whoever asks tries them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec.structs import replace

from berth.engine.rules.verdicts import Cause, RuleVerdict, WorkloadOf, words_of
from berth.engine.state.cluster import Cluster
from berth.engine.state.columns import IndexArray
from berth.engine.state.pod_class import PodClass
from berth.kube.affinity.annotations import AFFINITY_ANNOTATION, effective_affinity, without_annotation
from berth.kube.gates import FeatureGates
from berth.kube.objects import Node, Pod, PodSpec
from berth.kube.text.near import nearest
from berth.kube.text.words import first_of
from berth.kube.well_known import HOSTNAME

# Changes of each kind, so that odd clusters (a taint of its own on every node) stay bounded.
MOST = 12
# Nodes one change may touch.
_MOST_NODES = 50
_NAMES_SHOWN = 3
_MOST_REASONS = 3

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Peers:
    """Running pods of one class, by key with their nodes, and what they should ask for instead."""

    pod_class: PodClass
    nodes: Mapping[str, str]
    terminating: frozenset[str]
    instead: Pod


@dataclass(frozen=True, slots=True)
class Variant:
    """The pod and the parts of the cluster that are different."""

    pod: Pod
    nodes: Mapping[str, Node] = field(default_factory=dict)
    peers: tuple[Peers, ...] = ()


Apply = Callable[[Variant], Variant]


@dataclass(frozen=True, slots=True)
class Change:
    """A change to try.

    Attributes:
        kind: What is changed, for programs: ``spread-max-skew``, ``toleration`` ...
        path: The field it is about, in the pod unless `object` names something else.
        phrase: The change in words: ``without the nodeSelector disk=ssd``.
        refine: Given the variant with all *other* changes made, the smallest form of this change.
        group: Only one change of a group is reported, the one that helps most.
        any_node: One of the nodes it is about is enough.
        unpins: It may move a pod off the one node that was chosen for it, as a DaemonSet's controller does.
    """

    kind: str
    path: str
    phrase: str
    apply: Apply
    object: str | None = None
    value: str | None = None
    refine: Callable[[Variant], Change] | None = field(default=None, compare=False)
    group: str | None = None
    any_node: bool = False
    unpins: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """A pod that no node takes: which changes of it or of its cluster might help?

    Attributes:
        pod: The pod with all its affinity in its spec; `written` is as its author wrote it.
        waiting: The pods that have no node; the one asked about may be among them.
        ended: The pods that have ended and count nowhere.
        verdicts: Slot -> what the rules say about the node while nothing is changed.
        fitting: The slots of the nodes that would take the pod of a variant.
        workload_of: Whose the pods are that are in the way.
    """

    cluster: Cluster
    pod_class: PodClass
    pod: Pod
    written: Pod
    nodes: Mapping[str, Node]
    running: Mapping[str, Pod]
    verdicts: Mapping[int, Sequence[RuleVerdict]]
    fitting: Callable[[Variant], IndexArray]
    waiting: Mapping[str, Pod] = field(default_factory=dict)
    ended: Mapping[str, Pod] = field(default_factory=dict)
    workload_of: WorkloadOf = field(default=lambda _: None)

    @property
    def own_key(self) -> str:
        return f"{self.pod_class.namespace}/{self.pod.metadata.name}"

    def refused_by(self, rule: str, reason: str | None = None) -> list[str]:
        """The nodes that a rule refuses, for some reason if it is given; of many those closest to fitting."""
        names = [
            self.cluster.nodes.names[slot] or ""
            for slot, verdicts in self.verdicts.items()
            if any(v.rule == rule and (reason is None or reason in v.reasons) for v in verdicts)
        ]
        return self.closest(names)

    def closest(self, names: list[str]) -> list[str]:
        """Those of many nodes that the fewest rules refuse: changing nodes one by one takes time."""
        if len(names) <= _MOST_NODES:
            return names
        slot_of = self.cluster.nodes.slot_of
        return sorted(names, key=lambda name: len(self.verdicts.get(slot_of[name], ())))[:_MOST_NODES]


def on_pod(change: Callable[[PodSpec], PodSpec]) -> Apply:
    def apply(variant: Variant) -> Variant:
        pod = replace(variant.pod, spec=change(variant.pod.spec))
        return Variant(pod, variant.nodes, variant.peers)

    return apply


def on_nodes(  # noqa: PLR0913 - what it says of itself has five parts
    question: Question,
    names: list[str],
    change: Callable[[Node], Node],
    kind: str,
    path: str,
    phrase: tuple[str, str],
    *,
    value: str | None = None,
    group: str | None = None,
) -> Change:
    """A change of nodes; `phrase` is what stands before and after their names.

    Its smallest form is of those only that then take the pod, and says so if one is enough.
    """

    def made(names: list[str]) -> Change:
        return on_nodes(question, names, change, kind, path, phrase, value=value, group=group)

    def apply(variant: Variant) -> Variant:
        current = {name: variant.nodes.get(name) or question.nodes[name] for name in names}
        changed = {name: change(node) for name, node in current.items()}
        return Variant(variant.pod, {**variant.nodes, **changed}, variant.peers)

    def refine(others: Variant) -> Change:
        table = question.cluster.nodes.names
        fitting = {table[slot] for slot in question.fitting(apply(others)).tolist()}
        helpful = [name for name in names if name in fitting] or names
        found = made(helpful)
        if len(helpful) == 1 or others.nodes or not len(question.fitting(made(helpful[:1]).apply(others))):
            return found
        return dataclasses.replace(found, phrase=_one_of(helpful).join(phrase), any_node=True)

    shown = f"node {names[0]}" if len(names) == 1 else f"nodes {', '.join(names)}"
    told = listed(names).join(phrase)
    return Change(kind, path, told, apply, object=shown, value=value, refine=refine, group=group)


def listed(names: list[str]) -> str:
    return first_of(names, _NAMES_SHOWN)


def _one_of(names: list[str]) -> str:
    shown = names[:_NAMES_SHOWN]
    *first, last = shown if len(names) <= _NAMES_SHOWN else [*shown, "another"]
    return f"{', '.join(first)} or {last}"


def short(topology_key: str | None) -> str:
    return (topology_key or "").rpartition("/")[2]


def level(topology_key: str) -> str:
    """What people call a domain of the topology: a node, a zone, a rack."""
    return "node" if topology_key == HOSTNAME else short(topology_key)


def without(items: list[_T] | None, item: _T) -> list[_T] | None:
    return [kept for kept in items or () if kept is not item] or None


def label_keys(nodes: Iterable[Node]) -> set[str]:
    """The keys of the labels that nodes have."""
    return {key for node in nodes for key in node.metadata.labels or ()}


def missing_label(question: Question, key: str) -> str | None:
    """That no node has a label, and which one was probably meant; None if some have it."""
    if any(key in (node.metadata.labels or {}) for node in question.nodes.values()):
        return None
    meant = nearest(key, label_keys(question.nodes.values()))
    return f"no node has a label {key}" + (f"; {meant} is there" if meant else "")


def why_refused(question: Question, slots: Sequence[int], causes: Sequence[Cause]) -> str:
    """What keeps a pod from the nodes: every reason, and from how many."""
    groups: dict[Hashable, list[tuple[int, Cause]]] = {}
    for slot, cause in zip(slots, causes, strict=True):
        groups.setdefault(cause.likeness, []).append((slot, cause))
    names = question.cluster.nodes.names
    found = sorted(groups.values(), key=len, reverse=True)
    told = [
        f"{words_of([cause for _, cause in group], question.workload_of)} "
        f"({names[group[0][0]] if len(group) == 1 else f'{len(group)} nodes'})"
        for group in found[:_MOST_REASONS]
    ]
    left = sum(map(len, found[_MOST_REASONS:]))
    return "; ".join([*told, f"other reasons ({left} nodes)"] if left else told)


def label_changes(question: Question, wanted: Iterable[tuple[str, str]]) -> Iterator[Change]:
    """Labels for the nodes that have none with their key."""
    for key, value in wanted:
        lacking = [name for name, node in question.nodes.items() if key not in (node.metadata.labels or {})]

        def apply(node: Node, key: str = key, value: str = value) -> Node:
            labels = {**(node.metadata.labels or {}), key: value}
            return replace(node, metadata=replace(node.metadata, labels=labels))

        if lacking:
            yield on_nodes(
                question,
                question.closest(lacking),
                apply,
                "node-label",
                f"metadata.labels[{key}]",
                (f"with the label {key}={value} on ", ", if true there"),
                value=f"{key}={value}",
                group=f"node-label {key}",
            )


def with_effective_affinity(pod: Pod, gates: FeatureGates) -> Pod:
    """The pod with the rules of its annotation moved to where all others stand."""
    if AFFINITY_ANNOTATION not in (pod.metadata.annotations or {}):
        return pod
    return replace(without_annotation(pod), spec=replace(pod.spec, affinity=effective_affinity(pod, gates)))
