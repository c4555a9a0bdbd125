"""How a binding wants its replicas divided, and whether they have to be divided anew."""

from __future__ import annotations

import re
from dataclasses import dataclass

from berth.fleet.state.options import FleetOptions
from berth.kube.karmada import (
    AGGREGATED,
    DIVIDED,
    DUPLICATED,
    WEIGHTED,
    Binding,
    BindingSpec,
    ClusterPreferences,
    Placement,
)
from berth.kube.times import seconds_of

_is_version = re.compile(r"[1-9][0-9]*", re.ASCII).fullmatch

STATIC_WEIGHT, DYNAMIC_WEIGHT = "StaticWeight", "DynamicWeight"


@dataclass(frozen=True, slots=True)
class DivisionStrategy:
    """The replica scheduling of a placement.

    Attributes:
        type: `replicaSchedulingType`; without any replica scheduling it is Duplicated.
        preference: `replicaDivisionPreference`.
        weights: The weight preference, None if there is none.
    """

    type: str
    preference: str = ""
    weights: ClusterPreferences | None = None

    @property
    def kind(self) -> str | None:
        """Duplicated, Aggregated, StaticWeight or DynamicWeight; None if it is none of these."""
        if self.type == DUPLICATED:
            return DUPLICATED
        if self.type == DIVIDED and self.preference == AGGREGATED:
            return AGGREGATED
        if self.type == DIVIDED and self.preference == WEIGHTED:
            dynamic = self.weights is not None and self.weights.dynamic_weight
            return DYNAMIC_WEIGHT if dynamic else STATIC_WEIGHT
        return None

    @property
    def ignores_spread(self) -> bool:
        """Static weights say where replicas go, whatever the spread constraints are."""
        return self.kind == STATIC_WEIGHT and (self.weights is None or bool(self.weights.static_weight_list))


def strategy_of(placement: Placement, options: FleetOptions) -> DivisionStrategy:
    """The strategy of a placement as the API server would have stored it.

    Karmada leaves out what an API server would have filled in, and then fails to assign replicas.
    """
    scheduling = placement.replica_scheduling
    if scheduling is None:
        return DivisionStrategy(DUPLICATED)
    type_, preference = scheduling.replica_scheduling_type or "", scheduling.replica_division_preference or ""
    if not options.compat:
        type_ = type_ or DIVIDED
        preference = preference or (WEIGHTED if type_ == DIVIDED else "")
    return DivisionStrategy(type_, preference, scheduling.weight_preference)


def is_workload(spec: BindingSpec) -> bool:
    """Whether a binding is of a workload with replicas, not of another object such as a ConfigMap."""
    return bool(spec.replicas or spec.replica_requirements is not None or spec.components)


def priority_of(binding: Binding) -> int:
    wish = binding.spec.schedule_priority
    return (wish.priority if wish is not None else None) or 0


def replicas_changed(spec: BindingSpec, placement: Placement) -> bool:
    """Whether a binding has other replicas than its clusters were given."""
    strategy = placement.replica_scheduling
    if strategy is None:
        return False
    wanted, targets = spec.replicas or 0, spec.clusters or ()
    if strategy.replica_scheduling_type == DUPLICATED:
        return any(target.replicas != wanted for target in targets)
    if strategy.replica_scheduling_type == DIVIDED:
        return sum(target.replicas for target in targets) != wanted
    return False


def reschedule_required(binding: Binding) -> bool:
    """Whether someone asked for a new placement after the last one."""
    asked = seconds_of(binding.spec.reschedule_triggered_at)
    done = seconds_of(binding.status.last_scheduled_time)
    return asked is not None and done is not None and asked > done


def is_newer(copy: Binding, than: Binding) -> bool | None:
    """Whether a copy of an object is newer than another; None if their versions say nothing."""
    versions = [copy.metadata.resource_version or "", than.metadata.resource_version or ""]
    if not all(map(_is_version, versions)):
        return None
    return int(versions[0]) > int(versions[1])
