"""The fleet in step with the watches, with what was decided but not yet seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, Sequence
from typing import Any

import msgspec

from berth.fleet.placement.fleet import Fleet, FleetBinding
from berth.fleet.state.index import PRESENT, IndexedWorkload
from berth.fleet.state.options import FleetOptions
from berth.fleet.state.strategy import is_newer, is_workload
from berth.fleet.state.terms import WorkloadRule, groups_of
from berth.kube.affinity.workload_annotations import WORKLOAD_AFFINITY_ANNOTATION
from berth.kube.api_resources import (
    BINDINGS,
    CLUSTER_BINDINGS,
    CLUSTER_POLICIES,
    CLUSTERS,
    NAMESPACES,
    POLICIES,
    RESOURCE_BINDINGS,
    Resource,
)
from berth.kube.karmada import Binding, MemberCluster, Placement, TargetCluster
from berth.kube.objects import Key, Namespace, ObjectMeta, PartialObjectMetadata
from berth.kube.propagation.bindings import policy_of
from berth.kube.well_known import ADDED, DELETED
from berth.machines.cache import take
from berth.machines.contract import Event

# What objects are decoded to: Karmada's to all that matters to placing, others to their metadata.
VIEWS: dict[Resource, type[Any]] = {
    CLUSTERS: MemberCluster,
    RESOURCE_BINDINGS: Binding,
    CLUSTER_BINDINGS: Binding,
    POLICIES: PartialObjectMetadata,
    CLUSTER_POLICIES: PartialObjectMetadata,
    NAMESPACES: Namespace,
}

# A made-up resource, whose events tell the scheduler about kinds that cannot be listed or watched.
UNLISTED_KINDS = Resource("berth.dev", "v1", "unlistedkinds", "UnlistedKind")
_WHY = "why"

WorkloadKind = tuple[str, str]  # apiVersion and kind
_WorkloadKey = tuple[str, str, str, str]  # apiVersion, kind, namespace, name


class FleetCache:
    """What is known of clusters, bindings, the policies and the workloads they are made of.

    Args:
        options: How bindings are placed.
        moved: Called with each workload that comes, moves or goes; if its rules change, with both states.

    Attributes:
        watched: The kinds, by apiVersion and kind, whose workloads are watched for their labels.
        unlisted: The kinds whose objects are not up to date, and why.
    """

    def __init__(self, options: FleetOptions, moved: Callable[[IndexedWorkload], None]) -> None:
        self.fleet = Fleet(options)
        self.bindings: dict[Key, Binding] = {}
        self._assumed: dict[Key, Sequence[TargetCluster]] = {}
        self._policies: dict[Key, Mapping[str, str]] = {}  # empty if it has no rules
        self._workloads: dict[_WorkloadKey, tuple[Mapping[str, str], Mapping[str, str]]] = {}
        self._by_policy: dict[Key, dict[Key, None]] = {}
        self._by_workload: dict[_WorkloadKey, dict[Key, None]] = {}
        self._moved = moved
        self._by_kind: dict[WorkloadKind, dict[Key, None]] = {}
        self.watched: set[WorkloadKind] = set()
        self.unlisted: dict[WorkloadKind, str] = {}

    # --- events -------------------------------------------------------------------

    def handle(self, event: Event) -> set[Key]:
        """Take an event in; returns the other bindings that it tells more about."""
        resource, gone = event.resource, event.change == DELETED
        said = event.object.metadata
        if resource in (POLICIES, CLUSTER_POLICIES):
            return self._policy_changed(event.key, None if gone else said.annotations or {})
        if resource == CLUSTERS and gone:
            self.fleet.clusters.remove(event.key[1])
        elif resource == CLUSTERS:
            self.fleet.clusters.set(event.object)
        elif resource == NAMESPACES:
            self.fleet.index.set_namespace(event.key[1], None if gone else said.labels or {})
        elif resource == UNLISTED_KINDS and gone:
            self.unlisted.pop(event.key, None)
        elif resource == UNLISTED_KINDS:
            self.unlisted[event.key] = (said.annotations or {}).get(_WHY, "")
        else:
            return self._workload_changed(event, gone=gone)
        return set()

    def see(self, key: Key, binding: Binding) -> bool:
        """A binding as the server has it; False if a newer one was seen before."""
        known = self.bindings.get(key)
        if known is not None and known.metadata.uid == binding.metadata.uid and is_newer(known, binding):
            return False
        self._unlink(key)
        self.bindings[key] = binding
        for index, name in self._links(binding):
            index.setdefault(name, {})[key] = None
        self._index(key)
        return True

    def forget(self, key: Key) -> None:
        entry = self.fleet.index.get(key)
        if entry is not None:
            self._moved(entry)
        self._unlink(key)
        self.bindings.pop(key, None)
        self._assumed.pop(key, None)
        self.fleet.remove_binding(key)

    def assume(self, key: Key, targets: Sequence[TargetCluster]) -> None:
        """Count a binding where it was decided to be, until the server has answered."""
        self._assumed[key] = targets
        self._index(key)

    def settle(self, key: Key) -> None:
        """Count a binding where the watch shows it: the server has answered."""
        if self._assumed.pop(key, None) is not None and key in self.bindings:
            self._index(key)

    @property
    def assumed(self) -> KeysView[Key]:
        """The bindings that count where they were decided to be."""
        return self._assumed.keys()

    def unconfirmed(self, key: Key) -> Key | None:
        """A peer that this binding would follow, and whose placement the server has not confirmed yet."""
        rules = self.fleet.known(key).entry.rules.affinity
        if not rules or not self._assumed:
            return None
        terms = [self.fleet.index.term(rule) for rule in rules]
        for other in self._assumed:
            labels = self.fleet.known(other).entry.label_set
            if other != key and any(labels in term.selected for term in terms):
                return other
        return None

    def unseen(self, key: Key) -> bool:
        """Whether the workload or the policy of a binding should be known by now, but was not seen yet."""
        binding = self.bindings[key]
        named, policy = _workload_of(binding), policy_of(binding)
        late = named[:2] in self.watched and named not in self._workloads
        return late or (policy is not None and policy not in self._policies)

    def unseen_labels(self, key: Key) -> str | None:
        """Why a binding's required rules cannot be followed: objects that are not visible; None if they can.

        It may be its own labels, which tell whom it belongs with and who keeps it off, those of a workload
        that is placed already or of a namespace, its policy, or where others are.
        """
        if not self.unlisted:
            return None
        known = self.fleet.known(key)
        rules = known.entry.rules.affinity + known.entry.rules.anti_affinity
        if groups_of(known.binding):
            rules = tuple(rule for rule in rules if rule.group is None)  # the binding names its groups
        for kind, why in self.unlisted.items():
            if self._depends(known, rules, kind):
                return (
                    f"its rules about other workloads cannot be followed, because {kind[1]} of {kind[0]} "
                    f"cannot be seen: the scheduler has to list and watch them ({why})"
                )
        return None

    def _depends(self, known: FleetBinding, rules: Sequence[WorkloadRule], kind: WorkloadKind) -> bool:
        """Whether it takes objects of a kind to place a binding by its rules and those of others."""
        binding, key = known.binding, known.entry.key
        policy = policy_of(binding)
        policies = POLICIES if policy is not None and policy[0] else CLUSTER_POLICIES
        if policy is not None and policy not in self._policies and kind == _kind(policies):
            return True
        if kind == _workload_of(binding)[:2]:
            if rules or _has_label_rules(known.placement, binding):
                return True
            return _may_run(binding) and self.fleet.index.may_be_kept_off(key[0])
        if not rules:
            return False
        if kind == _kind(NAMESPACES):
            return any(rule.namespace_selector is not None for rule in rules)
        others = self._by_kind.get(kind, ())
        return kind in map(_kind, BINDINGS) or any(
            other != key and self._may_be_peer(other, rules) for other in others
        )

    def _may_be_peer(self, key: Key, rules: Iterable[WorkloadRule]) -> bool:
        known = self.fleet.known(key)
        if not known.entry.places[PRESENT] or not _may_run(known.binding):
            return False
        return any(key[0] in rule.namespaces or rule.namespace_selector is not None for rule in rules)

    # --- inside -------------------------------------------------------------------

    def _index(self, key: Key) -> None:
        binding = self.bindings[key]
        if key in self._assumed:
            spec = msgspec.structs.replace(binding.spec, clusters=list(self._assumed[key]))
            binding = msgspec.structs.replace(binding, spec=spec)
        labels, annotations = self._workloads.get(_workload_of(binding), ({}, {}))
        policy = self._policies.get(policy_of(binding) or ("", ""))
        before = self.fleet.index.get(key)
        places = before.places if before is not None else None
        after = self.fleet.set_binding(key, binding, labels, (annotations, policy)).entry
        if after is not before:
            if before is not None:
                self._moved(before)
            self._moved(after)
        elif after.places != places:
            self._moved(after)

    def _links(self, binding: Binding) -> Iterator[tuple[dict[Any, dict[Key, None]], object]]:
        """The indexes that a binding is in, and under which name in each."""
        workload, policy = _workload_of(binding), policy_of(binding)
        yield self._by_workload, workload
        yield self._by_kind, workload[:2]
        if policy is not None:
            yield self._by_policy, policy

    def _unlink(self, key: Key) -> None:
        if key in self.bindings:
            for index, name in self._links(self.bindings[key]):
                take(index, name, key)

    def _policy_changed(self, key: Key, annotations: Mapping[str, str] | None) -> set[Key]:
        before = self._policies.pop(key, None)
        after = None
        if annotations is not None:
            kept = annotations.keys() & {WORKLOAD_AFFINITY_ANNOTATION}
            after = self._policies[key] = {name: annotations[name] for name in kept}
        return set() if before == after else self._reindex(self._by_policy.get(key, ()))

    def _workload_changed(self, event: Event, *, gone: bool) -> set[Key]:
        resource = event.resource
        named = (resource.api_version, resource.kind, *event.key)
        metadata = event.object.metadata
        known = (metadata.labels or {}, metadata.annotations or {})
        if gone:
            self._workloads.pop(named, None)
        elif self._workloads.get(named) == known:
            return set()
        else:
            self._workloads[named] = known
        return self._reindex(self._by_workload.get(named, ()))

    def _reindex(self, keys: Iterable[Key]) -> set[Key]:
        found = set(keys)
        for key in found:
            self._index(key)
        return found


def referred_kind(event: Event) -> WorkloadKind | None:
    """The kind of workload that a binding stands for.

    Karmada's bindings do not carry the labels of their workloads, so that rules between workloads have
    nothing to go by unless those are watched, too.
    """
    if event.resource not in BINDINGS or event.change == DELETED:
        return None
    return _workload_of(event.object)[:2]


def unlisted_kind(kind: WorkloadKind, why: str | None) -> Event:
    """The event that tells why objects of a kind are not up to date; None: they are again."""
    metadata = ObjectMeta(namespace=kind[0], name=kind[1], annotations={_WHY: why} if why else None)
    return Event(UNLISTED_KINDS, ADDED if why else DELETED, PartialObjectMetadata(metadata=metadata))


def _kind(resource: Resource) -> WorkloadKind:
    return resource.api_version, resource.kind


def _may_run(binding: Binding) -> bool:
    """Whether it may stand for something that runs; Karmada does not know the replicas of every kind."""
    group = (binding.spec.resource.api_version or "").rpartition("/")[0]
    custom = "." in group and not group.endswith(".k8s.io")
    return custom or is_workload(binding.spec)


def _has_label_rules(placement: Placement, binding: Binding) -> bool:
    """Whether Karmada's groups would be made of labels; terms of the proposal are rules in any case."""
    rules = placement.workload_affinity
    if rules is None or groups_of(binding):
        return False
    return any(term is not None and term.group_by_label_key for term in (rules.affinity, rules.anti_affinity))


def _workload_of(binding: Binding) -> _WorkloadKey:
    resource = binding.spec.resource
    return resource.api_version or "", resource.kind or "", resource.namespace or "", resource.name or ""
