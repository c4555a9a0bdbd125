"""Pods that ask for the same thing share a class, compiled once.

A class is everything about a pod that can matter to placement except its name, where it runs and whether it
is terminating; a million running pods are usually a few thousand.  Classes, label sets and terms know each
other: a class has one label set and owns terms, and each of those lists its classes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from berth.engine.state.columns import BoolArray, Slots
from berth.engine.state.identity import node_key, resizing, spreading_owner
from berth.engine.state.options import Options
from berth.engine.state.requests import Requests, pod_requests
from berth.engine.state.tables import ANY_IP, HostPort, NodeTable
from berth.kube.affinity.annotations import effective_affinity, stated_affinity
from berth.kube.amounts.resource_lists import is_sidecar
from berth.kube.gates import enabled_constraints
from berth.kube.in_tree_volumes import translated
from berth.kube.objects import Affinity, NodeSelector, Pod, PodAffinityTerm, PodSpec
from berth.kube.selectors import (
    NodeTerms,
    Selector,
    WeightedNodeTerm,
    parse_label_selector,
    parse_node_selector,
    parse_preferred_terms,
    selected_keys,
    selector_from_labels,
)
from berth.kube.well_known import (
    PREFERRED_DURING_SCHEDULING,
    REQUIRED_DURING_EXECUTION,
    REQUIRED_DURING_SCHEDULING,
)

# A claim of a pod, by its namespace; or a volume without a claim, by its driver: then that is marked.
VolumeKey = tuple[str, str]
UNCLAIMED = "\0"
# A label and its value; None stands for any.
Anchor = tuple[str, str | None]
# Kinds of affinity and the lists of each, as attributes and on the wire.
_KINDS = {
    "node_affinity": "nodeAffinity",
    "pod_affinity": "podAffinity",
    "pod_anti_affinity": "podAntiAffinity",
}
_EXECUTION = "required_during_scheduling_required_during_execution"
REQUIRED = {
    "required_during_scheduling_ignored_during_execution": REQUIRED_DURING_SCHEDULING,
    _EXECUTION: REQUIRED_DURING_EXECUTION,
}
_PREFERRED = {"preferred_during_scheduling_ignored_during_execution": PREFERRED_DURING_SCHEDULING}


@dataclass(frozen=True, slots=True)
class DeviceClaimUse:
    """A ResourceClaim of a pod.

    Attributes:
        own: It was made for this pod.
        refusal: Why it has no name, in kube-scheduler's words; None if it has one.
    """

    name: str = ""
    own: bool = False
    refusal: str | None = None


class CompiledPlan(Protocol):
    """What the cluster tells the compiled rules of a class."""

    def node_joins(self, slot: int) -> None: ...
    def node_leaves(self, slot: int) -> None: ...
    def release(self) -> None: ...


class ClassCounter(Protocol):
    """What a pod class knows of a counter that its pods count in."""

    living_only: bool
    classes: dict[PodClass, None]

    def add(self, slot: int, weight: int) -> None: ...


class TermIndex(Protocol):
    """Where a class finds the label set and the terms that it shares with other classes."""

    def label_set(self, namespace: str, labels: Mapping[str, str]) -> LabelSet: ...
    def term(
        self,
        selector: Selector,
        namespaces: frozenset[str] | None,
        namespace_selector: Selector | None = None,
    ) -> Term: ...
    def mention(self, keys: Iterable[str]) -> None: ...


class ClassWatcher(Protocol):
    """A compiled rule that keeps counts of pods, told of every class that may matter to it."""

    def consider(self, pod_class: PodClass) -> None: ...


@dataclass(slots=True, eq=False)
class LabelSet:
    """The pods of one namespace with one set of labels; pods that have both alike share it.

    Attributes:
        terms: The terms that select it.
        classes: The pod classes that carry it.
        watchers: Rules of incoming pods with these labels, to be told of new owners of such terms.
    """

    namespace: str
    labels: Mapping[str, str]
    terms: dict[Term, None] = field(default_factory=dict)
    classes: dict[PodClass, None] = field(default_factory=dict)
    watchers: dict[ClassWatcher, None] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Term:
    """A selector over the pods of some namespaces.

    Attributes:
        namespaces: Names listed; None stands for every namespace.
        namespace_selector: Adds the namespaces whose labels match.
        anchors: Labels of which whatever it selects has at least one; empty: nothing so simple is known.
        selected: The label sets it selects.
        owners: The pod classes that carry it in an affinity rule.
        watchers: Rules that count the pods it selects.
    """

    selector: Selector
    namespaces: frozenset[str] | None
    namespace_selector: Selector | None
    anchors: tuple[Anchor, ...] = ()
    selected: dict[LabelSet, None] = field(default_factory=dict)
    owners: dict[PodClass, None] = field(default_factory=dict)
    watchers: dict[ClassWatcher, None] = field(default_factory=dict)

    def watch(self, watcher: ClassWatcher) -> None:
        """Tell a rule of every class that it selects, starting with those already there."""
        self.watchers[watcher] = None
        for selected in self.selected:
            for pod_class in selected.classes:
                watcher.consider(pod_class)

    def covers(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether pods of `namespace`, which has these labels, are looked at."""
        if self.namespaces is None or namespace in self.namespaces:
            return True
        return self.namespace_selector is not None and self.namespace_selector.matches(labels)


