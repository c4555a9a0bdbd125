"""Bindings placed one after the other."""

from __future__ import annotations

from msgspec.structs import replace

from berth.fleet.offline.simulation import (
    PLACED,
    STAYS,
    SUSPENDED,
    UNPLACED,
    FleetSimulation,
    FleetWorkload,
)
from berth.fleet.state.options import FleetOptions
from berth.kube.karmada import BindingPriority, BindingSuspension
from berth.kube.well_known import UNSCHEDULABLE
from tests.fleet.offline.simulating import THREE, alone, fleet_of, simulated, workload
from tests.support.fleet.builders import make_binding, make_cluster, peers


def where(simulation: FleetSimulation) -> dict[str, list[str]]:
    return {
        (w.binding.spec.resource.name or ""): [target.name for target in w.targets]
        for w in simulation.workloads
    }


def test_each_placement_counts_for_the_next() -> None:
    """Members of an anti-affinity group take a cluster each, as long as there is one."""
    group = [workload(alone(name).anti_group("ha=x")) for name in "abcd"]
    simulation = simulated(fleet_of(*THREE), group)
    assert sorted(where(simulation)[name][0] for name in "abc") == ["m1", "m2", "m3"]
    assert [w.binding.spec.resource.name for w in simulation.unplaced] == ["d"]
    assert [w.state for w in group] == [PLACED, PLACED, PLACED, UNPLACED]


def test_the_highest_priority_goes_first() -> None:
    """The order of appearance counts among equals only."""
    late = alone("late").anti_group("ha=x").build()
    spec = replace(late.spec, schedule_priority=BindingPriority(priority=5))
    urgent = replace(late, spec=spec)
    simulation = simulated(
        fleet_of(make_cluster("m1")), [workload(alone("early").anti_group("ha=x")), workload(urgent)]
    )
    assert where(simulation) == {"early": [], "late": ["m1"]}


def test_what_waits_for_a_peer_is_tried_again() -> None:
    """The first needs the second, which needs nobody; Karmada's scheduler does not come back to it."""

    def both() -> list[FleetWorkload]:
        return [workload(alone("reader").near(peers({"app": "db"}))), workload(alone("db").labels(app="db"))]

    assert where(simulated(fleet_of(*THREE), both()))["reader"] == ["m1"]
    once = simulated(fleet_of(*THREE, options=FleetOptions(compat=True)), both())
    assert where(once) == {"reader": [], "db": ["m1"]}


def test_what_is_placed_stays() -> None:
    """A placed binding stays until its replicas change or a reschedule is asked for."""
    there = workload(make_binding("old").on(m1=1).affinity("m2"))
    simulation = simulated(fleet_of(*THREE), [there])
    assert (there.state, there.decision, where(simulation)) == (STAYS, None, {"old": ["m1"]})
    scaled = workload(make_binding("web").replicas(4).divided().on(m1=1))
    simulated(fleet_of(*THREE), [scaled])
    assert scaled.state == PLACED
    assert sum(target.replicas for target in scaled.targets) == 4


def test_what_is_suspended_is_left() -> None:
    """A binding whose scheduling is suspended is reported as suspended and gets no cluster."""
    built = make_binding("web").build()
    spec = replace(built.spec, suspension=BindingSuspension(scheduling=True))
    held = workload(replace(built, spec=spec))
    simulation = simulated(fleet_of(*THREE), [held])
    assert (held.state, simulation.unplaced) == (SUSPENDED, [held])


def test_room_is_used_up() -> None:
    """A cluster that was filled by one workload has no room for the next."""
    small = make_cluster("small").only(cpu="4", pods="10")
    big = make_cluster("big").only(cpu="6", pods="10")

    def pair(name: str) -> FleetWorkload:
        return workload(make_binding(name).replicas(2).request(cpu="2").aggregated())

    simulation = simulated(fleet_of(small, big), [pair("a"), pair("b"), pair("c")])
    assert where(simulation)["a"] == ["big"]
    assert where(simulation)["b"] == ["small"]
    (left,) = simulation.unplaced
    assert left.decision is not None
    assert left.decision.error is not None
    assert left.decision.error.reason == UNSCHEDULABLE
