"""The JSON form that `berth fleet evaluate` speaks: a fleet and a binding in, the whole verdict out.

The form is that of the recorded decisions under ``tests/data/conformance-fleet``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from berth.fleet.placement.fleet import Fleet, PlacementDecision
from berth.fleet.state.options import COMPATIBLE, FleetOptions
from berth.fleet.state.strategy import is_newer
from berth.fleet.state.terms import AFFINITY_GROUP, ANTI_AFFINITY_GROUP, groups_of
from berth.kube.karmada import (
    Binding,
    MemberCluster,
    Placement,
    TargetCluster,
    WorkloadAffinityGroups,
    binding_name,
)
from berth.kube.objects import Struct
from berth.kube.text import json_reader
from berth.kube.text.decoding import DecodeError

# --- bindings in flight ---------------------------------------------------------------------------
# What the scheduler wrote counts until the watch shows it.  It replaces a binding that the watch has shown,
# never one that it has not, and only in the groups of that binding: so Karmada's index finds peers, which
# holds only what was watched.


def settle(
    seen: Iterable[Binding], written: Iterable[Binding], incoming: Binding
) -> tuple[list[Binding], frozenset[str]]:
    """The bindings to count on, and the groups of `incoming` with members of unknown age."""
    copies = {(b.metadata.namespace, b.metadata.name): b for b in written}
    settled: list[Binding] = []
    unknown: set[str] = set()
    wanted = groups_of(incoming)
    for binding in seen:
        copy = copies.get((binding.metadata.namespace, binding.metadata.name))
        if copy is None:
            settled.append(binding)
            continue
        newer = is_newer(copy, binding)
        if newer is None:
            unknown.update(label for label, group in groups_of(binding).items() if wanted.get(label) == group)
        settled.append(_standing_in(copy, binding) if newer else binding)
    return settled, frozenset(unknown)


def _standing_in(copy: Binding, seen: Binding) -> Binding:
    before, now = groups_of(seen), groups_of(copy)
    kept = {label: group for label, group in now.items() if before.get(label) == group}
    groups = WorkloadAffinityGroups(
        affinity_group=kept.get(AFFINITY_GROUP), anti_affinity_group=kept.get(ANTI_AFFINITY_GROUP)
    )
    return msgspec.structs.replace(
        copy, spec=msgspec.structs.replace(copy.spec, workload_affinity_groups=groups)
    )


# --- cases ----------------------------------------------------------------------------------------


class FleetCaseOptions(Struct, frozen=True):
    enable_empty_workload_propagation: bool | None = None


class FleetCase(Struct, frozen=True):
    id: str | None = None
    clusters: list[MemberCluster] | None = None
    bindings: list[Binding] | None = None
    binding: Binding | None = None
    assigning: list[Binding] | None = None
    options: FleetCaseOptions | None = None


class _Line(Struct, frozen=True):
    case: FleetCase | None = None


class FleetCaseError(ValueError):
    """A case that cannot be evaluated, said in one sentence."""


def decode_case(line: bytes) -> FleetCase:
    """The case in a line, which may be wrapped as recorded cases are, in ``case`` beside ``expect``.

    Raises:
        FleetCaseError: it cannot be judged; the message says which field is to blame.
    """
    try:
        case = json_reader.decode(line, _Line).case or json_reader.decode(line, FleetCase)
    except json_reader.JsonError as error:
        raise FleetCaseError(f"not valid JSON: {error.detail}") from None
    except DecodeError as error:
        raise FleetCaseError(f"not a case: {error}") from None
    if case.binding is None:
        raise FleetCaseError("a case has a 'binding'")
    if case.binding.spec.placement is None:
        raise FleetCaseError("binding: spec.placement: Required value")
    for place, clusters in enumerate(case.clusters or ()):
        if not clusters.metadata.name:
            raise FleetCaseError(f"clusters[{place}]: metadata.name: Required value")
    return case


def evaluate_case(case: FleetCase, options: FleetOptions = COMPATIBLE) -> dict[str, Any]:
    binding = case.binding or Binding()
    chosen = case.options or FleetCaseOptions()
    if chosen.enable_empty_workload_propagation is not None:
        options = replace(options, empty_workload_propagation=chosen.enable_empty_workload_propagation)
    fleet = Fleet(options)
    for cluster in case.clusters or ():
        fleet.clusters.set(cluster)
    bindings, incomparable = settle(case.bindings or (), case.assigning or (), binding)
    for existing in bindings:
        fleet.set_binding((existing.metadata.namespace or "", existing.metadata.name or ""), existing)
    resource = binding.spec.resource
    key = (resource.namespace or "", binding_name(resource.kind or "", resource.name or ""))
    fleet.set_binding(key, binding)
    return {"id": case.id, **_verdict(fleet, binding, fleet.decide(key, incomparable))}


def _verdict(fleet: Fleet, binding: Binding, decision: PlacementDecision) -> dict[str, Any]:
    names, attempt, error = fleet.clusters.names, decision.decisive, decision.error
    refused = np.flatnonzero(fleet.clusters.schedulable & ~attempt.feasible)
    targets, observed = decision.targets, binding.status.scheduler_observing_affinity_name or ""
    several = bool((binding.spec.placement or Placement()).cluster_affinities)
    if several and targets is not None:
        observed = attempt.affinity_name
    written = decision.kept(binding, fleet.clusters, fleet.options) if targets is None else targets
    return {
        "feasible": sorted(names[slot] for slot in np.flatnonzero(attempt.feasible)),
        "rejected": {names[slot]: sorted(attempt.reasons(int(slot))) for slot in refused},
        "selected": sorted(attempt.selection.names) if attempt.selection is not None else None,
        "result": None if targets is None else _by_name(targets),
        "error": None if error is None else {"class": error.reason, "message": error.message},
        **({"affinityName": attempt.affinity_name} if several else {}),
        "written": {"clusters": _by_name(written), "observedAffinityName": observed},
    }


def _by_name(targets: Iterable[TargetCluster]) -> dict[str, int]:
    return {target.name: target.replicas for target in targets}
