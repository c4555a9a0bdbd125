"""Why a binding goes where it goes."""

from __future__ import annotations

from collections.abc import Iterable

from berth.fleet.offline.explanation import DOES_NOT_FIT, FITS, FleetExplanation, explain
from berth.fleet.offline.simulation import (
    PLACED,
    FleetWorkload,
)
from berth.fleet.placement.fleet import Fleet
from berth.fleet.state.errors import NO_CLUSTER_FIT
from berth.fleet.state.options import COMPATIBLE
from tests.fleet.offline.simulating import THREE, alone, fleet_of, simulated, workload
from tests.support.fleet.builders import make_binding, make_cluster, peers


def explained(fleet: Fleet, asked: FleetWorkload, others: Iterable[FleetWorkload] = ()) -> FleetExplanation:
    return explain(simulated(fleet, [*others, asked], asked=asked), asked)


def test_every_cluster_has_every_reason() -> None:
    """The peer that is in the way is named, and a cluster with two reasons has both."""
    peer = workload(make_binding("peer").anti_group("ha=x").on(m1=1))
    fleet = fleet_of(make_cluster("m1").taint("gpu"), *THREE[1:])
    found = explained(fleet, workload(alone("web").anti_group("ha=x").affinity("m1", "m2")), [peer])
    assert (found.state, found.message) == (FITS, "It goes to m2:1.")
    verdicts = {cluster.name: cluster for cluster in found.clusters}
    assert (verdicts["m2"].feasible, verdicts["m2"].selected, verdicts["m2"].replicas) == (True, True, 1)
    assert {verdict.rule for verdict in verdicts["m1"].verdicts} == {
        "TaintToleration",
        "WorkloadAntiAffinity",
    }
    assert any("default/peer-deployment" in verdict.reason for verdict in verdicts["m1"].verdicts)
    assert [verdict.rule for verdict in verdicts["m3"].verdicts] == ["ClusterAffinity"]


def test_what_is_broken_now() -> None:
    """Of a placed binding it says what does not hold where it is, and clusters that are gone."""
    peer = workload(make_binding("peer").anti_group("ha=x").on(m1=1))
    found = explained(
        fleet_of(*THREE), workload(make_binding("web").anti_group("ha=x").on(m1=1, gone=1)), [peer]
    )
    assert found.state == PLACED
    assert any("m1" in text for text in found.broken)
    (gone,) = [cluster for cluster in found.clusters if cluster.name == "gone"]
    assert [verdict.reason for verdict in gone.verdicts] == ["there is no such cluster"]


def test_single_changes_that_help_are_named() -> None:
    """Each was tried: the group, the taint; not the affinity, which alone would change nothing."""
    peers_there = [workload(make_binding(f"p{i}").anti_group("ha=x").on({f"m{i}": 1})) for i in (1, 2)]
    fleet = fleet_of(*THREE[:2], make_cluster("m3").taint("gpu"))
    found = explained(fleet, workload(alone("web").anti_group("ha=x")), peers_there)
    assert (found.state, found.reason) == (DOES_NOT_FIT, NO_CLUSTER_FIT)
    assert [(r.change, r.fits) for r in found.relaxations] == [
        ("without the anti-affinity group ha=x", 2),
        ("with a toleration for the taint gpu:NoSchedule", 1),
    ]
    assert found.relaxations[1].sentence == (
        "with a toleration for the taint gpu:NoSchedule it would fit on 1 cluster and go to m3"
    )


def test_a_rule_that_both_have_is_one_rule() -> None:
    """Dropped on one side only it would still hold on the other."""
    term = peers({"app": "web"})
    peer = workload(make_binding("peer").labels(app="web").apart_from(term).on(m1=1))
    found = explained(fleet_of(THREE[0]), workload(alone("web").labels(app="web").apart_from(term)), [peer])
    assert [r.change for r in found.relaxations] == ["without the anti-affinity to workloads app=web"]


def test_a_rule_of_a_peer_can_be_the_obstacle() -> None:
    """Explain names the peer's anti-affinity as what has to go for the workload to fit."""
    peer = workload(make_binding("peer").apart_from(peers({"app": "web"})).on(m1=1))
    found = explained(fleet_of(THREE[0]), workload(alone("web").labels(app="web")), [peer])
    assert [r.change for r in found.relaxations] == ["without the anti-affinity of default/peer-deployment"]


def test_fewer_replicas_may_fit() -> None:
    """Explain says how many replicas at most would fit when the wanted number does not."""
    fleet = fleet_of(make_cluster("m1").only(cpu="4", pods="10"))
    found = explained(fleet, workload(make_binding("web").replicas(5).request(cpu="1").aggregated()))
    assert [r.change for r in found.relaxations] == ["with at most 4 replicas"]


def test_trying_changes_leaves_the_fleet_as_it_was() -> None:
    """What was in the way still is, for the same reason."""
    peer = workload(make_binding("peer").labels(app="web").apart_from(peers({"app": "web"})).on(m1=1))
    asked = workload(alone("web").labels(app="web"))
    simulation = simulated(fleet_of(THREE[0]), [peer, asked], asked=asked)
    before = simulation.fleet.decide(asked.key).decisive.reasons(0)
    assert explain(simulation, asked).relaxations
    assert simulation.fleet.decide(asked.key).decisive.reasons(0) == before
    assert simulation.fleet.known(peer.key).binding == peer.binding


def test_compatible_explanations_name_nobody() -> None:
    """With Karmada's options a verdict has Karmada's words and no peer's name."""
    peer = workload(make_binding("peer").anti_group("ha=x").on(m1=1))
    fleet = fleet_of(THREE[0], options=COMPATIBLE)
    found = explained(fleet, workload(alone("web").anti_group("ha=x")), [peer])
    assert [r.reason for r in found.clusters[0].verdicts] == [
        "cluster already has workload with the same anti-affinity group"
    ]
