"""How many replicas a cluster has room for, from what it reports."""

import numpy as np
import pytest

from berth.fleet.selection.estimation import UNLIMITED, estimate
from berth.fleet.state.clusters import Clusters
from tests.support.fleet.builders import BindingBuilder, ClusterBuilder, make_binding, make_cluster

WEB = make_binding("web").replicas(5)


def room(cluster: ClusterBuilder, binding: BindingBuilder) -> int:
    clusters = Clusters([cluster.build()])
    return int(estimate(clusters, binding.build())[0])


def test_the_scarcest_resource_decides() -> None:
    """The room of a cluster is that of its scarcest requested resource."""
    m1 = make_cluster("m1").capacity(cpu=8, memory="16Gi", pods=100)
    assert room(m1, WEB.request(cpu=1, memory="1Gi")) == 8
    assert room(m1, WEB.request(cpu="100m", memory="4Gi")) == 4
    assert room(m1, WEB.request(cpu="10m", memory="1Mi")) == 100


def test_what_is_allocated_or_being_allocated_is_gone() -> None:
    """Allocated and allocating amounts are taken off the room."""
    m1 = make_cluster("m1").capacity(cpu=8, pods=10).allocated(cpu="1500m", pods=2).allocating(cpu=2, pods=1)
    assert room(m1, WEB.request(cpu="500m")) == 7  # pods
    assert room(m1, WEB.request(cpu=1)) == 4


@pytest.mark.parametrize(
    "cluster",
    [
        make_cluster("m1").without_report(),
        make_cluster("m1").only(cpu=8),  # no pods
        make_cluster("m1").capacity(memory="plenty"),
        make_cluster("m1").capacity(pods=5).allocated(pods=7),
        make_cluster("m1").capacity(cpu=1).allocated(cpu=2),
    ],
)
def test_nothing_fits_where_nothing_is_left(cluster: ClusterBuilder) -> None:
    """A cluster without a usable report, or overcommitted, has no room."""
    assert room(cluster, WEB.request(cpu="100m")) == 0


def test_a_resource_that_the_cluster_lacks_does_not_fit() -> None:
    """A request for a resource the cluster does not report has no room."""
    assert room(make_cluster("m1"), WEB.request({"nvidia.com/gpu": 1})) == 0


def test_a_request_of_nothing_is_no_request() -> None:
    """A request of zero, or none at all, is limited by pods only."""
    m1 = make_cluster("m1").capacity(pods=7)
    assert room(m1, WEB.request({"nvidia.com/gpu": 0})) == 7
    assert room(m1, WEB.request()) == 7
    assert room(m1, WEB) == 7


def test_without_replicas_there_is_no_limit() -> None:
    """Zero replicas fit anywhere; several components are limited by pods."""
    assert room(make_cluster("m1").without_report(), WEB.replicas(0)) == UNLIMITED
    assert room(make_cluster("m1").capacity(pods=3), WEB.replicas(0).components(a=1, b=1)) == 3


def test_room_without_end_is_room_for_all_replicas() -> None:
    """Room beyond what 32 bits hold counts as room for all replicas."""
    m1 = make_cluster("m1").capacity(pods="1000000000000")
    assert room(m1, WEB) == 5


class TestResourceModels:
    """Replicas are counted node by node, with each node as small as its grade allows."""

    def test_each_node_is_filled_by_itself(self) -> None:
        """With node models the room is counted node by node, not over the sum."""
        m1 = make_cluster("m1").nodes(3, cpu=2).nodes(1, cpu=8)
        assert room(m1, WEB.request(cpu="1500m")) == 3 * 1 + 5

    def test_a_node_takes_110_pods(self) -> None:
        """With node models no node takes more than 110 pods."""
        m1 = make_cluster("m1").capacity(pods=1000).nodes(2, cpu=64)
        assert room(m1, WEB.request(cpu="10m")) == 220

    def test_the_pods_of_the_cluster_still_limit(self) -> None:
        """Node models give no more room than the cluster has pods."""
        m1 = make_cluster("m1").capacity(pods=5).nodes(2, cpu=64)
        assert room(m1, WEB.request(cpu="10m")) == 5

    def test_a_resource_the_models_lack_does_not_fit(self) -> None:
        """A resource that the node models do not mention has no room."""
        m1 = make_cluster("m1").capacity({"nvidia.com/gpu": 8}).nodes(2, cpu=64)
        assert room(m1, WEB.request({"nvidia.com/gpu": 1})) == 0

    def test_no_nodes_no_room(self) -> None:
        """A node model with no nodes has no room."""
        assert room(make_cluster("m1").nodes(0, cpu=64), WEB.request(cpu=1)) == 0

    def test_a_negative_count_is_not_believed(self) -> None:
        """Node models with a negative count are ignored in favour of the summary."""
        assert room(make_cluster("m1").capacity(cpu=3).nodes(-1, cpu=64), WEB.request(cpu=1)) == 3

    def test_they_do_not_matter_without_requirements(self) -> None:
        """Without requests the node models are not looked at."""
        assert room(make_cluster("m1").capacity(pods=9).nodes(0, cpu=64), WEB) == 9


def test_changes_are_noticed() -> None:
    """Estimates follow clusters that change, get node models or leave."""
    small = make_cluster("m1").capacity(cpu=2)
    clusters = Clusters([small.build(), *(make_cluster(f"n{i}").build() for i in range(3))])
    binding = WEB.request(cpu=1).build()

    def now() -> list[int]:
        found: list[int] = estimate(clusters, binding)[: len(clusters.names)].tolist()
        return found

    assert now() == [2, 1000, 1000, 1000]
    clusters.set(small.capacity(cpu=4).build())
    assert now()[0] == 4
    clusters.set(small.nodes(1, cpu=3).nodes(2, cpu=1).build())
    assert now()[0] == 5
    clusters.set(small.build())
    clusters.remove("n0")
    assert now() == [2, 0, 1000, 1000]


def test_many_clusters_agree_with_each_by_itself() -> None:
    """Estimating many clusters at once equals estimating each alone."""
    builders = [
        make_cluster(f"m{i}").capacity(cpu=i, pods=50 + i)
        if i % 3
        else make_cluster(f"m{i}").nodes(i, cpu=4).nodes(i % 5, cpu=2, memory="2Gi")
        for i in range(40)
    ]
    clusters = Clusters()
    binding = WEB.request(cpu="700m", memory="1Gi")
    for builder in builders:  # one by one, so that columns grow in between
        clusters.set(builder.build())
        estimate(clusters, binding.build())
    found = estimate(clusters, binding.build())
    assert np.array_equal(found[:40], [room(builder, binding) for builder in builders])
