"""Which of the feasible clusters a binding is placed on."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.fleet.selection.select import select
from berth.fleet.state.clusters import Clusters
from berth.fleet.state.errors import PlacementError
from berth.fleet.state.options import FleetOptions
from berth.kube.well_known import UNSCHEDULABLE
from tests.fleet.choosing import BERTH, COMPATIBLE, selected, selection
from tests.support.fleet.builders import (
    BindingBuilder,
    ClusterBuilder,
    clusters_that,
    make_binding,
    make_cluster,
)

WEB = make_binding("web").replicas(10)


def with_room(**pods: int) -> list[ClusterBuilder]:
    return [make_cluster(name).capacity(pods=room) for name, room in pods.items()]


class TestOrder:
    """Clusters are preferred by tier, by score, by room, and by name."""

    def test_more_room_first_then_by_name(self) -> None:
        """Equally good clusters are ordered by room, then by name."""
        assert selected(with_room(c=5, b=5, a=3, d=9), WEB) == ["d", "b", "c", "a"]

    def test_present_targets_come_first(self) -> None:
        """A cluster that has the workload comes before one that does not."""
        assert selected(with_room(a=9, b=1, c=5), WEB.on(b=1)) == ["b", "a", "c"]

    def test_replicas_that_a_cluster_has_count_as_room(self) -> None:
        """The replicas a cluster already has count as its room."""
        found = selection(with_room(a=3, b=2), WEB.on(a=2, b=4))
        assert found.names == ["b", "a"]
        assert found.available.tolist() == [6, 5]
        assert found.allocatable.tolist() == [2, 3]

    def test_overflow_tiers_come_last(self) -> None:
        """Clusters of an overflow affinity come after those of the term itself."""
        binding = WEB.dynamic().term(
            "main", clusters_that("c"), overflow=[clusters_that("a"), clusters_that("a", "b")]
        )
        found = selection(with_room(a=1, b=9, c=5), binding, term="main")
        assert found.names == ["c", "a", "b"]
        assert found.tier.tolist() == [0, 1, 2]

    def test_only_feasible_clusters(self) -> None:
        """A cluster that is not feasible or is being deleted is never selected."""
        clusters = Clusters(c.build() for c in [*with_room(a=1, b=2), make_cluster("c").deleting()])
        feasible = clusters.schedulable
        feasible[clusters.slot_of["b"]] = False
        found = select(clusters, feasible, np.zeros(clusters.size, dtype=np.int64), WEB.build(), "", BERTH)
        assert found.names == ["a"]


class TestByCluster:
    def test_the_first_in_order(self) -> None:
        """A spread by cluster takes the best clusters up to its maximum."""
        assert selected(with_room(a=1, b=2, c=3), WEB.duplicated().spread("cluster", 1, 2)) == ["c", "b"]

    def test_room_does_not_matter_if_duplicated(self) -> None:
        """A duplicated workload is selected for a cluster without enough room."""
        assert selected(with_room(a=1, b=1), WEB.spread("cluster", 1, 1)) == ["a"]

    def test_the_last_is_exchanged_for_a_roomier_one(self) -> None:
        """The last selected cluster is exchanged until the replicas fit."""
        binding = WEB.dynamic().spread("cluster", 2, 2)
        assert selected(with_room(a=1, b=2, c=9), binding.on(a=1, b=1)) == ["b", "c"]

    @pytest.mark.parametrize("options", [BERTH, COMPATIBLE])
    def test_too_few_clusters(self, options: FleetOptions) -> None:
        """Fewer feasible clusters than minGroups is an error in Karmada's words."""
        with pytest.raises(PlacementError) as failure:
            selected(with_room(a=1), WEB.spread("cluster", 2, 3), options=options)
        assert failure.value.reason == "SchedulerError"
        assert failure.value.message == (
            "failed to select clusters: "
            "the number of feasible clusters is less than spreadConstraint.MinGroups"
        )

    def test_too_little_room(self) -> None:
        """A spread whose best clusters cannot hold the replicas is an error."""
        with pytest.raises(PlacementError, match="no enough resource when selecting 2 clusters"):
            selected(with_room(a=4, b=4, c=4), WEB.aggregated().spread("cluster", 1, 2))

    def test_no_maximum_is_no_limit_except_to_karmada(self) -> None:
        """A missing maxGroups means no limit; with Karmada's options it means none."""
        binding = WEB.spread("cluster", 1)
        assert selected(with_room(a=1, b=1), binding) == ["a", "b"]
        assert selected(with_room(a=1, b=1), binding, options=COMPATIBLE) == []
        with pytest.raises(PlacementError, match="no enough resource when selecting 0 clusters"):
            selected(with_room(a=1, b=1), binding.dynamic(), options=COMPATIBLE)

    def test_static_weights_know_better(self) -> None:
        """With static weights, spread constraints do not narrow the selection."""
        binding = WEB.spread("cluster", 1, 1)
        assert selected(with_room(a=1, b=1), binding.static_weights(a=1)) == ["a", "b"]
        assert selected(with_room(a=1, b=1), binding.divided()) == ["a", "b"]


