"""What the `berth fleet` commands on manifests share: their options, and taking in files or a server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click

from berth.cli.fleet.objects import Inventory, Template, karmada_schemas, sort
from berth.cli.fleet.options import options_of, placing_options
from berth.cli.input.manifests import INPUT_OPTIONS, progress_bar
from berth.cli.input.options import in_this_order, refusing
from berth.cli.input.validating import check_fields
from berth.cli.output.tables import tell
from berth.controllers.propagation import building
from berth.controllers.propagation.building import BuildError
from berth.fleet.offline.simulation import FleetWorkload
from berth.fleet.placement.fleet import Fleet, FleetBinding
from berth.fleet.scheduler.fleet_cache import policy_of
from berth.fleet.state.options import FleetOptions
from berth.fleet.state.strategy import DYNAMIC_WEIGHT, strategy_of
from berth.fleet.state.terms import lacks_labels
from berth.kube.api_resources import CLUSTER_POLICIES, POLICIES
from berth.kube.karmada import AGGREGATED, Binding, LivePolicy, MemberCluster, Placement
from berth.kube.manifests.manifest import Manifest, ManifestError, load, title
from berth.kube.objects import Key
from berth.kube.propagation import best, fit, is_reserved, is_skipped
from berth.kube.text.decoding import convert, without_nulls

# Of the commands that read a fleet.
fleet_options = in_this_order(*INPUT_OPTIONS, placing_options())


@dataclass(slots=True)
class FleetInput:
    """A fleet with its clusters, and what is to be placed there.

    Attributes:
        retry: Whether what fits nowhere is tried again after others were placed.
        notes: Remarks about the input.
        warnings: What in the input was not understood.
    """

    fleet: Fleet
    workloads: list[FleetWorkload]
    retry: bool
    notes: list[str]
    warnings: list[str]


def taken_in(flags: Mapping[str, Any]) -> FleetInput:
    """What is in the files or on the server; whatever is wrong ends the command, the rest is noted."""
    options = options_of(flags)
    with refusing(ManifestError):
        manifests, notes = _manifests(flags)
        warnings = check_fields(manifests, flags["validate"], karmada_schemas()) if flags["files"] else []
        found = fleet_of(manifests, options, make=bool(flags["files"]))
    found.notes[:0], found.warnings = notes, warnings
    for note in found.notes:
        tell("note", note)
    return found


def fleet_of(manifests: Iterable[Manifest], options: FleetOptions, *, make: bool) -> FleetInput:
    """What manifests say; `make` bindings as policies ask for, which on a live server its controllers do.

    Raises:
        ManifestError: something cannot be used.
    """
    inventory = sort(manifests)
    workloads, odd = workloads_of(inventory, make=make)
    fleet = Fleet(options)
    for _, cluster in inventory.clusters.values():
        fleet.set_cluster(cluster)
    for name, labels in inventory.namespaces.items():
        fleet.set_namespace(name, labels)
    notes = [*odd, *remarks(inventory, workloads, options)]
    return FleetInput(fleet, workloads, not options.compat, notes, [])


def _manifests(flags: Mapping[str, Any]) -> tuple[list[Manifest], list[str]]:
    kubeconfig, context = flags["kubeconfig"], flags["context"]
    if flags["files"]:
        if kubeconfig or context:
            raise click.UsageError("-f reads files and --kubeconfig a server; give one of them")
        with progress_bar("reading") as progress:
            return load(flags["files"], progress=progress), []
    from berth.cli.input.cluster import ask  # noqa: PLC0415 - files need no client
    from berth.live.listing import list_fleet  # noqa: PLC0415

    with progress_bar("listing") as progress:
        found = ask(kubeconfig, context, lambda client: list_fleet(client, progress))
    return found.manifests, found.notes


# --- bindings -------------------------------------------------------------------------------------
# Policies and workloads turned into bindings, as the controllers of `berth up` do it, and what is odd.

_WORKLOADS = ("CronJob", "DaemonSet", "Deployment", "Job", "ReplicaSet", "StatefulSet")
_SHOWN = 5


def workloads_of(inventory: Inventory, *, make: bool) -> tuple[list[FleetWorkload], list[str]]:
    """The bindings there are and those that policies make, and remarks about what will not work.

    Args:
        inventory: What was given.
        make: Whether to make bindings; on a live server its controllers do.

    Raises:
        ManifestError: the binding that a policy asks for cannot be made.
    """
    named = {(t.resource.api_version, t.resource.kind, *t.key): t.view.metadata for t in inventory.templates}
    policies = {
        (policy.metadata.namespace or "", policy.metadata.name or ""): policy.metadata.annotations
        for _, policy in inventory.policies
    }
    found: dict[Key, FleetWorkload] = {}
    for key, (_, binding) in inventory.bindings.items():
        reference = binding.spec.resource
        where = (reference.namespace or "", reference.name or "")
        metadata = named.get((reference.api_version or "", reference.kind or "", *where))
        by = policy_of(binding)
        said = named_by = None
        if by is not None:
            said = policies.get(by)
            named_by = title(POLICIES.kind if by[0] else CLUSTER_POLICIES.kind, *by)
        workload = FleetWorkload(key, binding, annotations=(said,), policy=named_by)
        if metadata is not None:
            workload.labels = metadata.labels
            workload.annotations = (metadata.annotations, said)
        found[key] = workload
    notes: list[str] = []
    if make:
        notes += _make_all(inventory, found)
    return list(found.values()), notes


def _make_all(inventory: Inventory, found: dict[Key, FleetWorkload]) -> Iterator[str]:
    """Add the bindings that policies make."""
    scopes: dict[str, dict[int, tuple[str, LivePolicy]]] = {}
    for place, policy in inventory.policies:
        scopes.setdefault(policy.metadata.namespace or "", {})[id(policy)] = (place, policy)
    used: set[str] = set()
    alone: list[str] = []
    kinds = {(s.api_version, s.kind) for _, p in inventory.policies for s in p.spec.resource_selectors or ()}
    for template in inventory.templates:
        if is_skipped(template.resource) or is_reserved(template.key[0]):
            continue
        chosen = _policy_for(scopes, template)
        if chosen is None:
            kind = (template.resource.api_version, template.resource.kind)
            owned = bool(template.view.metadata.owner_references)
            if not owned and (kind in kinds or template.resource.kind in _WORKLOADS):
                alone.append(template.place)
            continue
        place, policy = chosen
        used.add(place)
        key = building.binding_key(template.resource, template.key)
        if key in inventory.bindings:
            continue  # it is as its controller left it
        if key in found:
            yield f"{template.place}: {found[key].title} has the same binding {key[1]}, this one is left out"
            continue
        binding = _made(inventory, template, place, policy, key)
        found[key] = FleetWorkload(key, binding, policy=place.partition(": ")[2])
    for place, policy in inventory.policies:
        if place not in used and not any(_selects(policy, template) for template in inventory.templates):
            yield f"{place}: spec.resourceSelectors select nothing that is here"
    yield from _shortened(alone, "no policy selects it, so that it is placed nowhere")


def _policy_for(
    scopes: dict[str, dict[int, tuple[str, LivePolicy]]], template: Template
) -> tuple[str, LivePolicy] | None:
    """The policy of a resource: one of its namespace, or else one of the cluster."""
    metadata = template.view.metadata
    for namespace in dict.fromkeys((metadata.namespace or "", "")):
        scope = scopes.get(namespace, {})
        chosen = best((policy for _, policy in scope.values()), template.resource, metadata)
        if chosen is not None:
            return scope[id(chosen)]
    return None


def _selects(policy: LivePolicy, template: Template) -> bool:
    selectors = policy.spec.resource_selectors or ()
    return any(fit(selector, template.resource, template.view.metadata) for selector in selectors)


def _made(inventory: Inventory, template: Template, place: str, policy: LivePolicy, key: Key) -> Binding:
    wish, urgency = policy.spec.schedule_priority, None
    if wish is not None:
        urgency = inventory.priorities.get(wish.priority_class_name or "")
        if urgency is None:
            path = "spec.schedulePriority.priorityClassName"
            raise ManifestError(f"{place}: {path}: there is no PriorityClass {wish.priority_class_name}")
    try:
        wanted = building.wanted(template.resource, template.view, policy, urgency)
    except BuildError as error:
        raise ManifestError(f"{template.place}, by {place}: {error}") from None
    return convert(without_nulls(building.body(template.resource, key, wanted)), Binding)


# --- what will not work ------------------------------------------------------------------------------


def remarks(inventory: Inventory, workloads: list[FleetWorkload], options: FleetOptions) -> Iterator[str]:
    """What is lacking in the clusters that some workload needs, and targets that are not there."""
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
    for part, field, words, counts in (
        ("status", "api_enablements", "apiEnablements is empty, so that nothing can be placed there", True),
        ("status", "resource_summary", f"resourceSummary is missing, {_NO_ROOM}", divided),
        *(("spec", f, f"{f} is missing, but workloads are spread by it", f in fields) for f in _FIELDS),
    ):
        if counts and workloads:
            places = [place for place, cluster in inventory.clusters.values() if _lacks(cluster, part, field)]
            yield from _shortened(places, f"{part}.{words}")
    known = [w for w in workloads if w.labels is not None or w.key not in inventory.bindings]
    yield from _kept_from_nobody(known, options)


def _kept_from_nobody(workloads: list[FleetWorkload], options: FleetOptions) -> Iterator[str]:
    """Required anti-affinity that selects nobody, by a label that a workload has not: nobody would see it.

    Args:
        workloads: Those whose labels are known.
        options: What is compared.
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


def _lacks(cluster: MemberCluster, part: str, name: str) -> bool:
    return not getattr(getattr(cluster, part), name, None)


def _shortened(places: list[str], words: str) -> Iterator[str]:
    for place in places[:_SHOWN]:
        yield f"{place}: {words}"
    if len(places) > _SHOWN:
        yield f"… and {len(places) - _SHOWN} more like the last"
