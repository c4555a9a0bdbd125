"""How many replicas each selected cluster gets."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.fleet.state.errors import PlacementError
from berth.fleet.state.options import FleetOptions
from tests.fleet.choosing import BERTH, COMPATIBLE, assigned
from tests.support.fleet.builders import (
    BindingBuilder,
    ClusterBuilder,
    clusters_that,
    make_binding,
    make_cluster,
)

WEB = make_binding("web").replicas(6).uid(None)
PROPAGATE_EMPTY = FleetOptions(empty_workload_propagation=True)


def with_room(**pods: int) -> list[ClusterBuilder]:
    return [make_cluster(name).capacity(pods=room) for name, room in pods.items()]


class TestDuplicated:
    def test_everyone_gets_all_replicas(self) -> None:
        """Duplicated scheduling gives every selected cluster all replicas, whatever room it has."""
        assert assigned(with_room(a=1, b=0), WEB.duplicated()) == {"a": 6, "b": 6}

    def test_it_is_the_default(self) -> None:
        """A binding that says nothing about replica scheduling is duplicated."""
        assert assigned(with_room(a=1, b=1), WEB) == {"a": 6, "b": 6}

    def test_no_replicas_no_targets(self) -> None:
        """A workload scaled to zero replicas has no target clusters."""
        assert assigned(with_room(a=1), WEB.request(cpu=1).replicas(0)) == {}


class TestStaticWeight:
    def test_by_weight_whatever_the_room(self) -> None:
        """Static weights divide the replicas in proportion, without regard to room."""
        assert assigned(with_room(a=0, b=0, c=9), WEB.static_weights(a=1, b=2)) == {"a": 2, "b": 4}

    def test_the_greatest_weight_that_matches(self) -> None:
        """A cluster that several weights match gets the greatest of them."""
        clusters = [make_cluster("a").labels(tier="gold"), make_cluster("b")]
        binding = WEB.weighted(
            (clusters_that(), 1), (clusters_that(labels={"tier": "gold"}), 5), (clusters_that("a"), 3)
        )
        assert assigned(clusters, binding) == {"a": 5, "b": 1}

    @pytest.mark.parametrize("binding", [WEB.divided(), WEB.static_weights(z=1), WEB.static_weights(a=0)])
    def test_evenly_if_no_cluster_has_a_weight(self, binding: BindingBuilder) -> None:
        """Replicas are divided evenly when no selected cluster has a positive weight."""
        assert assigned(with_room(a=1, b=1, c=1), binding) == {"a": 2, "b": 2, "c": 2}

    def test_present_targets_do_not_matter(self) -> None:
        """Static weights divide all replicas anew, wherever they are at present."""
        assert assigned(with_room(a=9, b=9), WEB.static_weights(a=1, b=1).on(a=6)) == {"a": 3, "b": 3}

    def test_the_uid_of_the_resource_breaks_ties(self) -> None:
        """Among equal clusters the hash of the resource's UID says who gets the odd replica."""
        binding = WEB.replicas(1).divided()
        assert assigned(with_room(a=1, b=1), binding.uid("a")) == {"a": 1}  # an even hash
        assert assigned(with_room(a=1, b=1), binding.uid("b")) == {"b": 1}  # an odd one


