"""Each way in which Berth differs from Karmada, switched off by itself."""

from __future__ import annotations

from dataclasses import replace

from berth.fleet.state.options import FleetOptions
from berth.kube.api_resources import CLUSTERS, LEASES, RESOURCE_BINDINGS
from tests.support.fleet.builders import BindingBuilder, make_binding, make_cluster
from tests.support.scripts.fleet import OURS, FleetScript

GROUP = "ha.example.com/group=pipelines"


def single(name: str) -> BindingBuilder:
    return make_binding(name).spread("cluster", 1, 1)


def world_with(options: FleetOptions, clusters: int) -> FleetScript:
    return FleetScript(replace(OURS, options=options), clusters=clusters)


def test_without_keeping_what_fits_nowhere_is_taken_away() -> None:
    """With keep-when-unfit off, a binding that fits nowhere loses its clusters."""
    world = world_with(FleetOptions(keep_when_unfit=False), clusters=1)
    world.bind(make_binding("web").affinity("gone").on(m1=1))
    world.settle()
    assert world.places("web") == {}


def test_without_counting_them_peers_being_evicted_are_not_there() -> None:
    """With count-evicting off, a peer being evicted blocks nobody."""
    world = world_with(FleetOptions(count_evicting=False), clusters=2)
    world.bind(single("a").anti_group(GROUP).affinity("m2").evicting("m1"))
    world.bind(single("b").anti_group(GROUP).affinity("m1"))
    world.settle()
    assert world.places("b") == {"m1": 1}


def test_without_group_failover_who_is_evicted_waits() -> None:
    """With group failover off, an evicted member waits while its group stays."""
    world = world_with(FleetOptions(group_failover=False), clusters=3)
    world.bind(single("a").group(GROUP), single("b").group(GROUP))
    world.settle()
    world.evict("b", "m1")
    world.advance(600)
    assert (world.places("a"), world.places("b")) == ({"m1": 1}, {})


def test_without_names_reasons_are_karmadas() -> None:
    """With name-peers off, the message is Karmada's to the letter."""
    world = world_with(FleetOptions(name_peers=False), clusters=1)
    world.bind(single("a").anti_group(GROUP), single("b").anti_group(GROUP))
    world.settle()
    assert world.condition("b")["message"] == (
        "0/1 clusters are available: 1 cluster already has workload with the same anti-affinity group."
    )


def test_without_retrying_who_is_blocked_stays_so() -> None:
    """With retry-blocked off, a blocked binding is not retried when its peer leaves."""
    world = FleetScript(replace(OURS, retry_blocked=False), clusters=1)
    world.bind(single("a").anti_group(GROUP), single("b").anti_group(GROUP))
    world.settle()
    world.delete(RESOURCE_BINDINGS, "a-deployment")
    world.advance(600)
    assert world.places("b") == {}


class TestClaims:
    """Two schedulers whose group has to leave its cluster; neither sees what the other does."""

    def after_m1_failed(self, *, claims: bool) -> FleetScript:
        first, second = (
            replace(OURS, scheduler_names=frozenset((name,)), claim_groups=claims)
            for name in ("first", "second")
        )
        world = FleetScript(first, second)
        world.bind(single("a").scheduler("first").affinity("m1", "m2").group(GROUP))
        world.settle()
        world.bind(single("b").scheduler("second").group(GROUP))
        world.advance(5)
        assert world.places("a") == world.places("b") == {"m1": 1}
        world.cluster(make_cluster("m2").only(pods=5))  # the second would rather have m3
        world.settle()
        world.held.add(RESOURCE_BINDINGS)
        world.change(CLUSTERS, "m1", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "")
        world.settle()
        world.deliver()
        world.advance(60)
        return world

    def test_with_them_it_stays_together(self) -> None:
        """With claims, two schedulers move a group to the same cluster."""
        world = self.after_m1_failed(claims=True)
        assert world.places("a") == world.places("b") == {"m2": 1}

    def test_without_them_it_may_not(self) -> None:
        """Without claims, two schedulers write no Lease and may split a group."""
        world = self.after_m1_failed(claims=False)
        assert (world.places("a"), world.places("b")) == ({"m2": 1}, {"m3": 1})
        assert world.names(LEASES) == []
