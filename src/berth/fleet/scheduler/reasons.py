"""Whether a binding has to be scheduled at all, and which do when clusters change."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from berth.engine.state.columns import BoolArray
from berth.fleet.scheduler.settings import FleetSettings
from berth.fleet.state.cluster_affinity import matching, term_named
from berth.fleet.state.clusters import Clusters
from berth.fleet.state.strategy import is_workload, replicas_changed, reschedule_required
from berth.kube.karmada import (
    APPLIED_PLACEMENT,
    CLUSTER_POLICY_ID,
    DUPLICATED,
    POLICY_ID,
    Binding,
    Placement,
)
from berth.kube.objects import Key
from berth.kube.well_known import DEFAULT_SCHEDULER_NAME

# Labels that mark a binding as made by a policy or by another binding.
CLAIMING_LABELS = (POLICY_ID, CLUSTER_POLICY_ID, "binding.karmada.io/managed-by")
# The kinds of scheduling, as metrics name them.
RECONCILE, SCALE = "ReconcileSchedule", "ScaleSchedule"

# Fields of a placement whose change always needs a decision; of the cluster affinities only the one used.
_DECIDING = ("cluster_affinity", "cluster_tolerations", "spread_constraints", "replica_scheduling")

_decode = msgspec.json.Decoder(Placement).decode


def is_ours(binding: Binding, settings: FleetSettings) -> bool:
    spec = binding.spec
    if (spec.scheduler_name or DEFAULT_SCHEDULER_NAME) not in settings.scheduler_names:
        return False
    if spec.suspension is not None and spec.suspension.scheduling:
        return False
    labels = binding.metadata.labels or {}
    return not settings.claimed_only or any(labels.get(label) for label in CLAIMING_LABELS)


def reason_to_schedule(binding: Binding, clusters: Clusters, *, compat: bool) -> tuple[str, str] | None:
    """Which kind of scheduling a binding needs, and why; None if it needs none.

    Karmada (`compat`) does not notice that a cluster is gone if it did not see it go.
    """
    spec = binding.spec
    placement = spec.placement or Placement()
    if _placement_changed(binding, placement):
        return RECONCILE, "its placement changed"
    if replicas_changed(spec, placement):
        return SCALE, "its replicas changed"
    if reschedule_required(binding):
        return RECONCILE, "a reschedule was triggered"
    if is_always_scheduled(binding):
        return RECONCILE, "its scheduling type is Duplicated"
    slots = [clusters.slot(target.name) for target in spec.clusters or ()]
    if any(clusters.deleting[slot] for slot in slots):
        return RECONCILE, "a cluster of it is being deleted"
    gone = not compat and not all(clusters.exists[slot] for slot in slots)
    return (RECONCILE, "a cluster of it is gone") if gone else None


def is_always_scheduled(binding: Binding) -> bool:
    """Whether a binding goes to every cluster that will do, so that each change of one may matter to it."""
    strategy = (binding.spec.placement or Placement()).replica_scheduling
    duplicated = strategy is None or (strategy.replica_scheduling_type or DUPLICATED) == DUPLICATED
    return duplicated or not is_workload(binding.spec)


def applied_placement(binding: Binding) -> Placement | None:
    """The placement a binding was scheduled by last; None if that is not known."""
    text = (binding.metadata.annotations or {}).get(APPLIED_PLACEMENT)
    try:
        return _decode(text) if text else None
    except msgspec.MsgspecError:
        return None


def _placement_changed(binding: Binding, placement: Placement) -> bool:
    """Whether the placement differs from the one applied last in a field that decisions depend on."""
    if not (binding.metadata.annotations or {}).get(APPLIED_PLACEMENT):
        return True
    applied = applied_placement(binding)
    if applied is None or placement == applied:
        return False
    if any(getattr(placement, name) != getattr(applied, name) for name in _DECIDING):
        return True
    observed = binding.status.scheduler_observing_affinity_name
    if not observed:
        return True
    now, then = term_named(placement, observed), term_named(applied, observed)
    return now is None or then is None or now != then


# --- when clusters change -------------------------------------------------------------------------

# With so many bindings it pays to wait for further changes before going through all of them.
_MANY, _PAUSE = 2_000, 1.0


class ChangedClusters:
    """Collects changes of clusters, so that the affected bindings are searched once for many changes."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters
        self._changed: set[str] = set()
        self._room = False
        self._not_before = 0.0

    def changed(self, name: str) -> None:
        """A cluster came, went, or is another than before to some rule."""
        self._changed.add(name)

    def reported(self) -> None:
        """A cluster reported its resources: there may be more room."""
        self._room = True

    def due(self) -> float | None:
        return self._not_before if self._changed or self._room else None

    def take(
        self,
        now: float,
        bindings: Mapping[Key, Binding],
        unschedulable: Collection[Key],
        settings: FleetSettings,
    ) -> list[Key]:
        """The bindings to look at again."""
        if not (self._changed or self._room) or now < self._not_before:
            return []
        changed, self._changed, self._room = self._changed, set(), False
        concerned = dict.fromkeys(unschedulable)
        if changed:
            self._not_before = now + _PAUSE if len(bindings) > _MANY else 0.0
            slots = [self._clusters.slot(name) for name in changed]
            mask = self._clusters.mask(slots)
            wants: dict[bytes, bool] = {}
            for key, binding in bindings.items():
                if is_ours(binding, settings) and (
                    any(target.name in changed for target in binding.spec.clusters or ())
                    or (is_always_scheduled(binding) and self._wants(binding, mask, wants))
                ):
                    concerned[key] = None
        elif len(unschedulable) > _MANY:
            self._not_before = now + _PAUSE
        return list(concerned)

    def _wants(self, binding: Binding, changed: BoolArray, known: dict[bytes, bool]) -> bool:
        """Whether the placement asks for one of the clusters; many bindings have the same."""
        placement = binding.spec.placement or Placement()
        one = placement.cluster_affinity
        asked = placement.cluster_affinities if one is None else [one]
        if not asked:
            return True
        key = msgspec.json.encode(asked)
        if key not in known:
            known[key] = any((matching(self._clusters, affinity) & changed).any() for affinity in asked)
        return known[key]