@dataclass(frozen=True, slots=True)
class OwnedTerm:
    """A pod affinity or anti-affinity term as a pod carries it.

    Attributes:
        weight: Signed for preferences (negative: anti-affinity), 0 for requirements.
        execution: The requirement must also hold while the pod runs.
        source: The term as written, for explanations.
        path: Where it stands in the pod.
    """

    term: Term
    topology_key: str
    weight: int
    execution: bool
    source: PodAffinityTerm
    path: str


@dataclass(frozen=True, slots=True)
class RequiredNodes:
    """One of the node selectors that must all match; `source` is it as written, and stands at `path`."""

    selector: NodeTerms
    execution: bool
    source: NodeSelector
    path: str


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """A claim a pod mounts; that of an ephemeral volume is made for the pod and must belong to it."""

    name: str
    ephemeral: bool = False


class DiskUse(NamedTuple):
    """A disk that a pod mounts without a claim.

    Attributes:
        kind: The field of a volume that says it.
        name: What tells it from others of its kind.
    """

    kind: str
    name: tuple[str, ...]
    read_only: bool = False

    @property
    def rivals(self) -> tuple[DiskUse, ...]:
        """The uses that it cannot go with on one node."""
        written = self._replace(read_only=False)
        return (written,) if self.read_only else (written, self._replace(read_only=True))

    def __str__(self) -> str:
        return f"{self.kind} {'/'.join(self.name)}"


