"""How many further replicas of a workload fit, and what stops the next one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from berth.engine.offline.explaining.reason_documents import refusal_documents
from berth.engine.offline.explaining.refusals import Refusals
from berth.engine.offline.explaining.workloads import Workloads
from berth.engine.offline.explanation import explain
from berth.engine.offline.placements import PodPlacement, count_on, take_off
from berth.engine.offline.scheduling.simulated import Simulation, UnplacedPod
from berth.engine.offline.snapshot import Entry, Progress
from berth.engine.offline.snapshot_volumes import SnapshotVolumes
from berth.engine.offline.what_if.changes import WhatIfError
from berth.engine.offline.what_if.selecting import workload_of
from berth.engine.offline.what_if.workloads import SCALABLE, missing, replicas_of, with_replicas
from berth.engine.offline.what_if.world import ChangingWorld
from berth.engine.placement.fit_error import fit_error
from berth.engine.placement.plan import SchedulingError, plan_for
from berth.kube.objects import ObjectMeta, Workload
from berth.kube.well_known import UNSCHEDULABLE, ZONE
from berth.kube.workloads.pod_templates import stateful_claims, with_claims

# Beyond this it is "at least": nobody scales by so much at once.
MOST = 20_000


class FittingReplicas(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer.

    Attributes:
        replicas: How many the workload has, with a node or without.
        fitting: How many more find a node, without making anybody go.
        more: There may be more: the search ended.
        nodes, zones: Where they go.
        stops: Why the next one finds none.
        help: The smallest change that would give it one.
        details: What stops it, as data.
    """

    sentence: str
    ok: bool
    workload: str
    replicas: int
    fitting: int
    more: bool
    nodes: dict[str, int]
    zones: dict[str, int]
    stops: str | None
    help: str | None
    details: list[dict[str, Any]]
    notes: list[str]


def fit(world: ChangingWorld, workload: str, progress: Progress | None = None) -> FittingReplicas:
    """Add replicas one by one until none fits; the world is left as it was.

    Raises:
        WhatIfError: there is no such workload.
    """
    manifest = workload_of(world.snapshot, workload, world.namespace, SCALABLE)
    owner = f"{manifest.kind}/{manifest.name}"
    mine = world.pods_of(owner, manifest.namespace or "default")
    asked = max(len(mine), replicas_of(manifest)) + 1
    claims: list[ObjectMeta] = []
    made = missing(world, with_replicas(manifest, asked))
    if not made:
        raise WhatIfError(f"{manifest.title} makes no further pod that could be tried")
    first = made[0]
    waiting = [world.unplaced[entry.key] for entry in mine if entry.key in world.unplaced]
    placed, stops = ([], waiting[0].message) if waiting else _fill(world, first, claims, progress)
    help_, details = _help(world, _copy(first, len(placed)), placed) if stops is not None else (None, [])
    for placement in reversed(placed):
        take_off(world.cluster, placement.entry)
    for claim in claims:
        world.cluster.volumes.remove_claim(claim.namespace or "default", claim.name or "")
    nodes: dict[str, int] = {}
    zones: dict[str, int] = {}
    for placement in placed:
        nodes[placement.node] = nodes.get(placement.node, 0) + 1
        zone = (world.snapshot.nodes[placement.node].metadata.labels or {}).get(ZONE)
        if zone is not None:
            zones[zone] = zones.get(zone, 0) + 1
    more = stops is None
    return FittingReplicas(
        sentence=_sentence(owner, len(placed), len(waiting), more=more, stops=stops),
        ok=bool(placed),
        workload=owner,
        replicas=len(mine),
        fitting=len(placed),
        more=more,
        nodes=nodes,
        zones=dict(sorted(zones.items())),
        stops=stops,
        help=help_,
        details=details,
        notes=list(world.snapshot.notes),
    )


def _fill(
    world: ChangingWorld, first: Entry, claims: list[ObjectMeta], progress: Progress | None
) -> tuple[list[PodPlacement], str | None]:
    cluster = world.cluster
    placed: list[PodPlacement] = []
    volumes = SnapshotVolumes(cluster, world.snapshot.manifests, whole=world.snapshot.origin.whole_storage)
    while len(placed) < MOST:
        entry = _copy(first, len(placed))
        claims += (claim.metadata for claim in volumes.make_claims(entry.pod))
        pod_class = cluster.class_of(entry.pod)
        try:
            best = plan_for(cluster, pod_class).best()
        except SchedulingError as error:
            return placed, str(error)
        if best is None:
            return placed, fit_error(plan_for(cluster, pod_class))[0]
        node = cluster.nodes.names[best[0]] or ""
        count_on(cluster, entry, node, pod_class)
        placed.append(PodPlacement(entry, node, best[1]))
        if progress is not None:
            progress(len(placed), MOST)
    return placed, None


def _copy(entry: Entry, number: int) -> Entry:
    """Another one like it; of a StatefulSet the next, which has claims of its own."""
    view = entry.manifest.object
    if entry.manifest.kind == "StatefulSet" and isinstance(view, Workload):
        base, _, ordinal = entry.name.rpartition("-")
        name = f"{base}-{int(ordinal) + number}"
        pod = with_claims(entry.pod, stateful_claims(view, name))
    else:
        name, pod = f"{entry.name}-fit-{number}", entry.pod
    metadata = msgspec.structs.replace(pod.metadata, name=name)
    return replace(entry, pod=msgspec.structs.replace(pod, metadata=metadata))


def _help(
    world: ChangingWorld, following: Entry, placed: list[PodPlacement]
) -> tuple[str | None, list[dict[str, Any]]]:
    """What would help the first that does not fit, beside those that do, and its reasons as data."""
    simulation = Simulation(world.snapshot, list(placed), schedulers=world.setup.schedulers)
    relaxations = explain(simulation, replace(following, daemon_of=None)).relaxations
    refusals = Refusals(simulation).of(UnplacedPod(following, UNSCHEDULABLE, ""))
    details = refusal_documents(refusals, Workloads(world.entries.values()))
    return relaxations[0].sentence if relaxations else None, details


def _sentence(owner: str, number: int, waiting: int, *, more: bool, stops: str | None) -> str:
    if waiting:
        verb = "has" if waiting == 1 else "have"
        return f"no further replica of {owner} fits: {waiting} of those it has already {verb} no node."
    if more:
        return f"at least {number} further replicas of {owner} fit."
    noun, verb = ("replicas", "fit") if number > 1 else ("replica", "fits")
    why = (stops or "").rstrip(".")
    return f"{number or 'no'} further {noun} of {owner} {verb}; the next finds no node: {why}."
