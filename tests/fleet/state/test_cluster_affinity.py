"""Which clusters a cluster affinity matches."""

import pytest

from berth.fleet.state import cluster_affinity
from berth.fleet.state.cluster_affinity import matching
from berth.fleet.state.clusters import Clusters
from berth.kube.karmada import ClusterAffinity
from berth.kube.objects import LabelSelector
from berth.kube.selectors import label_requirement
from tests.support.fleet.builders import clusters_that, make_cluster, where

EU1 = make_cluster("eu1").region("eu").provider("acme").zones("a", "b").labels(tier="gold")
EU2 = make_cluster("eu2").region("eu").provider("bolt").zones("c").labels(tier="iron")
US1 = make_cluster("us1").region("us").labels(tier="gold", gpu="yes")


def matched(affinity: ClusterAffinity) -> list[str]:
    clusters = Clusters([EU1.build(), EU2.build(), US1.build()])
    found = matching(clusters, affinity)
    assert len(found) == clusters.size
    return [name for name, is_matched in zip(clusters.names, found.tolist(), strict=False) if is_matched]


def labelled(*expressions: tuple[str, ...]) -> ClusterAffinity:
    requirements = [label_requirement(*expression) for expression in expressions]
    return clusters_that(labels=LabelSelector(match_expressions=requirements))


@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        (clusters_that(), ["eu1", "eu2", "us1"]),
        (clusters_that("eu1", "gone"), ["eu1"]),
        (clusters_that(exclude=["eu1"]), ["eu2", "us1"]),
        (clusters_that("eu1", exclude=["eu1"]), []),
        (clusters_that(labels={"tier": "gold"}), ["eu1", "us1"]),
        (clusters_that(labels={}), ["eu1", "eu2", "us1"]),
        (clusters_that("us1", "eu2", labels={"tier": "gold"}), ["us1"]),
        (labelled(("tier", "NotIn", "gold")), ["eu2"]),
        (labelled(("gpu", "Exists")), ["us1"]),
        (labelled(("gpu", "DoesNotExist"), ("tier", "In", "gold", "iron")), ["eu1", "eu2"]),
        (clusters_that(fields=[where("region", "In", "eu")]), ["eu1", "eu2"]),
        (clusters_that(fields=[where("provider", "NotIn", "acme")]), ["eu2", "us1"]),
        (clusters_that(fields=[where("provider", "Exists")]), ["eu1", "eu2"]),
        (clusters_that(fields=[where("provider", "DoesNotExist")]), ["us1"]),
        (clusters_that(fields=[where("region", "In", "eu"), where("provider", "In", "bolt")]), ["eu2"]),
        (clusters_that(fields=[where("zone", "In", "b", "c")]), ["eu1", "eu2"]),
        (clusters_that(fields=[where("zone", "NotIn", "b")]), ["eu2", "us1"]),
        (clusters_that(fields=[where("zone", "Exists")]), ["eu1", "eu2"]),
        (clusters_that(fields=[where("zone", "DoesNotExist")]), ["us1"]),
        (clusters_that(labels={"tier": "gold"}, fields=[where("zone", "In", "a")]), ["eu1"]),
    ],
)
def test_all_parts_must_match(affinity: ClusterAffinity, expected: list[str]) -> None:
    """A cluster matches an affinity when names, exclusions, labels and fields all match."""
    assert matched(affinity) == expected


@pytest.mark.parametrize(
    "affinity",
    [
        labelled(("tier", "In")),
        labelled(("tier", "NotIn")),
        labelled(("tier", "Exists", "gold")),
        labelled(("tier", "Near", "gold")),
        labelled(("tier", "Gt", "1")),
        labelled(("not a key", "DoesNotExist")),
        clusters_that(labels={"tier": "not a value!"}),
        clusters_that(fields=[where("zone", "Near", "a")]),
        clusters_that(fields=[where("region", "Near", "eu")]),
        clusters_that(fields=[where("region", "NotIn")]),
    ],
)
def test_what_cannot_be_parsed_matches_nothing(affinity: ClusterAffinity) -> None:
    """An affinity that cannot be parsed matches no cluster."""
    assert matched(affinity) == []


def test_names_without_a_cluster_match_nothing() -> None:
    """A name known only from bindings is matched by no affinity."""
    clusters = Clusters([EU1.build()])
    clusters.slot("gone")
    assert matching(clusters, clusters_that()).tolist()[:2] == [True, False]


def test_changes_are_noticed() -> None:
    """A kept affinity mask follows clusters that change, leave or join."""
    clusters = Clusters([EU1.build(), EU2.build()])
    gold = clusters_that(labels={"tier": "gold"})
    assert matching(clusters, gold)[:2].tolist() == [True, False]
    clusters.set(EU2.labels(tier="gold").build())
    clusters.remove("eu1")
    assert matching(clusters, gold)[:2].tolist() == [False, True]
    for i in range(40):
        clusters.set(make_cluster(f"m{i}").labels(tier="gold" if i % 2 else "iron").build())
    assert matching(clusters, gold).sum() == 1 + 20


def test_the_mask_is_shared_and_cannot_be_written() -> None:
    """Equal affinities share one mask, which is read-only."""
    clusters = Clusters([EU1.build()])
    mask = matching(clusters, clusters_that("eu1"))
    assert matching(clusters, clusters_that("eu1")) is mask
    with pytest.raises(ValueError, match="read-only"):
        mask[0] = False


def test_affinities_not_asked_for_lately_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the masks asked for lately are kept; others are computed again."""
    monkeypatch.setattr(cluster_affinity, "_KEPT", 2)
    clusters = Clusters([EU1.build()])
    first = matching(clusters, clusters_that("eu1"))
    for name in ("b", "c", "d"):
        matching(clusters, clusters_that(name))
    again = matching(clusters, clusters_that("eu1"))
    assert again is not first
    assert again.tolist() == first.tolist()
