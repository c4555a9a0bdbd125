"""How fast pods go, and when none does."""

from __future__ import annotations

import pytest

from berth.engine.execution.eviction_ceiling import CLUSTER
from berth.eviction import EvictionRate, EvictionSettings
from berth.eviction.reports import HALTED, RESUMED
from berth.kube.api_resources import NAMESPACES
from berth.machines.contract import Get
from tests.support.builders import ZONE
from tests.support.scripts.eviction import EvictionScript, interfere_once, needs_label

RULE = needs_label("user", "b")
FAST = EvictionRate(qps=1000, burst=1000)
RELEASE = "berth.dev/release-evictions"


def crowd(settings: EvictionSettings, *, going: int, staying: int, zone: str = "a") -> EvictionScript:
    """Pods with the rule on one node, pods without any on another, both in one zone; then the label goes."""
    world = EvictionScript(settings)
    world.labelled("theirs", zone, user="b")
    world.labelled("ours", zone)
    world.labelled("new", "z", user="b")
    for number in range(going):
        world.pod(f"b{number:02}", "theirs", RULE)
    for number in range(staying):
        world.pod(f"c{number:02}", "ours")
    world.settle()
    world.relabel("theirs", user=None)
    world.settle()
    return world


def test_evictions_come_at_a_rate() -> None:
    """Evictions come in a burst at first, and then one after the other."""
    settings = EvictionSettings(rate=EvictionRate(qps=0.5, burst=3), domain_rate=FAST)
    world = crowd(settings, going=10, staying=20)
    assert len(world.going()) == 3
    world.advance(2.1)
    assert len(world.going()) == 4
    world.advance(4.1)
    assert len(world.going()) == 6
    world.advance(60)
    assert len(world.going()) == 10


def test_a_domain_has_a_rate_of_its_own() -> None:
    """A domain waits for its own rate, and not for that of another domain."""
    settings = EvictionSettings(rate=FAST, domain_rate=EvictionRate(qps=0.1, burst=2))
    world = crowd(settings, going=5, staying=20)
    world.labelled("there", "b", user="b")
    for number in range(5):
        world.pod(f"d{number}", "there", RULE)
    world.relabel("there", user=None)
    world.settle()
    assert sorted(name[0] for name in world.going()) == ["b", "b", "d", "d"]
    world.advance(10.1)
    assert len(world.going()) == 6


def test_nodes_in_no_domain_have_the_rate_of_the_cluster() -> None:
    """Nodes without a domain are not one together: they have the rate of the cluster."""
    settings = EvictionSettings(rate=FAST, domain_rate=EvictionRate(qps=0.1, burst=2))
    assert len(crowd(settings, going=5, staying=20, zone="").going()) == 5


def test_a_refused_eviction_takes_nobody_elses_turn() -> None:
    """An eviction that a budget refuses does not use up the rate for others."""
    settings = EvictionSettings(rate=EvictionRate(qps=0.5, burst=1), domain_rate=FAST)
    world = EvictionScript(settings)
    world.labelled("n", user="b")
    world.labelled("new", user="b")
    world.budget("never", "protected", allowed=0)
    for number in range(5):
        world.pod(f"a{number}", "n", RULE, app="protected")
    world.pod("free", "n", RULE)
    for number in range(20):
        world.pod(f"c{number}", "new")
    world.settle()
    world.relabel("n", user=None)
    world.advance(10)
    assert world.going() == {"free"}


# --- too many ---------------------------------------------------------------------------------------


def test_more_than_the_share_of_a_domain_halts_it() -> None:
    """12 of 20 are 60 %: nobody goes, it is said and measured."""
    world = crowd(EvictionSettings(rate=FAST, domain_rate=FAST), going=12, staying=8)
    world.advance(3600)
    assert world.attempts() == []
    assert world.metric("affinity_evictions_halted", domain="a") == pytest.approx(0.6)
    assert world.metric("affinity_evictions_waiting", reason="halted") == 12
    events = world.events("EvictionsHalted")
    assert {event["involvedObject"]["name"] for event in events} == {"kube-system", "theirs"}
    assert any("12 of 20 pods (60%)" in event["message"] for event in events)
    assert [decision.subject for decision in world.said(HALTED)] == ["the cluster", "domain a"]


def test_no_more_than_the_share_may_go() -> None:
    """All go as long as they are no more than the share: 11 of 20 are exactly 55 %."""
    world = crowd(EvictionSettings(rate=FAST, domain_rate=FAST), going=11, staying=9)
    assert len(world.going()) == 11
    assert world.said(HALTED) == []


