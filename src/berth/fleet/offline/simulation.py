"""Placing many bindings one after the other, each placement counting for the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as changed

from msgspec.structs import replace

from berth.fleet.placement.fleet import Fleet, PlacementDecision
from berth.fleet.state.index import spelled
from berth.fleet.state.strategy import priority_of, replicas_changed, reschedule_required
from berth.kube.amounts import quantity
from berth.kube.amounts.resource_names import PODS
from berth.kube.karmada import Binding, MemberCluster, Placement, TargetCluster
from berth.kube.manifests.manifest import Progress
from berth.kube.objects import Key, ResourceList

PLACED, STAYS, UNPLACED, SUSPENDED = "Placed", "Stays", "NotPlaced", "Suspended"


@dataclass(slots=True, eq=False)
class FleetWorkload:
    """A binding, with what its workload and its policy say beside it, and what became of it.

    Attributes:
        labels, annotations: Those of the workload and, for the latter, of the policy.
        policy: The policy that the binding was made by, to be shown.
        state: `PLACED`, `UNPLACED`, `STAYS` where it was, or `SUSPENDED`.
        decision: The last decision; None if none was needed.
    """

    key: Key
    binding: Binding
    labels: Mapping[str, str] | None = None
    annotations: tuple[Mapping[str, str] | None, ...] = ()
    policy: str | None = None
    state: str = UNPLACED
    decision: PlacementDecision | None = None

    @property
    def title(self) -> str:
        resource = self.binding.spec.resource
        return f"{resource.kind or ''}/{resource.name or ''}"

    @property
    def name(self) -> str:
        return spelled(self.key)

    @property
    def priority(self) -> int:
        return priority_of(self.binding)

    @property
    def targets(self) -> Sequence[TargetCluster]:
        """The clusters it has in the end."""
        if self.state == PLACED and self.decision is not None:
            return self.decision.targets or ()
        return self.binding.spec.clusters or ()


@dataclass(slots=True)
class FleetSimulation:
    """A fleet with its clusters and what is to be placed there; once it was, the fleet as it is then.

    Attributes:
        workloads: In the order in which they were given.
        notes: Remarks about the input.
        warnings: What in the input was not understood.
    """

    fleet: Fleet
    workloads: list[FleetWorkload]
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def unplaced(self) -> list[FleetWorkload]:
        return [workload for workload in self.workloads if workload.state in (UNPLACED, SUSPENDED)]


def simulate(
    simulation: FleetSimulation, *, asked: FleetWorkload | None = None, progress: Progress | None = None
) -> FleetSimulation:
    """Place what is not placed: the highest priority first, then in the given order.

    What is placed stays, unless its replicas changed or a reschedule is due. What fits nowhere is tried again
    after others were placed, except in Karmada's way. It ends when `asked` is decided: the fleet is then as
    that decision found it.
    """
    fleet, retry = simulation.fleet, not simulation.fleet.options.compat
    for workload in simulation.workloads:
        _show(fleet, workload, workload.binding)
        workload.state = _first_state(workload)
    pending = sorted((w for w in simulation.workloads if w.state == UNPLACED), key=lambda w: -w.priority)
    if asked is not None and asked not in pending:
        asked.decision = fleet.decide(asked.key)
        return simulation
    total = len(pending)
    while pending:
        left = []
        for workload in pending:
            decision = workload.decision = fleet.decide(workload.key)
            if decision.targets is None:
                left.append(workload)
                if workload is asked and not retry:
                    return simulation
                continue
            workload.state = PLACED
            if workload is asked:
                return simulation
            _settle(fleet, workload, decision.targets)
            if progress is not None:
                progress(total - len(pending), total)
        if not retry or len(left) == len(pending):
            break
        pending = left
    return simulation


def _first_state(workload: FleetWorkload) -> str:
    spec = workload.binding.spec
    if spec.suspension is not None and spec.suspension.scheduling:
        return SUSPENDED if not spec.clusters else STAYS
    due = replicas_changed(spec, spec.placement or Placement()) or reschedule_required(workload.binding)
    return STAYS if spec.clusters and not due else UNPLACED


def _show(fleet: Fleet, workload: FleetWorkload, binding: Binding) -> None:
    fleet.set_binding(workload.key, binding, workload.labels, workload.annotations)


def _settle(fleet: Fleet, workload: FleetWorkload, targets: Sequence[TargetCluster]) -> None:
    binding = workload.binding
    before = {target.name: target.replicas for target in binding.spec.clusters or ()}
    _show(fleet, workload, replace(binding, spec=replace(binding.spec, clusters=list(targets))))
    requirements = binding.spec.replica_requirements
    request = (requirements.resource_request if requirements is not None else None) or {}
    for target in targets:
        added = target.replicas - before.get(target.name, 0)
        view = fleet.clusters.views[fleet.clusters.slot(target.name)]
        if added > 0 and view is not None:
            fleet.clusters.set(_filled(view, {**request, PODS: 1}, added))


def _filled(cluster: MemberCluster, request: ResourceList, replicas: int) -> MemberCluster:
    """The cluster with so many more replicas counted as used; unchanged if it reports no resources."""
    summary = cluster.status.resource_summary if cluster.status is not None else None
    if cluster.status is None or summary is None:
        return cluster
    allocating = dict(summary.allocating or {})
    for name, raw in request.items():
        try:
            one = quantity.read(raw)
            more = changed(one, unscaled=one.unscaled * replicas, text=None)
            known = allocating.get(name)
            allocating[name] = str(more if known is None else quantity.read(known).plus(more))
        except quantity.QuantityError:
            continue  # the decision will report the error
    status = replace(cluster.status, resource_summary=replace(summary, allocating=allocating))
    return replace(cluster, status=status)
