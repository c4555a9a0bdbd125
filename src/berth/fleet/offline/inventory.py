"""A fleet made of manifests: its clusters, the bindings that policies make, and remarks about mistakes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from berth.fleet.offline.simulation import FleetSimulation, FleetWorkload
from berth.fleet.placement.fleet import Fleet, FleetBinding
from berth.fleet.state.options import FleetOptions
from berth.fleet.state.strategy import DYNAMIC_WEIGHT, strategy_of
from berth.fleet.state.terms import lacks_labels
from berth.kube.api_resources import CLUSTER_POLICIES, POLICIES, Resource
from berth.kube.karmada import AGGREGATED, Binding, LivePolicy, MemberCluster, Placement
from berth.kube.manifests.manifest import ManifestError, title
from berth.kube.objects import Key, key_of
from berth.kube.propagation import bindings
from berth.kube.propagation.bindings import BuildError, policy_of
from berth.kube.propagation.policies import best, is_reserved, is_skipped, kinds_of, policy_fit
from berth.kube.text.decoding import convert, without_nulls


@dataclass(frozen=True, slots=True)
class Template:
    """A workload, or anything else that a policy may select; `place` says where it was written."""

    place: str
    resource: Resource
    view: Any

    @property
    def key(self) -> Key:
        return key_of(self.view.metadata)


@dataclass(slots=True)
class Inventory:
    """The objects of a fleet by kind, each with the place where it was written."""

    clusters: dict[str, tuple[str, MemberCluster]] = field(default_factory=dict)
    policies: dict[Key, tuple[str, LivePolicy]] = field(default_factory=dict)
    bindings: dict[Key, tuple[str, Binding]] = field(default_factory=dict)
    templates: list[Template] = field(default_factory=list)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    priorities: dict[str, int] = field(default_factory=dict)


def fleet_of(inventory: Inventory, options: FleetOptions, *, make: bool) -> FleetSimulation:
    """The fleet of an inventory; `make`: also make the bindings of policies, as controllers do on a server.

    Raises:
        ManifestError: the binding that a policy asks for cannot be made.
    """
    workloads, odd = _workloads_of(inventory, make=make)
    fleet = Fleet(options)
    for _, cluster in inventory.clusters.values():
        fleet.clusters.set(cluster)
    for name, labels in inventory.namespaces.items():
        fleet.index.set_namespace(name, labels)
    return FleetSimulation(fleet, workloads, [*odd, *_remarks(inventory, workloads, options)])


# --- bindings -------------------------------------------------------------------------------------
# Makes bindings of policies and workloads as the controllers of `berth up` do, and remarks on mistakes.

_WORKLOADS = ("CronJob", "DaemonSet", "Deployment", "Job", "ReplicaSet", "StatefulSet")
_SHOWN = 5


def _workloads_of(inventory: Inventory, *, make: bool) -> tuple[list[FleetWorkload], list[str]]:
    """The bindings of the input and of its policies, and remarks about what will not work."""
    named = {(t.resource.api_version, t.resource.kind, *t.key): t.view.metadata for t in inventory.templates}
    found: dict[Key, FleetWorkload] = {}
    for key, (_, binding) in inventory.bindings.items():
        reference = binding.spec.resource
        where = (reference.namespace or "", reference.name or "")
        metadata = named.get((reference.api_version or "", reference.kind or "", *where))
        by = policy_of(binding)
        workload = found[key] = FleetWorkload(key, binding)
        if by is not None:
            workload.policy = title(POLICIES.kind if by[0] else CLUSTER_POLICIES.kind, *by)
            if by in inventory.policies:
                workload.annotations = (inventory.policies[by][1].metadata.annotations,)
        if metadata is not None:
            workload.labels = metadata.labels
            workload.annotations = (metadata.annotations, *workload.annotations)
    notes = list(_make_all(inventory, found)) if make else []
    return list(found.values()), notes


def _make_all(inventory: Inventory, found: dict[Key, FleetWorkload]) -> Iterator[str]:
    """Add the bindings that policies make."""
    scopes: dict[str, list[LivePolicy]] = defaultdict(list)
    for key, (_, policy) in inventory.policies.items():
        scopes[key[0]].append(policy)
    used: set[Key] = set()
    alone: list[str] = []
    kinds = {kind for _, policy in inventory.policies.values() for kind in kinds_of(policy)}
    for template in inventory.templates:
        if is_skipped(template.resource) or is_reserved(template.key[0]):
            continue
        resource, metadata = template.resource, template.view.metadata
        chosen = best(scopes[template.key[0]], resource, metadata) or best(scopes[""], resource, metadata)
        if chosen is None:
            kind = (resource.api_version, resource.kind)
            if not metadata.owner_references and (kind in kinds or kind[1] in _WORKLOADS):
                alone.append(template.place)
            continue
        used.add(key_of(chosen.metadata))
        key = bindings.binding_key(resource, template.key)
        if key in inventory.bindings:
            continue  # a controller has made its binding already
        if key in found:
            yield f"{template.place}: {found[key].title} has the same binding {key[1]}, this one is left out"
            continue
        place = inventory.policies[key_of(chosen.metadata)][0]
        binding = _made(inventory, template, place, chosen)
        found[key] = FleetWorkload(key, binding, policy=place.partition(": ")[2])
    for key, (place, policy) in inventory.policies.items():
        selects = (policy_fit(policy, each.resource, each.view.metadata) for each in inventory.templates)
        if key not in used and not any(selects):
            yield f"{place}: spec.resourceSelectors select nothing that is here"
    yield from _shortened(alone, "no policy selects it, so that it is placed nowhere")


def _made(inventory: Inventory, template: Template, place: str, policy: LivePolicy) -> Binding:
    wish, urgency = policy.spec.schedule_priority, None
    if wish is not None:
        urgency = inventory.priorities.get(wish.priority_class_name or "")
        if urgency is None:
            path = "spec.schedulePriority.priorityClassName"
            raise ManifestError(f"{place}: {path}: there is no PriorityClass {wish.priority_class_name}")
    try:
        wanted = bindings.wanted(template.resource, template.view, policy, urgency)
    except BuildError as error:
        raise ManifestError(f"{template.place}, by {place}: {error}") from None
    return convert(without_nulls(bindings.body(wanted)), Binding)


# --- what will not work ------------------------------------------------------------------------------


def _remarks(inventory: Inventory, workloads: list[FleetWorkload], options: FleetOptions) -> Iterator[str]:
    """Remarks about what a workload needs and clusters lack, and about targets that do not exist."""
    if not inventory.clusters:
        yield "there is no Cluster (cluster.karmada.io/v1alpha1) in the input"
        return
    for workload in workloads:
        for target in workload.binding.spec.clusters or ():
            if target.name not in inventory.clusters:
                place = inventory.bindings[workload.key][0]
                yield f"{place}: spec.clusters names {target.name}, but there is no such cluster"
    placements = [workload.binding.spec.placement or Placement() for workload in workloads]
    fields = {c.spread_by_field for p in placements for c in p.spread_constraints or ()}
    divided = any(
        workload.binding.spec.replicas
        and strategy_of(placement, options).kind in (AGGREGATED, DYNAMIC_WEIGHT)
        for workload, placement in zip(workloads, placements, strict=True)
    )
    for part, lacking, words, counts in (
        ("status", "api_enablements", "apiEnablements is empty, so that nothing can be placed there", True),
        ("status", "resource_summary", f"resourceSummary is missing, {_NO_ROOM}", divided),
        *(("spec", f, f"{f} is missing, but workloads are spread by it", f in fields) for f in _FIELDS),
    ):
        if counts and workloads:
            parts = ((place, getattr(cluster, part)) for place, cluster in inventory.clusters.values())
            places = [place for place, of in parts if not getattr(of, lacking, None)]
            yield from _shortened(places, f"{part}.{words}")
    known = [w for w in workloads if w.labels is not None or w.key not in inventory.bindings]
    yield from _kept_from_nobody(known, options)


def _kept_from_nobody(workloads: list[FleetWorkload], options: FleetOptions) -> Iterator[str]:
    """Remarks about required anti-affinity that selects nobody, since a workload lacks its label.

    The labels of the workloads are known.
    """
    fleet = Fleet(options)
    places: dict[str, list[str]] = {}
    for workload in workloads:
        found = fleet.set_binding(workload.key, workload.binding, workload.labels, workload.annotations)
        resource = workload.binding.spec.resource
        name = title(resource.kind or "", workload.key[0], resource.name or "")
        for why in dict.fromkeys(_idle(found)):
            places.setdefault(why, []).append(name)
    for why, names in places.items():
        yield from _shortened(names, f"its required anti-affinity keeps it from nobody: {why}")


def _idle(found: FleetBinding) -> Iterator[str]:
    for rule in found.entry.rules.anti_affinity:
        if rule.idle:
            yield rule.idle
    grouped = found.placement.workload_affinity and found.placement.workload_affinity.anti_affinity
    key = grouped.group_by_label_key if grouped else None
    if key and key not in found.entry.labels:
        yield lacks_labels(key)


_FIELDS = ("region", "provider")
_NO_ROOM = "so that it has no room for divided replicas"


def _shortened(places: list[str], words: str) -> Iterator[str]:
    for place in places[:_SHOWN]:
        yield f"{place}: {words}"
    if len(places) > _SHOWN:
        yield f"… and {len(places) - _SHOWN} more like the last"
