"""What a pod keeps for itself, and what that costs: quota by opportunity cost (the pod-affinity design).

A pod whose required anti-affinity closes a domain to others blocks all nodes of it, however little it
requests itself. A rule closes its domain if it selects pods of other namespaces by nothing that these could
choose: any pod, any pod but some, or whatever has a label of some name. A rule against pods of its own
namespace, or against pods with a label of some value, leaves the domain to everybody else: it costs nothing.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from berth.kube.affinity.annotations import AFFINITY_ANNOTATION, AnnotationError, effective_affinity
from berth.kube.affinity.anti_affinity import matches_any_namespace
from berth.kube.amounts.quantity import Quantity, QuantityError, stored
from berth.kube.defaults import NAMESPACE_NAME_LABEL
from berth.kube.objects import Affinity, Node, Pod, PodAffinityTerm, Taint, Toleration
from berth.kube.quota.amounts import whole
from berth.kube.selectors import (
    DOES_NOT_EXIST,
    EVERYTHING,
    EXISTS,
    IN,
    NodeTerms,
    Selector,
    parse_label_selector,
    parse_node_selector,
    selector_from_labels,
)
from berth.kube.taints import untolerated

EXCLUSIVE_CPU, EXCLUSIVE_MEMORY, EXCLUSIVE_NODES = (
    f"berth.dev/exclusive.{each}" for each in ("cpu", "memory", "nodes")
)
EXCLUSIVE_NAMES = (EXCLUSIVE_CPU, EXCLUSIVE_MEMORY, EXCLUSIVE_NODES)
LARGEST, AVERAGE = "largest", "average"


# --- nodes ----------------------------------------------------------------------------------------


class Blocked(NamedTuple):
    """What nodes have together: how many they are, their cpu in thousandths, and their memory in bytes."""

    nodes: int = 0
    cpu: int = 0
    memory: int = 0

    def plus(self, other: Blocked) -> Blocked:
        return Blocked(*map(sum, zip(self, other, strict=True)))

    def amounts(self) -> dict[str, Quantity]:
        """As a quota names it, which counts whole cpus only: what is begun is left out."""
        return {
            EXCLUSIVE_CPU: whole(self.cpu // 1000),
            EXCLUSIVE_MEMORY: whole(self.memory),
            EXCLUSIVE_NODES: whole(self.nodes),
        }


@dataclass(frozen=True, slots=True)
class NodeSize:
    """What matters of a node."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    has: Blocked

    @classmethod
    def of(cls, node: Node) -> NodeSize:
        allocatable = (node.status.allocatable if node.status else None) or {}
        taints = (node.spec.taints if node.spec else None) or ()
        has = Blocked(
            1,
            _read(allocatable.get("cpu"), lambda amount: amount.milli_value),
            _read(allocatable.get("memory"), lambda amount: amount.value),
        )
        return cls(node.metadata.name or "", node.metadata.labels or {}, tuple(taints), has)


def _read(raw: str | float | None, unit: Callable[[Quantity], int]) -> int:
    try:
        return max(unit(stored(raw)), 0) if raw is not None else 0
    except QuantityError:
        return 0


@dataclass(slots=True)
class NodeSizes:
    """The nodes of a cluster, and which are together in a domain."""

    _by_name: dict[str, tuple[str, NodeSize]] = field(default_factory=dict)  # with the version of each
    _domains: dict[str, dict[str, frozenset[str]]] = field(default_factory=dict)

    def keep(self, versions: Mapping[str, str], read: Callable[[str], Node]) -> None:
        """Make these all there are; those of another version than before are read."""
        news = [name for name, version in versions.items() if self._by_name.get(name, ("",))[0] != version]
        gone = self._by_name.keys() - versions.keys()
        for name in news:
            self._by_name[name] = (versions[name], NodeSize.of(read(name)))
        for name in gone:
            del self._by_name[name]
        if news or gone:
            self._domains.clear()

    def __iter__(self) -> Iterator[NodeSize]:
        return (size for _, size in self._by_name.values())

    def find(self, name: str) -> NodeSize | None:
        found = self._by_name.get(name)
        return found[1] if found is not None else None

    def together(self, keys: Collection[str], node: NodeSize) -> frozenset[str]:
        """The nodes that are in a domain with this one, of any of the keys."""
        found: frozenset[str] = frozenset()
        for key in keys:
            if key in node.labels:
                domain = self._domain(key)[node.labels[key]]
                found = found | domain if found else domain
        return found

    def _domain(self, key: str) -> dict[str, frozenset[str]]:
        known = self._domains.get(key)
        if known is None:
            members: dict[str, set[str]] = defaultdict(set)
            for node in self:
                if key in node.labels:
                    members[node.labels[key]].add(node.name)
            known = self._domains[key] = {value: frozenset(names) for value, names in members.items()}
        return known

    def total(self, names: Iterable[str]) -> Blocked:
        found = [size.has for size in map(self.find, names) if size is not None]
        return Blocked(*map(sum, zip(*found, strict=True))) if found else Blocked()


