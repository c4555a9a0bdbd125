"""Nodes are scored by how full the storage would be that a pod's new volumes are made in."""

from __future__ import annotations

import pytest

from berth.engine.state.cluster import Cluster
from berth.engine.state.options import Options
from berth.kube.scheduler_configuration.model import PluginArguments
from berth.kube.versions import VERSIONS
from tests.support.builders import NodeBuilder, PodBuilder, make_node, make_pod
from tests.support.storage import (
    Stored,
    cluster_with,
    make_capacity,
    make_claim,
    make_class,
    make_csi_driver,
    make_volume,
    store,
    verdict,
)

DRIVER = make_csi_driver("disk", tells_capacity=True)
FAST, SLOW = make_class("fast", "disk.csi"), make_class("slow", "disk.csi")
A, B, C = (make_node(name).labels(zone=name) for name in "abc")
POD = make_pod("p").mounts("data")
DATA = make_claim("data", "fast", size="10Gi")


def world(*things: NodeBuilder | Stored, options: Options | None = None) -> Cluster:
    return cluster_with(A, B, C, DRIVER, FAST, SLOW, DATA, *things, options=options)


def left(amounts: dict[str, str], storage_class: str = "fast") -> list[Stored]:
    return [
        make_capacity(f"{storage_class}-{zone}", storage_class, amount, zone=zone)
        for zone, amount in amounts.items()
    ]


def scores(cluster: Cluster, pod: PodBuilder = POD) -> dict[str, int]:
    found = verdict(cluster, pod)
    names = [cluster.nodes.names[slot] or "" for slot in found.feasible]
    return dict(zip(names, found.scores["VolumeBinding"].raw.tolist(), strict=True))


def test_the_emptiest_storage_is_the_best() -> None:
    """What the claim asks for, as a share of what is left: the less the better."""
    cluster = world(*left({"a": "10Gi", "b": "20Gi", "c": "100Gi"}))
    assert scores(cluster) == {"a": 0, "b": 50, "c": 90}
    found = verdict(cluster, POD).scores["VolumeBinding"]
    assert (found.normalized.tolist(), found.weight) == ([0, 50, 90], 1)


def test_it_counts_since_1_37() -> None:
    """The version before does not score storage."""
    options = Options(version=VERSIONS["1.36"])
    cluster = world(*left({"a": "10Gi", "b": "20Gi", "c": "100Gi"}), options=options)
    assert "VolumeBinding" not in verdict(cluster, POD).scores


def test_a_profile_may_say_otherwise() -> None:
    """With the shape turned around, the storage that would be fullest is the best."""
    options = Options(args=PluginArguments(storage_shape=((0, 0), (50, 10), (100, 10))))
    cluster = world(*left({"a": "10Gi", "b": "25Gi", "c": "100Gi"}), options=options)
    assert scores(cluster) == {"a": 100, "b": 80, "c": 20}


def test_a_volume_that_is_there_is_scored_by_itself() -> None:
    """The smallest that is taken, not what is left for new ones."""
    cluster = world(
        make_volume("big", "fast", size="40Gi", on={"zone": "a"}),
        make_volume("small", "fast", size="20Gi", on={"zone": "a"}),
        make_volume("other", "fast", size="40Gi", on={"zone": "b"}),
        *left({"a": "1Ti", "b": "1Ti", "c": "100Gi"}),
    )
    assert scores(cluster) == {"a": 50, "b": 75, "c": 90}


def test_storage_of_which_nothing_is_known_scores_nothing() -> None:
    """A driver that does not tell gives no node an advantage; a bound claim none either."""
    cluster = cluster_with(A, B, FAST, DATA)
    assert scores(cluster) == {"a": 0, "b": 0}
    bound = cluster_with(A, make_claim("data", "fast", volume="pv"), make_volume("pv", "fast", claim="data"))
    assert "VolumeBinding" not in verdict(bound, POD).scores


def test_several_claims_of_a_class_add_up_and_classes_count_alike() -> None:
    """The claims share what is left, and the mean over the classes is rounded."""
    two = POD.mounts("more")
    cluster = world(make_claim("more", "fast", size="30Gi"), *left({"a": "50Gi", "b": "80Gi"}))
    assert scores(cluster, two) == {"a": 20, "b": 50}
    mixed = world(
        make_claim("more", "slow", size="30Gi"),
        *left({"a": "100Gi", "b": "80Gi"}),
        *left({"a": "60Gi", "b": "40Gi"}, "slow"),
    )
    assert scores(mixed, two) == {"a": (90 + 50) // 2, "b": round((88 + 25) / 2 + 0.25)}


def test_if_some_claim_finds_a_volume_only_such_count() -> None:
    """What has to be made besides is left out, as upstream does."""
    two = POD.mounts("more")
    cluster = world(
        make_claim("more", "slow", size="30Gi"),
        make_volume("pv", "fast", size="20Gi", on={"zone": "a"}),
        *left({"a": "1Ti", "b": "100Gi"}),
        *left({"a": "31Gi", "b": "100Gi"}, "slow"),
    )
    assert scores(cluster, two) == {"a": 50, "b": 80}


def test_a_claim_whose_node_was_selected_is_scored_there() -> None:
    """Only that node will do, so its score makes no difference, but it is upstream's."""
    cluster = world(make_claim("data", "fast", size="10Gi", node="b"), *left({"a": "1Ti", "b": "40Gi"}))
    assert scores(cluster) == {"b": 75}


def test_more_than_everything_is_full() -> None:
    """Claims that each have room, but not together, leave a node that is full and no error."""
    two = POD.mounts("more")
    cluster = world(make_claim("more", "fast", size="30Gi"), *left({"a": "35Gi"}))
    assert scores(cluster, two) == {"a": 0}


@pytest.mark.parametrize("amount", ["0", "12Gi"])
def test_what_is_left_counts_even_where_the_largest_volume_decides(amount: str) -> None:
    """A pool that takes the volume by its largest size is scored by what is left, be it nothing."""
    cluster = world(make_capacity("m", "fast", amount, largest="1Ti", zone="a"))
    assert scores(cluster) == {"a": 0 if amount == "0" else 17}


def test_the_score_follows_what_is_left() -> None:
    """A change of the storage changes the choice."""
    cluster = world(*left({"a": "100Gi", "b": "20Gi"}))
    assert scores(cluster) == {"a": 90, "b": 50}
    store(cluster, make_capacity("fast-a", "fast", "10Gi", zone="a"))
    assert scores(cluster) == {"a": 0, "b": 50}
