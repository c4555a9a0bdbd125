"""Deciding one binding: the terms tried, and the reasons given."""

from __future__ import annotations

from typing import Any

import pytest

from berth.engine.state.columns import BoolArray
from berth.fleet.placement.fleet import Fleet, PlacementDecision
from berth.fleet.state.clusters import Clusters
from berth.fleet.state.errors import NO_CLUSTER_FIT
from berth.fleet.state.options import COMPATIBLE, FleetOptions
from berth.kube.karmada import Binding, BindingSpec, Placement
from berth.kube.objects import ObjectReference
from tests.support.fleet.builders import BindingBuilder, clusters_that, make_binding, make_cluster, peers

GROUP = "ha.example.com/group=pipelines"


def decide(fleet: Fleet, builder: BindingBuilder) -> PlacementDecision:
    binding = builder.build()
    key = (binding.metadata.namespace or "", binding.metadata.name or "")
    fleet.set_binding(key, binding)
    return fleet.decide(key)


def placed(fleet: Fleet, builder: BindingBuilder) -> None:
    binding = builder.build()
    fleet.set_binding((binding.metadata.namespace or "", binding.metadata.name or ""), binding)


def targets(decision: PlacementDecision) -> list[str]:
    return [target.name for target in decision.targets or ()]


def fleet_of(*names: str, options: FleetOptions | None = None) -> Fleet:
    fleet = Fleet(options)
    for name in names:
        fleet.clusters.set(make_cluster(name).region(name[:2]).build())
    return fleet


@pytest.mark.parametrize("options", [COMPATIBLE, FleetOptions()])
class TestTermsOfClusterAffinities:
    def test_an_empty_list_is_none(self, options: FleetOptions) -> None:
        """An empty list of cluster affinities is the same as none."""
        fleet = fleet_of("m1", options=options)
        spec = BindingSpec(
            resource=ObjectReference(api_version="apps/v1", kind="Deployment", name="web"),
            placement=Placement(cluster_affinities=[]),
        )
        fleet.set_binding(("default", "web-deployment"), Binding(spec=spec))
        decision = fleet.decide(("default", "web-deployment"))
        assert (decision.error, targets(decision)) == (None, ["m1"])

    def test_nothing_observed_is_not_a_term_without_a_name(self, options: FleetOptions) -> None:
        """A binding with no observed term starts at the first term, not at a nameless one."""
        web = make_binding("web").term("first", clusters_that("m1")).term("", clusters_that("m2"))
        decision = decide(fleet_of("m1", "m2", options=options), web)
        assert decision.decisive.affinity_name == "first"


class TestReasonsThatNamePeers:
    def test_those_in_the_way_are_named(self) -> None:
        """The message of a binding that fits nowhere names the peers that keep it away."""
        fleet = fleet_of("m1", "m2", "m3")
        placed(fleet, make_binding("a").anti_group(GROUP).on(m1=1))
        placed(fleet, make_binding("b").anti_group(GROUP).on(m2=1, m3=1))
        placed(fleet, make_binding("c").anti_group(GROUP).on(m3=1))
        error = decide(fleet, make_binding("z").anti_group(GROUP)).error
        assert error is not None
        text = "cluster already has workload with the same anti-affinity group"
        assert (error.reason, error.message) == (
            NO_CLUSTER_FIT,
            f"0/3 clusters are available: 3 {text} (default/a-deployment, default/b-deployment).",
        )

    def test_or_in_its_region(self) -> None:
        """A peer in the same region is named as the reason on every cluster of that region."""
        fleet = fleet_of("eu-1", "eu-2", "us-1")
        placed(fleet, make_binding("a").labels(app="web").on({"eu-2": 1}))
        web = make_binding("z").apart_from(peers({"app": "web"}, topology="region"))
        decision = decide(fleet, web)
        slots = fleet.clusters.slot_of
        assert targets(decision) == ["us-1"]
        for name in ("eu-1", "eu-2"):
            (reason,) = decision.decisive.reasons(slots[name])
            assert reason.endswith("(default/a-deployment)")

    def test_to_name_one_for_each_cluster_takes_no_search_for_each(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Naming the peers in the way searches no cluster one by one."""
        names = [f"m{number}" for number in range(30)]
        fleet = fleet_of(*names)
        for name in names:
            placed(fleet, make_binding(f"on-{name}").anti_group(GROUP).on({name: 1}))

        def of_several(_clusters: Clusters, _topology: str, inside: BoolArray) -> BoolArray:
            return inside if inside.sum() > 1 else pytest.fail("it was searched for")

        monkeypatch.setattr("berth.fleet.rules.workload_rules.reach", of_several)
        error = decide(fleet, make_binding("z").anti_group(GROUP)).error
        assert error is not None
        first = ", ".join(f"default/on-m{number}-deployment" for number in range(3))
        assert error.message.endswith(f" anti-affinity group ({first}, …).")


def test_preferences_together_never_outweigh_staying_put() -> None:
    """A workload that runs stays where it is, whatever its preferences add up to."""
    fleet = fleet_of("m1", "m2")
    placed(fleet, make_binding("friend").labels(app="friend").on(m2=1))
    placed(fleet, make_binding("foe").labels(app="foe").on(m1=1))
    web = (
        make_binding("web")
        .placement(workloadAffinity=preferring("friend"), workloadAntiAffinity=preferring("foe"))
        .spread("cluster", 1, 1)
    )
    assert targets(decide(fleet, web)) == ["m2"]
    assert targets(decide(fleet, web.on(m1=1))) == ["m1"]


def preferring(app: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}}
    weighted = {"weight": 100, "workloadAffinityTerm": term}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}