class PodClass:
    """What the pods of one class have in common.

    Attributes:
        pod: The pod the class was made from.
        volume_keys: What a pod of this class mounts that may count for a CSI driver.
        touches: The counters a pod of this class counts in, and its weight there.
        execution_terms: The required terms about other pods that must hold while the pod runs, too.
        running: How many pods of the class are counted.
        node_name: The node a pod that is still to be placed asks for by name.
        profile: The scheduling profile that places such pods, and its options.
        plan: The compiled rules for placing such a pod, while they are kept.
    """

    def __init__(
        self,
        pod: Pod,
        *,
        number: int,
        key: bytes,
        node_name: str | None,
        index: TermIndex,
        options: Options,
        profile: str = "",
    ) -> None:
        self.pod = pod
        self.number = number
        self.key = key
        self.options = options
        self.profile = profile
        self.spec: PodSpec = pod.spec
        self.node_name = node_name
        self.namespace = pod.metadata.namespace or "default"
        self.labels: Mapping[str, str] = pod.metadata.labels or {}
        self.label_set: LabelSet = index.label_set(self.namespace, self.labels)
        self.affinity: Affinity | None = effective_affinity(pod, options.gates)
        self._stated = () if self.affinity is None else stated_affinity(pod, options.gates)
        self.spread_constraints = enabled_constraints(pod, options.gates) or []
        self.requests: Requests = pod_requests(pod.spec, resizing(pod.status), options.version)
        self.host_ports: tuple[HostPort, ...] = tuple(host_ports(pod.spec))
        self.owner = spreading_owner(pod.metadata)
        self.priority = pod.spec.priority or 0
        self.claims: tuple[ClaimUse, ...] = tuple(dict.fromkeys(_claims(pod))) if pod.spec.volumes else ()
        self.disks: tuple[DiskUse, ...] = tuple(dict.fromkeys(_disks(pod))) if pod.spec.volumes else ()
        self.volume_keys: tuple[VolumeKey, ...] = tuple(self._volume_keys()) if pod.spec.volumes else ()
        self.device_claims = tuple(_device_claims(pod)) if pod.spec.resource_claims else ()
        self.touches: dict[ClassCounter, int] = {}
        self.running = 0
        self.plan: CompiledPlan | None = None
        self._compile_terms(index)
        for constraint in self.spread_constraints:
            index.mention((*selected_keys(constraint.label_selector), *(constraint.match_label_keys or ())))

    def _volume_keys(self) -> Iterable[VolumeKey]:
        for use in self.claims:
            yield self.namespace, use.name
        for volume in self.spec.volumes or ():
            if (found := translated(volume)) is not None:
                yield UNCLAIMED + found[0], found[1]

    def _compile_terms(self, index: TermIndex) -> None:
        none: tuple[OwnedTerm, ...] = ()
        self.required_affinity = self.required_anti_affinity = self.preferred = self.execution_terms = none
        if not self._stated:
            return
        self.required_affinity = self._required("pod_affinity", index)
        self.required_anti_affinity = self._required("pod_anti_affinity", index)
        self.preferred = (
            *self._preferred("pod_affinity", index, 1),
            *self._preferred("pod_anti_affinity", index, -1),
        )
        required = (*self.required_affinity, *self.required_anti_affinity)
        self.execution_terms = tuple(owned for owned in required if owned.execution)

    def _required(self, kind: str, index: TermIndex) -> tuple[OwnedTerm, ...]:
        return tuple(
            OwnedTerm(self._intern(term, index), term.topology_key or "", 0, execution, term, f"{path}[{i}]")
            for path, execution, terms in written(self._stated, kind, REQUIRED)
            for i, term in enumerate(terms)
        )

    def _preferred(self, kind: str, index: TermIndex, sign: int) -> Iterable[OwnedTerm]:
        for path, _, weighted in written(self._stated, kind, _PREFERRED):
            for i, each in enumerate(weighted):
                if (term := each.pod_affinity_term) is not None:
                    key, weight = term.topology_key or "", sign * (each.weight or 0)
                    yield OwnedTerm(self._intern(term, index), key, weight, False, term, f"{path}[{i}]")

    def _intern(self, term: PodAffinityTerm, index: TermIndex) -> Term:
        if term.namespaces or term.namespace_selector is not None:
            namespaces = frozenset(term.namespaces or ())
        else:
            namespaces = frozenset((self.namespace,))
        selector = None if term.namespace_selector is None else parse_label_selector(term.namespace_selector)
        return index.term(parse_label_selector(term.label_selector), namespaces, selector)

    @property
    def is_known(self) -> bool:
        """Whether `touches` is complete: such a pod has run, and the class was not forgotten since."""
        return self in self.label_set.classes

    @property
    def owned_terms(self) -> Iterable[OwnedTerm]:
        return (*self.required_affinity, *self.required_anti_affinity, *self.preferred)

    @property
    def has_execution_rules(self) -> bool:
        """Whether some rule must hold while such pods run, too."""
        rules = self.affinity.node_affinity if self.affinity else None
        if rules and rules.required_during_scheduling_required_during_execution is not None:
            return True
        return bool(self.execution_terms)

    @cached_property
    def node_key(self) -> Hashable:
        """Equal for classes that ask the same of a node, but for volumes and devices, whoever else runs."""
        return self.profile, self.node_name, node_key(self.pod)

    @cached_property
    def node_selector(self) -> Selector | None:
        return selector_from_labels(self.spec.node_selector) if self.spec.node_selector else None

    @cached_property
    def required_nodes(self) -> tuple[RequiredNodes, ...]:
        return required_nodes(self._stated)

    def selects(self, nodes: NodeTable, slots: Slots) -> BoolArray:
        """Which nodes satisfy what such a pod itself requires of them (not `addedAffinity`)."""
        matches = nodes.matching(self.node_selector.requirements if self.node_selector else (), slots)
        for required in self.required_nodes:
            matches &= nodes.matching_terms(required.selector, slots)
        return matches

    def selects_node(self, labels: Mapping[str, str], name: str) -> bool:
        """`selects` of one node, given by its labels and name."""
        return (self.node_selector is None or self.node_selector.matches(labels)) and all(
            required.selector.matches(labels, name) for required in self.required_nodes
        )

    @cached_property
    def preferred_nodes(self) -> tuple[WeightedNodeTerm, ...]:
        rules = self.affinity.node_affinity if self.affinity else None
        return parse_preferred_terms(
            rules.preferred_during_scheduling_ignored_during_execution if rules else None
        )

    @cached_property
    def images(self) -> tuple[str, ...]:
        """The images the pod runs or mounts, in upstream's order."""
        containers = [*(self.spec.init_containers or ()), *(self.spec.containers or ())]
        names = [c.image for c in containers]
        names += [v.image.reference for v in self.spec.volumes or () if v.image]
        return tuple(with_tag(name or "") for name in names)