def region(name: str, **pods: int) -> list[ClusterBuilder]:
    return [make_cluster(c).region(name).capacity(pods=room) for c, room in pods.items()]


class TestByRegion:
    @pytest.mark.parametrize("options", [BERTH, COMPATIBLE])
    def test_the_best_cluster_of_each_region_then_others(self, options: FleetOptions) -> None:
        """Each region gives its best cluster first, then the best of the rest follow."""
        clusters = region("eu", e1=50, e2=40) + region("us", u1=30, u2=20) + region("ap", a1=1)
        binding = WEB.spread("region", 2, 2).spread("cluster", 2, 3)
        assert selected(clusters, binding, options=options) == ["e1", "u1", "e2"]

    @pytest.mark.parametrize("options", [BERTH, COMPATIBLE])
    def test_a_region_that_can_bear_its_share_is_better(self, options: FleetOptions) -> None:
        """A region with room for its share is chosen over one without."""
        clusters = region("eu", e1=4) + region("us", u1=3, u2=3, u3=4)
        binding = WEB.dynamic().spread("region", 1, 1).spread("cluster", 1, 3)
        assert selected(clusters, binding, options=options) == ["u3", "u1", "u2"]

    def test_too_few_regions(self) -> None:
        """Fewer feasible regions than minGroups is an error in Karmada's words."""
        with pytest.raises(PlacementError) as failure:
            selected(region("eu", a=9, b=9), WEB.spread("region", 2, 2).spread("cluster", 2, 2))
        assert failure.value.message == (
            "failed to select clusters: the number of feasible region is less than spreadConstraint.MinGroups"
        )

    def test_too_few_clusters_in_them(self) -> None:
        """Regions with fewer clusters than the cluster constraint asks for are an error."""
        clusters = region("eu", a=9) + region("us", b=9) + region("ap", c=9)
        with pytest.raises(
            PlacementError, match="number of clusters is less than the cluster spreadConstraint"
        ):
            selected(clusters, WEB.spread("region", 2, 2).spread("cluster", 3, 3))

    def test_the_regions_must_have_room_though_karmada_does_not_look(self) -> None:
        """Chosen regions must have room; with Karmada's options nobody looks."""
        clusters = region("eu", a=2) + region("us", b=3) + region("ap", c=1)
        binding = WEB.dynamic().spread("region", 1, 2).spread("cluster", 1, 5)
        assert selected(clusters, binding, options=COMPATIBLE) == ["b"]
        with pytest.raises(PlacementError, match="no enough resource when selecting 2 clusters") as failure:
            selected(clusters, binding)
        assert failure.value.reason == UNSCHEDULABLE

    @pytest.mark.parametrize("options", [BERTH, COMPATIBLE])
    def test_one_cluster_a_region(self, options: FleetOptions) -> None:
        """A cluster of each region is taken, though the cluster constraint says one, as in Karmada's e2e."""
        clusters = region("eu", a=9, b=8) + region("us", c=7, d=6) + region("ap", e=1)
        for kind in (WEB.duplicated(), WEB.dynamic()):
            binding = kind.spread("cluster", 1, 1).spread("region", 2, 2)
            assert selected(clusters, binding, options=options) == ["a", "c"]
        with pytest.raises(PlacementError, match="number of feasible region is less than"):
            selected(clusters[:2], WEB.spread("cluster", 1, 1).spread("region", 2, 2), options=options)

    def test_one_cluster_a_group_of_every_topology(self) -> None:
        """One cluster of every group is selected for providers and labels, too, alone and together."""
        clusters = [
            make_cluster(name).region(name[0]).provider(name[1]).labels(rack=name[1]).capacity(pods=9)
            for name in ("ax", "ay", "bx", "by")
        ]
        one = WEB.spread("cluster", 1, 1)
        for binding in (
            one.spread("provider", 2, 2),
            one.spread_by_label("rack", 2, 2),
            one.spread("region", 2, 2).spread("provider", 2, 2),
        ):
            assert len(selected(clusters, binding)) == 2

    def test_clusters_are_exchanged_to_make_room(self) -> None:
        """Clusters are exchanged within the chosen regions until the replicas fit."""
        clusters = region("eu", a=1, b=9) + region("us", c=1, d=9)
        binding = WEB.dynamic().spread("region", 2, 2).spread("cluster", 2, 2).on(a=1, c=1)
        assert selected(clusters, binding, options=COMPATIBLE) == ["a", "c"]
        assert sorted(selected(clusters, binding)) == ["a", "d"]

    def test_no_more_clusters_than_allowed(self) -> None:
        """The maximum of clusters holds also where more regions would be allowed."""
        clusters = region("eu", a=9) + region("us", b=9)
        binding = WEB.spread("region", 1, 2).spread("cluster", 1, 1)
        assert selected(clusters, binding) == ["a"]

    def test_all_clusters_of_the_regions_without_a_limit(self) -> None:
        """Without a cluster constraint all clusters of the chosen regions are selected."""
        clusters = region("eu", a=9, b=8) + region("us", c=1)
        assert selected(clusters, WEB.dynamic().spread("region", 1, 1)) == ["a", "b"]