def test_those_that_went_count_for_a_while() -> None:
    """Pods that have just gone count for the share, so that it is not exceeded bit by bit."""
    world = crowd(EvictionSettings(rate=FAST, domain_rate=FAST), going=10, staying=10)
    assert len(world.going()) == 10
    world.vanish(*world.going())
    world.labelled("more", user="b")
    for name in ("late", "later", "last"):
        world.pod(name, "more", RULE)
    world.relabel("more", user=None)
    world.settle()
    assert world.going() == set()
    world.advance(120)
    assert world.going() == {"late", "later", "last"}


def test_a_handful_is_never_too_many() -> None:
    """So few pods as --halt-above allows go whatever their share."""
    world = crowd(EvictionSettings(rate=FAST, domain_rate=FAST), going=5, staying=0)
    assert len(world.going()) == 5


def test_a_halt_ends_when_the_labels_come_back() -> None:
    """A halt ends without an eviction when the rules hold again, and that is said."""
    world = crowd(EvictionSettings(rate=FAST, domain_rate=FAST), going=12, staying=8)
    world.relabel("theirs", user="b")
    world.advance(60)
    assert world.writes() == world.events_only()
    assert world.metric("affinity_evictions_halted", domain="a") == 0
    assert world.events("EvictionsResumed")
    assert len(world.said(RESUMED)) == 2


@pytest.mark.parametrize("released", ["a,*", "*"])
def test_a_halt_ends_when_a_person_says_so(released: str) -> None:
    """A halt ends when the namespace is annotated with a release of the domain."""
    world = crowd(EvictionSettings(rate=FAST, domain_rate=FAST), going=12, staying=8)
    world.change(NAMESPACES, "kube-system", {"metadata": {"annotations": {RELEASE: released}}})
    world.settle()
    assert len(world.going()) == 12


def test_another_domain_goes_on() -> None:
    """A halt of one domain does not stop another, unless the cluster's share is exceeded."""
    world = crowd(EvictionSettings(rate=FAST, domain_rate=FAST), going=0, staying=8)
    world.relabel("theirs", user="b")
    world.labelled("there", "b", user="b")
    world.pod("d", "there", RULE)
    for number in range(12):
        world.pod(f"b{number}", "theirs", RULE)
    for number in range(30):
        world.pod(f"e{number}", "new")
    world.settle()
    world.relabel("theirs", user=None)
    world.relabel("there", user=None)
    world.settle()
    assert world.going() == {"d"}
    assert set(world.machine.halts.halts) == {"a"}
    assert CLUSTER not in world.machine.halts.halts


def test_a_halt_survives_a_restart() -> None:
    """A controller that restarts during a halt evicts nobody either."""
    world = crowd(EvictionSettings(rate=FAST, domain_rate=FAST), going=12, staying=8)
    world.restart()
    world.advance(600)
    assert world.attempts() == []
    assert world.metric("affinity_evictions_halted", domain="a") > 0.5


def test_a_halt_does_not_end_because_more_pods_come() -> None:
    """12 of 26 would be less than the share; neither a person nor a label said that they may go."""
    world = crowd(EvictionSettings(rate=FAST, domain_rate=FAST), going=12, staying=8)
    for number in range(6):
        world.pod(f"d{number}", "ours")
    world.advance(600)
    assert world.attempts() == []


def test_a_halt_stops_those_that_are_on_their_way() -> None:
    """6 of 18 may go; before one of them has gone it is 14."""
    world = EvictionScript(EvictionSettings(rate=FAST, domain_rate=FAST))
    for node, pods in (("n1", 6), ("n2", 8)):
        world.labelled(node, user="b")
        for number in range(pods):
            world.pod(f"{node}-{number}", node, RULE)
    world.labelled("n3")
    for number in range(4):
        world.pod(f"n3-{number}", "n3")
    world.settle()
    world.relabel("n1", user=None)
    interfere_once(world, Get, lambda: world.relabel("n2", user=None))
    assert world.attempts() == []
    assert world.metric("affinity_evictions_waiting", reason="halted") == 14


def test_a_node_that_loses_its_zone_as_well_still_counts_there() -> None:
    """All labels of a zone's nodes are wiped away: 10 of its 10 pods, and a third of the cluster's."""
    world = EvictionScript(EvictionSettings(rate=FAST, domain_rate=FAST))
    for zone in "abc":
        for node in (f"{zone}1", f"{zone}2"):
            world.labelled(node, zone, user="b")
            for number in range(5):
                world.pod(f"{node}-{number}", node, RULE)
    world.settle()
    for node in ("a1", "a2"):
        world.relabel(node, user=None, **{ZONE: None})
    world.advance(600)
    assert world.attempts() == []
    assert set(world.machine.halts.halts) == {"a"}