class TestDynamicWeight:
    def test_in_proportion_to_the_room(self) -> None:
        """Dynamic weights divide the replicas in proportion to the room of each cluster."""
        assert assigned(with_room(a=10, b=20, c=0), WEB.dynamic()) == {"a": 2, "b": 4}

    def test_only_what_is_new_is_divided(self) -> None:
        """Scaling up leaves present replicas where they are and divides only the new ones."""
        binding = WEB.dynamic().on(a=4)
        assert assigned(with_room(a=0, b=20, c=20), binding) == {"a": 4, "b": 1, "c": 1}

    def test_what_was_on_a_cluster_no_longer_selected_is_new(self) -> None:
        """Replicas of a cluster that is no longer selected are divided anew."""
        binding = WEB.dynamic().on(a=4, gone=2)
        assert assigned(with_room(a=0, b=20), binding) == {"a": 4, "b": 2}

    def test_fewer_in_proportion_to_what_each_has(self) -> None:
        """Scaling down takes from each cluster in proportion to what it has."""
        binding = WEB.dynamic().on(a=8, b=4)
        assert assigned(with_room(a=0, b=0, c=100), binding) == {"a": 4, "b": 2}

    def test_nothing_changes_without_need(self) -> None:
        """Targets stay as they are while the number of replicas stays the same."""
        binding = WEB.dynamic().on(a=5, b=1)
        assert assigned(with_room(a=0, b=100), binding) == {"a": 5, "b": 1}

    def test_rescheduling_starts_anew(self) -> None:
        """A reschedule divides all replicas by the room there is now."""
        binding = WEB.dynamic().on(a=5, b=1).rescheduled()
        assert assigned(with_room(a=5, b=9, c=10), binding) == {"a": 2, "b": 2, "c": 2}

    def test_dynamic_weight_wins_over_a_static_list(self) -> None:
        """When both are given, the dynamic weight is used and the static list is ignored."""
        both = {
            "replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Weighted",
            "weightPreference": {
                "dynamicWeight": "AvailableReplicas",
                "staticWeightList": [{"targetCluster": {"clusterNames": ["a"]}, "weight": 1}],
            },
        }
        binding = WEB.placement(replicaScheduling=both)
        assert assigned(with_room(a=10, b=20), binding) == {"a": 2, "b": 4}

    @pytest.mark.parametrize(
        ("binding", "step"),
        [
            (WEB.dynamic(), "failed to scale up"),
            (WEB.dynamic().rescheduled(), "failed to do fresh scale"),
            (WEB.aggregated(), "failed to scale up"),
        ],
    )
    def test_too_little_room(self, binding: BindingBuilder, step: str) -> None:
        """A binding whose replicas do not fit is unschedulable, in Karmada's words for the failed step."""
        with pytest.raises(PlacementError) as failure:
            assigned(with_room(a=3, b=2), binding)
        assert failure.value.reason == "Unschedulable"
        assert failure.value.message == (
            f"failed to assign replicas: {step}: Clusters available replicas 5 are not enough to schedule."
        )


class TestAggregated:
    def test_as_few_clusters_as_have_the_room(self) -> None:
        """Aggregated division uses the fewest clusters that have room for all replicas."""
        assert assigned(with_room(a=4, b=9, c=5), WEB.aggregated()) == {"b": 6}
        assert assigned(with_room(a=1, b=4, c=4), WEB.aggregated()) == {"b": 3, "c": 3}

    def test_those_in_use_come_first(self) -> None:
        """Aggregated division adds to a cluster in use before it opens another."""
        assert assigned(with_room(a=5, b=50), WEB.aggregated().on(a=1)) == {"a": 6}

    def test_fewer_on_the_largest(self) -> None:
        """Aggregated scaling down keeps the replicas on the clusters that have the most."""
        binding = WEB.aggregated().on(a=3, b=7, c=2)
        assert assigned(with_room(a=0, b=0, c=0), binding) == {"b": 6}

    def test_equals_are_kept_in_the_order_listed(self) -> None:
        """Of equal targets, scaling down keeps the one that the binding lists first."""
        binding = WEB.replicas(1).aggregated().on(b=1, a=1)
        assert assigned(with_room(a=9, b=0), binding) == {"b": 1}


class TestOverflow:
    BINDING = WEB.dynamic().term(
        "main", clusters_that("a", "b"), overflow=[clusters_that("c"), clusters_that("d")]
    )

    def test_a_tier_is_filled_before_the_next_is_used(self) -> None:
        """Replicas overflow to the next affinity only when the one before is full."""
        assert assigned(with_room(a=2, b=1, c=9, d=9), self.BINDING, term="main") == {"a": 2, "b": 1, "c": 3}
        assert assigned(with_room(a=9, b=9, c=9), self.BINDING, term="main") == {"a": 3, "b": 3}
        assert assigned(with_room(a=0, d=9), self.BINDING, term="main") == {"d": 6}

    def test_replicas_return_when_there_is_room_again(self) -> None:
        """Replicas that overflowed come back once the first affinity has room for them."""
        binding = self.BINDING.on(a=2, c=4)
        assert assigned(with_room(a=9, c=9), binding, term="main") == {"a": 6}

    def test_too_little_room_in_all_of_them(self) -> None:
        """Overflow affinities that together have too little room make the binding unschedulable."""
        with pytest.raises(PlacementError) as failure:
            assigned(with_room(a=1, c=1, d=1), self.BINDING, term="main")
        assert failure.value.reason == "Unschedulable"
        assert failure.value.message == (
            "failed to assign replicas: Clusters available replicas are not enough to schedule."
        )

    def test_without_overflow_affinities_there_are_no_tiers(self) -> None:
        """A term without overflow affinities fails in its own clusters alone."""
        binding = WEB.dynamic().term("main", clusters_that("a"))
        with pytest.raises(PlacementError, match="Clusters available replicas 3 are not enough"):
            assigned(with_room(a=3), binding, term="main")