# --- pods -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Exclusion:
    """What a pod closes to others, and where it can be.

    Attributes:
        keys: The topology keys of the rules that close a domain.
        node: Where the pod is; empty while it has none.
        wanted: The labels and the terms that a node has to match.
    """

    keys: tuple[str, ...]
    node: str = ""
    labels: Selector = EVERYTHING
    wanted: tuple[NodeTerms, ...] = ()
    tolerations: tuple[Toleration, ...] = ()

    def could_use(self, node: NodeSize) -> bool:
        return (
            self.labels.matches(node.labels)
            and all(terms.matches(node.labels, node.name) for terms in self.wanted)
            and not any(True for _ in untolerated(self.tolerations, node.taints))
        )


def exclusion_of(pod: Pod) -> Exclusion | None:
    """What a pod closes to others; None if it is nothing, as with almost every pod."""
    affinity = pod.spec.affinity
    if (affinity is None or affinity.pod_anti_affinity is None) and AFFINITY_ANNOTATION not in (
        pod.metadata.annotations or ()
    ):
        return None
    with contextlib.suppress(AnnotationError):  # nobody follows one that cannot be read
        affinity = effective_affinity(pod)
    own = pod.metadata.namespace or ""
    keys = {term.topology_key or "" for term in _required(affinity) if closes(term, own)}
    if not keys:
        return None
    return Exclusion(
        tuple(sorted(keys)),
        pod.spec.node_name or "",
        selector_from_labels(pod.spec.node_selector),
        tuple(_node_terms(affinity)),
        tuple(pod.spec.tolerations or ()),
    )


def _required(affinity: Affinity | None) -> Iterator[PodAffinityTerm]:
    rules = affinity.pod_anti_affinity if affinity is not None else None
    if rules is not None:
        yield from rules.required_during_scheduling_ignored_during_execution or ()
        yield from rules.required_during_scheduling_required_during_execution or ()


def _node_terms(affinity: Affinity | None) -> Iterator[NodeTerms]:
    rules = affinity.node_affinity if affinity is not None else None
    for selector in (
        (
            rules.required_during_scheduling_ignored_during_execution,
            rules.required_during_scheduling_required_during_execution,
        )
        if rules is not None
        else ()
    ):
        if (parsed := parse_node_selector(selector)) is not None:
            yield parsed


def closes(term: PodAffinityTerm, own: str) -> bool:
    """Whether a required anti-affinity rule of a pod in the namespace `own` closes its domain to others."""
    selector = parse_label_selector(term.label_selector)
    asked = {operator: {r.key for r in selector.requirements if r.operator == operator} for operator in _ANY}
    if selector.nothing or any(r.operator == IN for r in selector.requirements):
        return False
    return not asked[EXISTS] & asked[DOES_NOT_EXIST] and _reaches_abroad(term, own)


_ANY = (EXISTS, DOES_NOT_EXIST)


def _reaches_abroad(term: PodAffinityTerm, own: str) -> bool:
    """Whether a rule is about pods of other namespaces than the pod's own."""
    if any(name != own for name in term.namespaces or ()) or matches_any_namespace(term.namespace_selector):
        return True
    chosen = parse_label_selector(term.namespace_selector)
    named = [r.values for r in chosen.requirements if r.key == NAMESPACE_NAME_LABEL and r.operator == IN]
    return not chosen.nothing and not any(values <= {own} for values in named)


# --- the charge -----------------------------------------------------------------------------------


def cost(exclusions: Iterable[Exclusion], nodes: NodeSizes, estimate: str = LARGEST) -> Blocked:
    """What pods of one namespace block: the nodes closed by those that have one, each once, and for every
    pod without a node what it could close at most, or on average.
    """
    closed: set[str] = set()
    waiting: dict[Exclusion, Blocked] = {}
    total = Blocked()
    for pod in exclusions:
        if pod.node:
            node = nodes.find(pod.node)
            if node is not None:
                closed |= nodes.together(pod.keys, node)
            continue
        if pod not in waiting:
            waiting[pod] = _estimated(pod, nodes, estimate)
        total = total.plus(waiting[pod])
    return total.plus(nodes.total(closed))


def _estimated(pod: Exclusion, nodes: NodeSizes, estimate: str) -> Blocked:
    """For each resource by itself, so that the charge can only go down where the largest counts.

    If there is no node that it could use it waits for one that is not there yet, which may be any.
    """
    candidates = [node for node in nodes if pod.could_use(node)] or list(nodes)
    totals: dict[frozenset[str], Blocked] = {}
    found = []
    for node in candidates:
        closed = nodes.together(pod.keys, node)
        if closed not in totals:
            totals[closed] = nodes.total(closed)
        found.append(totals[closed])
    if not found:
        return Blocked()
    columns = zip(*found, strict=True)
    if estimate == AVERAGE:
        return Blocked(*(sum(column) // len(found) for column in columns))
    return Blocked(*map(max, columns))
