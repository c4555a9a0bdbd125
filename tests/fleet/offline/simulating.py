"""Fleets and workloads to simulate."""

from __future__ import annotations

from berth.fleet.offline.simulation import (
    FleetSimulation,
    FleetWorkload,
    simulate,
)
from berth.fleet.placement.fleet import Fleet
from berth.fleet.state.options import FleetOptions
from berth.kube.karmada import Binding
from tests.support.fleet.builders import BindingBuilder, ClusterBuilder, make_binding, make_cluster


def workload(binding: BindingBuilder | Binding) -> FleetWorkload:
    built = binding.build() if isinstance(binding, BindingBuilder) else binding
    return FleetWorkload((built.metadata.namespace or "", built.metadata.name or ""), built)


def fleet_of(*clusters: ClusterBuilder, options: FleetOptions | None = None) -> Fleet:
    fleet = Fleet(options)
    for cluster in clusters:
        fleet.clusters.set(cluster.build())
    return fleet


def simulated(
    fleet: Fleet, workloads: list[FleetWorkload], asked: FleetWorkload | None = None
) -> FleetSimulation:
    return simulate(FleetSimulation(fleet, workloads), asked=asked)


THREE = (make_cluster("m1"), make_cluster("m2"), make_cluster("m3"))


def alone(name: str) -> BindingBuilder:
    """A workload that takes one cluster."""
    return make_binding(name).spread("cluster", 1, 1)