class TestBeyondKarmada:
    """Zones, providers, labels, and several of them."""

    CLUSTERS = (
        make_cluster("a").provider("p").region("eu").zones("z1").labels(rack="r1").capacity(pods=40),
        make_cluster("b").provider("p").region("eu").zones("z1", "z2").labels(rack="r2").capacity(pods=30),
        make_cluster("c").provider("q").region("us").zones("z3").labels(rack="r1").capacity(pods=20),
        make_cluster("d").provider("q").region("us").zones("z4").capacity(pods=10),
    )

    @pytest.mark.parametrize(
        ("binding", "expected"),
        [
            (WEB.spread("provider", 2, 2).spread("cluster", 2, 2), ["a", "c"]),
            (WEB.spread("provider", 1, 1), ["a", "b"]),
            (WEB.spread_by_label("rack", 2, 2).spread("cluster", 2, 2), ["a", "b"]),
            (WEB.spread_by_label("rack", 1, 1), ["a", "c"]),
            (WEB.spread("zone", 2, 2).spread("cluster", 1, 1), ["b"]),
            (WEB.spread("zone", 3, 3).spread("cluster", 1, 2), ["b", "c"]),
            (WEB.spread("zone", 1, 1), ["a"]),
            (WEB.spread("provider", 2).spread("zone", 3).spread("cluster", 2, 2), ["b", "c"]),
            (WEB.spread("region", 1, 1).spread("zone", 2, 2).spread("cluster", 2, 2), ["a", "b"]),
            (WEB.spread("region", 2).spread("provider", 2).spread("cluster", 2, 2), ["a", "c"]),
        ],
    )
    def test_each_constraint_holds(self, binding: BindingBuilder, expected: list[str]) -> None:
        """Constraints by provider, zone, label and region hold each and together."""
        assert sorted(selected(self.CLUSTERS, binding)) == expected

    def test_karmada_falls_back_on_clusters_or_gives_up(self) -> None:
        """With Karmada's options other spread fields are ignored or refused."""
        binding = WEB.spread("zone", 3, 3).spread("cluster", 1, 1)
        assert selected(self.CLUSTERS, binding, options=COMPATIBLE) == ["a"]
        with pytest.raises(PlacementError, match="just support cluster and region spread constraint"):
            selected(self.CLUSTERS, WEB.spread("zone", 1, 1), options=COMPATIBLE)

    def test_the_zone_with_room(self) -> None:
        """A spread by zone chooses the zone that has room for all replicas."""
        clusters = [
            make_cluster("a").zones("x").capacity(pods=6),
            make_cluster("b").zones("y").capacity(pods=5),
            make_cluster("c").zones("y").capacity(pods=5),
        ]
        assert selected(clusters, WEB.dynamic().spread("zone", 1, 1)) == ["b", "c"]

    @pytest.mark.parametrize(
        ("binding", "message"),
        [
            (WEB.spread("zone", 5), "the number of feasible zone is less than spreadConstraint.MinGroups"),
            (
                WEB.spread_by_label("nope", 1),
                "the number of feasible nope is less than spreadConstraint.MinGroups",
            ),
            (
                WEB.spread("zone", 4).spread("cluster", 1, 2),
                "no combination of feasible clusters satisfies all spread constraints",
            ),
            (
                WEB.spread("zone", 1, 1).spread("cluster", 2),
                "the number of clusters is less than the cluster spreadConstraint.MinGroups",
            ),
            (
                WEB.replicas(60).dynamic().spread("zone", 1, 1).spread("cluster", 1),
                "no enough resource when selecting 1 clusters",
            ),
        ],
    )
    def test_what_cannot_be(self, binding: BindingBuilder, message: str) -> None:
        """Constraints that cannot all hold are an error that says which is short."""
        with pytest.raises(PlacementError) as failure:
            selected(self.CLUSTERS, binding)
        assert failure.value.message == f"failed to select clusters: {message}"

    def test_a_label_may_be_called_like_a_field(self) -> None:
        """A label named `zone` is spread by its values, not by the clusters' zones."""
        clusters = [make_cluster("a").labels(zone="x"), make_cluster("b").labels(zone="y")]
        assert selected(clusters, WEB.spread_by_label("zone", 2)) == ["a", "b"]

    def test_changes_of_domains_are_noticed(self) -> None:
        """Selection follows clusters that change their region or join."""
        clusters = Clusters(c.build() for c in self.CLUSTERS)
        binding = WEB.spread("region", 1, 1)
        assert selected(clusters, binding) == ["a", "b"]
        clusters.set(self.CLUSTERS[2].region("eu").build())
        for i in range(20):
            clusters.set(make_cluster(f"n{i}").region(f"r{i}").capacity(pods=1).build())
        assert selected(clusters, binding) == ["a", "b", "c"]