def written(
    stated: Iterable[tuple[str, Affinity]], kind: str, lists: Mapping[str, str]
) -> Iterator[tuple[str, bool, Any]]:
    """What is written in some lists of one kind of affinity: where, whether for execution, and what."""
    for attribute, name in lists.items():
        for where, affinity in stated:
            rules = getattr(affinity, kind)
            if rules is not None and (found := getattr(rules, attribute)) is not None:
                yield f"{where}.{_KINDS[kind]}.{name}", attribute == _EXECUTION, found


def _claims(pod: Pod) -> Iterable[ClaimUse]:
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            yield ClaimUse(volume.persistent_volume_claim.claim_name or "")
        elif volume.ephemeral is not None:
            yield ClaimUse(f"{pod.metadata.name}-{volume.name}", ephemeral=True)


def _disks(pod: Pod) -> Iterable[DiskUse]:
    for volume in pod.spec.volumes or ():
        if (gce := volume.gce_persistent_disk) is not None:
            yield DiskUse("gcePersistentDisk", (gce.pd_name or "",), bool(gce.read_only))
        if (ebs := volume.aws_elastic_block_store) is not None:
            yield DiskUse("awsElasticBlockStore", (ebs.volume_id or "",))  # read-only or not
        if (iscsi := volume.iscsi) is not None:
            yield DiskUse("iscsi", (iscsi.iqn or "",), bool(iscsi.read_only))
        if (rbd := volume.rbd) is not None:
            for monitor in rbd.monitors or ():  # two are the same image if they have one in common
                name = (monitor, rbd.pool or "rbd", rbd.image or "")
                yield DiskUse("rbd", name, bool(rbd.read_only))


def _device_claims(pod: Pod) -> Iterable[DeviceClaimUse]:
    where = f'pod "{pod.metadata.namespace or "default"}/{pod.metadata.name}"'
    statuses = (pod.status.resource_claim_statuses if pod.status else None) or ()
    made = {status.name: status.resource_claim_name for status in statuses}
    for claim in pod.spec.resource_claims or ():
        if claim.resource_claim_name is not None:
            yield DeviceClaimUse(claim.resource_claim_name)
        elif claim.resource_claim_template_name is None:
            unset = "none of the supported fields are set"
            yield DeviceClaimUse(refusal=f'{where}, spec.resourceClaim "{claim.name}": {unset}')
        elif claim.name not in made:
            yield DeviceClaimUse(refusal=f"{where}: ResourceClaim not created yet")
        elif (name := made[claim.name]) is not None:  # else it was found to need none
            yield DeviceClaimUse(name, own=True)


def with_tag(image: str) -> str:
    """The name a node reports for `image`: without a tag it is the latest."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def required_nodes(stated: Iterable[tuple[str, Affinity]]) -> tuple[RequiredNodes, ...]:
    """The node selectors of affinity rules; `stated` says where these stand."""
    return tuple(
        RequiredNodes(parsed, execution, selector, path)
        for path, execution, selector in written(stated, "node_affinity", REQUIRED)
        if (parsed := parse_node_selector(selector)) is not None
    )


def host_ports(spec: PodSpec) -> Iterable[HostPort]:
    sidecars = filter(is_sidecar, spec.init_containers or ())
    for container in (*sidecars, *(spec.containers or ())):
        for port in container.ports or ():
            if port.host_port and port.host_port > 0:
                yield HostPort(port.protocol or "TCP", port.host_port, port.host_ip or ANY_IP)
