"""What a pod keeps for itself, and what that costs: quota by opportunity cost (the pod-affinity design).

A pod whose required anti-affinity closes a domain to others blocks all nodes of it, however little it
requests itself. A rule closes its domain if it selects pods of other namespaces by nothing that these could
choose: any pod, any pod but some, or whatever has a label of some name. A rule against pods of its own
namespace, or against pods with a label of some value, leaves the domain to everybody else: it costs nothing.
A pod that has a node is charged only for rules against namespaces that are there, and not only for daemons.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from berth.kube.affinity.annotations import AFFINITY_ANNOTATION, followed_affinity
from berth.kube.affinity.anti_affinity import matches_any_namespace, required_terms
from berth.kube.amounts.quantity import Quantity
from berth.kube.amounts.resource_lists import ZERO, amounts_in, whole
from berth.kube.defaults import NAMESPACE_NAME_LABEL
from berth.kube.objects import Affinity, Node, Pod, PodAffinityTerm, Taint, Toleration
from berth.kube.selectors import (
    DOES_NOT_EXIST,
    EVERYTHING,
    EXISTS,
    IN,
    NOT_IN,
    NodeTerms,
    Selector,
    parse_label_selector,
    parse_node_selector,
    selector_from_labels,
)
from berth.kube.taints import first_untolerated, taints_of

EXCLUSIVE_CPU, EXCLUSIVE_MEMORY, EXCLUSIVE_NODES = (
    f"berth.dev/exclusive.{each}" for each in ("cpu", "memory", "nodes")
)
EXCLUSIVE_NAMES = (EXCLUSIVE_CPU, EXCLUSIVE_MEMORY, EXCLUSIVE_NODES)
LARGEST, AVERAGE = "largest", "average"


# --- nodes ----------------------------------------------------------------------------------------


class BlockedNodes(NamedTuple):
    """What nodes have together: how many they are, their cpu in thousandths, and their memory in bytes."""

    nodes: int = 0
    cpu: int = 0
    memory: int = 0

    def plus(self, other: BlockedNodes) -> BlockedNodes:
        return BlockedNodes(*map(sum, zip(self, other, strict=True)))

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
    has: BlockedNodes

    @classmethod
    def of(cls, node: Node) -> NodeSize:
        allocatable = amounts_in(node.status.allocatable if node.status else None)
        cpu, memory = (allocatable.get(name, ZERO) for name in ("cpu", "memory"))
        has = BlockedNodes(1, max(cpu.milli_value, 0), max(memory.value, 0))
        return cls(node.metadata.name or "", node.metadata.labels or {}, tuple(taints_of(node)), has)


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
        return self._by_name.get(name, ("", None))[1]

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

    def total(self, names: Iterable[str]) -> BlockedNodes:
        found = [size.has for size in map(self.find, names) if size is not None]
        return BlockedNodes(*map(sum, zip(*found, strict=True))) if found else BlockedNodes()


# --- pods -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClosingRule:
    """A rule that closes its domain to pods of other namespaces."""

    key: str
    names: frozenset[str]  # the namespaces that it names
    chosen: Selector  # the namespaces that it chooses by label
    everywhere: bool  # whether those are whatever namespace somebody makes next


@dataclass(frozen=True, slots=True)
class Exclusion:
    """What a pod closes to others, and where it can be."""

    rules: tuple[ClosingRule, ...]  # those that close a domain
    own: str = ""  # the namespace of the pod
    node: str = ""  # where the pod is; empty while it has none
    labels: Selector = EVERYTHING  # that a node has to match
    wanted: tuple[NodeTerms, ...] = ()  # the terms that it has to match, too
    tolerations: tuple[Toleration, ...] = ()

    @property
    def keys(self) -> frozenset[str]:
        """The topology keys of the domains that it closes."""
        return frozenset(rule.key for rule in self.rules)

    def could_use(self, node: NodeSize) -> bool:
        return (
            self.labels.matches(node.labels)
            and all(terms.matches(node.labels, node.name) for terms in self.wanted)
            and first_untolerated(self.tolerations, node.taints) is None
        )


def exclusion_of(pod: Pod) -> Exclusion | None:
    """What a pod closes to others; None if it is nothing, as with almost every pod."""
    affinity, annotations = pod.spec.affinity, pod.metadata.annotations or ()
    if (affinity is None or affinity.pod_anti_affinity is None) and AFFINITY_ANNOTATION not in annotations:
        return None
    affinity = followed_affinity(pod)
    own = pod.metadata.namespace or ""
    rules = [_closing_rule(term) for _, term in required_terms(affinity) if closes(term, own)]
    if not rules:
        return None
    return Exclusion(
        tuple(rules),
        own,
        pod.spec.node_name or "",
        selector_from_labels(pod.spec.node_selector),
        tuple(_node_terms(affinity)),
        tuple(pod.spec.tolerations or ()),
    )


def _node_terms(affinity: Affinity | None) -> Iterator[NodeTerms]:
    rules = affinity.node_affinity if affinity is not None else None
    for _, selector in rules.required if rules is not None else ():
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
    by_name = [each for each in chosen.requirements if each.key == NAMESPACE_NAME_LABEL]
    if chosen.nothing or any(each.operator == DOES_NOT_EXIST for each in by_name):
        return False
    named = [each.values for each in by_name if each.operator == IN]
    left_out = {own}.union(*(each.values for each in by_name if each.operator == NOT_IN))
    return not named or not frozenset.intersection(*named) <= left_out


def _closing_rule(term: PodAffinityTerm) -> ClosingRule:
    return ClosingRule(
        term.topology_key or "",
        frozenset(term.namespaces or ()),
        parse_label_selector(term.namespace_selector),
        matches_any_namespace(term.namespace_selector),
    )


class Neighbours:
    """The namespaces of a cluster: whom a rule keeps out; pods of `daemons` run beside everybody."""

    def __init__(self, daemons: Collection[str] = ()) -> None:
        self._daemons = frozenset(daemons)
        self._labels: dict[str, Mapping[str, str]] = {}
        self._known: dict[tuple[str, ClosingRule], bool] = {}

    def keep(self, labels: Mapping[str, Mapping[str, str]]) -> None:
        """Make these namespaces, with their labels, all there are."""
        if labels != self._labels:
            self._labels = dict(labels)
            self._known.clear()

    def are_kept_out(self, rule: ClosingRule, own: str) -> bool:
        """Whether there is another namespace that a rule of a pod in the namespace `own` is about."""
        if rule.everywhere:
            return True
        if (own, rule) not in self._known:
            self._known[own, rule] = any(
                name in rule.names or rule.chosen.matches(labels)
                for name, labels in self._labels.items()
                if name != own and name not in self._daemons
            )
        return self._known[own, rule]


# --- the charge -----------------------------------------------------------------------------------


def cost(
    exclusions: Iterable[Exclusion],
    nodes: NodeSizes,
    estimate: str = LARGEST,
    neighbours: Neighbours | None = None,
) -> BlockedNodes:
    """What pods of one namespace block: the nodes closed by those that have one, or can have only one, each
    once, and for every other pod what it could close at most, or on average.

    Without `neighbours` any namespace that a rule is about may be there.
    """
    closed: set[str] = set()
    waiting: dict[Exclusion, list[frozenset[str]]] = {}
    total = BlockedNodes()
    for pod in exclusions:
        if pod.node:
            node = nodes.find(pod.node)
            if node is not None:
                rules = [r for r in pod.rules if neighbours is None or neighbours.are_kept_out(r, pod.own)]
                closed |= nodes.together({rule.key for rule in rules}, node)
            continue
        if pod not in waiting:
            waiting[pod] = _domains(pod, nodes)
        domains = waiting[pod]
        if len(set(domains)) == 1:
            closed |= domains[0]
        else:
            total = total.plus(_estimated(domains, nodes, estimate))
    return total.plus(nodes.total(closed))


@dataclass(frozen=True, slots=True)
class ExclusiveDomains:
    """What decides how much pods block."""

    estimate: str = LARGEST  # which of the nodes that a pod could get it is charged for while it has none
    neighbours: Neighbours = field(default_factory=Neighbours)
    nodes: NodeSizes = field(default_factory=NodeSizes)

    def cost(self, exclusions: Iterable[Exclusion]) -> BlockedNodes:
        return cost(exclusions, self.nodes, self.estimate, self.neighbours)


def _domains(pod: Exclusion, nodes: NodeSizes) -> list[frozenset[str]]:
    """For each node that a pod could use, the nodes that it would close there.

    If there is no node that it could use it waits for one that is not there yet, which may be any.
    """
    candidates = [node for node in nodes if pod.could_use(node)] or list(nodes)
    return [nodes.together(pod.keys, node) for node in candidates]


def _estimated(domains: Sequence[frozenset[str]], nodes: NodeSizes, estimate: str) -> BlockedNodes:
    """For each resource by itself, so that the charge can only go down where the largest counts."""
    totals = {closed: nodes.total(closed) for closed in set(domains)}
    found = [totals[closed] for closed in domains]
    if not found:
        return BlockedNodes()
    columns = zip(*found, strict=True)
    if estimate == AVERAGE:
        return BlockedNodes(*(sum(column) // len(found) for column in columns))
    return BlockedNodes(*map(max, columns))