def test_a_request_that_is_no_quantity_is_an_error_not_a_crash() -> None:
    """A malformed request fails the placement with a message."""
    with pytest.raises(PlacementError, match=r"failed to select clusters: .*not a quantity"):
        selected(with_room(a=1), WEB.request(cpu="lots"))


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[ClusterBuilder], BindingBuilder]:
    clusters = []
    for i in range(draw(st.integers(1, 7))):
        zones = draw(st.lists(st.sampled_from("uvwxyz"), min_size=1, max_size=2, unique=True))
        clusters.append(
            make_cluster(f"m{i}")
            .capacity(pods=draw(st.integers(0, 9)))
            .region(draw(st.sampled_from("ABC")))
            .provider(draw(st.sampled_from("pq")))
            .zones(*zones)
        )
    divide: Callable[[BindingBuilder], BindingBuilder] = draw(
        st.sampled_from([BindingBuilder.duplicated, BindingBuilder.dynamic, BindingBuilder.aggregated])
    )
    binding = divide(WEB.replicas(draw(st.integers(1, 12))))
    for field in draw(st.lists(st.sampled_from(["cluster", "region", "zone", "provider"]), unique=True)):
        least = draw(st.integers(1, 3))
        most = draw(st.one_of(st.none(), st.integers(least, 4)))
        binding = binding.spread(field, least, most)
    return clusters, binding


@given(worlds())
def test_whatever_is_selected_satisfies_every_constraint(
    world: tuple[list[ClusterBuilder], BindingBuilder],
) -> None:
    """Every selection satisfies all spread constraints and has room."""
    builders, binding = world
    try:
        found = selection(builders, binding)
    except PlacementError:
        return
    built = {b.build().metadata.name: b.build().spec for b in builders}
    assert len(set(found.names)) == len(found.names)
    assert set(found.names) <= set(built)
    domains: dict[str, set[str | None]] = {
        "cluster": set(found.names),
        "region": {built[name].region for name in found.names},
        "provider": {built[name].provider for name in found.names},
        "zone": {zone for name in found.names for zone in built[name].zones or ()},
    }
    placement = binding.build().spec.placement
    assert placement is not None
    constraints = placement.spread_constraints or ()
    groups = [c.min_groups or 1 for c in constraints if c.spread_by_field in ("region", "provider")]
    for constraint in constraints:
        field, most = constraint.spread_by_field or "", constraint.max_groups or 99
        if field == "cluster":
            most = max(most, *groups, 1)  # one of each group in any case
        assert (constraint.min_groups or 1) <= len(domains[field]) <= most
    replicas = binding.build().spec.replicas or 0
    if placement.spread_constraints and binding.duplicated().build() != binding.build():
        assert found.available.sum() >= replicas