class TestNoReplicas:
    def test_other_resources_go_to_every_selected_cluster(self) -> None:
        """A resource without replicas goes to every selected cluster."""
        config = make_binding("settings", kind="ConfigMap", api_version="v1").replicas(0)
        assert assigned(with_room(a=0, b=0), config.dynamic()) == {"a": 0, "b": 0}

    def test_several_components_are_not_divided(self) -> None:
        """A workload of several components goes whole to every cluster; a single one is divided."""
        assert assigned(with_room(a=9, b=9), WEB.components(job=1, task=2).dynamic()) == {"a": 0, "b": 0}
        assert assigned(with_room(a=9, b=9), WEB.components(job=6).dynamic()) == {"a": 3, "b": 3}

    def test_clusters_without_replicas_are_targets_if_wanted(self) -> None:
        """Clusters that get no replicas are targets only with empty propagation on."""
        clusters = with_room(a=9, b=0)
        assert assigned(clusters, WEB.dynamic()) == {"a": 6}
        assert assigned(clusters, WEB.dynamic(), options=PROPAGATE_EMPTY) == {"a": 6, "b": 0}


def test_nothing_selected() -> None:
    """With Karmada's options, an empty selection is an error of the scheduler."""
    with pytest.raises(PlacementError) as failure:
        assigned(with_room(a=1), WEB.spread("cluster", 1), options=COMPATIBLE)
    assert failure.value.reason == "SchedulerError"
    assert failure.value.message == "failed to assign replicas: no clusters available to schedule"


def test_what_the_api_server_would_have_defaulted() -> None:
    """A strategy left empty counts as Divided, except with Karmada's options."""
    binding = WEB.placement(replicaScheduling={"weightPreference": {}})
    assert assigned(with_room(a=1, b=1), binding) == {"a": 3, "b": 3}
    with pytest.raises(PlacementError, match="unsupported replica scheduling strategy"):
        assigned(with_room(a=1, b=1), binding, options=COMPATIBLE)


_DIVIDED: list[Callable[[BindingBuilder], BindingBuilder]] = [
    BindingBuilder.divided,
    BindingBuilder.dynamic,
    BindingBuilder.aggregated,
    lambda binding: binding.static_weights(m0=1, m1=3),
    lambda binding: binding.dynamic().rescheduled(),
]


@given(
    room=st.lists(st.integers(0, 8), min_size=1, max_size=6),
    present=st.dictionaries(st.sampled_from(["m0", "m1", "m2", "gone"]), st.integers(0, 5)),
    replicas=st.integers(1, 20),
    divided=st.sampled_from(_DIVIDED),
    options=st.sampled_from([BERTH, COMPATIBLE]),
)
def test_all_replicas_are_assigned_to_clusters_that_exist(
    room: list[int],
    present: dict[str, int],
    replicas: int,
    divided: Callable[[BindingBuilder], BindingBuilder],
    options: FleetOptions,
) -> None:
    """Every division gives out all replicas to known clusters, or there is no room."""
    clusters = [make_cluster(f"m{i}").capacity(pods=pods) for i, pods in enumerate(room)]
    binding = divided(WEB.replicas(replicas)).on(present)
    try:
        found = assigned(clusters, binding, options=options)
    except PlacementError:
        assert sum(room) < replicas
        return
    assert sum(found.values()) == replicas
    assert all(number > 0 for number in found.values())
    assert set(found) <= {f"m{i}" for i in range(len(room))}
