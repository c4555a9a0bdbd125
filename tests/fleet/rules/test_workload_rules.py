"""Which clusters workloads refuse, prefer and break for the sake of one another."""

import pytest

from berth.fleet.rules.workload_rules import WorkloadAffinityRule, WorkloadAntiAffinityRule
from berth.fleet.state.options import COMPATIBLE, FleetOptions
from tests.fleet.rules.asking import broken, refused, scores
from tests.support.builders import PREFERRED
from tests.support.fleet.builders import BindingBuilder, make_binding, make_cluster, peers

NEAR, APART = WorkloadAffinityRule(), WorkloadAntiAffinityRule()
CLUSTERS = (
    make_cluster("m1").region("eu"),
    make_cluster("m2").region("eu"),
    make_cluster("m3").region("us"),
)
GROUP = "example.com/group=a"
WEB, DB = make_binding("web").labels(app="web"), make_binding("db").labels(app="db")
WITH_DB, WITHOUT_DB = WEB.near(peers({"app": "db"})), WEB.apart_from(peers({"app": "db"}))
TOGETHER = "ResourceBinding with the same affinity group does not target this cluster"


# --- together -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("binding", "names"),
    [
        (WITH_DB, {"m2", "m3"}),
        (WEB.near(peers({"app": "db"}, topology="region")), {"m3"}),
        (WITH_DB.on(m3=1), {"m2"}),
        (WEB.near(peers({"app": "nobody"})), {"m1", "m2", "m3"}),
        (WEB, set()),
    ],
    ids=["cluster", "region", "there already", "no such workload", "no rule"],
)
def test_a_workload_goes_where_its_peer_is(binding: BindingBuilder, names: set[str]) -> None:
    """A term wants a selected workload on the cluster, or in its region; what is placed may stay."""
    assert refused(NEAR, binding, *CLUSTERS, DB.on(m1=1)).keys() == names


def test_a_workload_without_its_peer_says_whom_it_misses() -> None:
    """The reason shows the selector and the place."""
    found = refused(NEAR, WEB.near(peers({"app": "db"}, topology="region")), *CLUSTERS, DB.on(m1=1))
    assert found == {"m3": "no workload that matches app=db is on the cluster's region"}


def test_the_first_of_a_group_may_go_anywhere() -> None:
    """There is nobody to go to as long as no member of the group is placed."""
    first, other = WEB.group(GROUP), DB.group(GROUP)
    assert refused(NEAR, first, *CLUSTERS, other) == {}
    assert refused(NEAR, first, *CLUSTERS, other.on(m1=1)) == dict.fromkeys(
        ("m2", "m3"), f"{TOGETHER} (default/db-deployment)"
    )


@pytest.mark.parametrize(
    ("options", "names"), [(FleetOptions(), set()), (COMPATIBLE, {"m2", "m3"})], ids=["berth", "karmada"]
)
def test_a_group_moves_on_from_a_cluster_that_failed(options: FleetOptions, names: set[str]) -> None:
    """A member whose only cluster is failing is waited for by Karmada alone."""
    failing = make_cluster("m1").taint("broken", effect="NoExecute")
    member = DB.group(GROUP).on(m1=1)
    found = refused(NEAR, WEB.group(GROUP), failing, *CLUSTERS[1:], member, options=options)
    assert found.keys() == names


def test_affinity_is_broken_where_the_peer_is_not() -> None:
    """A placed binding is told which cluster its peer is not on."""
    said = ["m2: no workload that matches app=db is on the cluster"]
    assert broken(NEAR, WITH_DB.on(m1=1, m2=1), *CLUSTERS, DB.on(m1=1)) == said


# --- apart ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("binding", "names"),
    [
        (WITHOUT_DB, {"m1"}),
        (WEB.apart_from(peers({"app": "db"}, topology="region")), {"m1", "m2"}),
        (WITHOUT_DB.on(m1=1), set()),
        (WEB, set()),
    ],
    ids=["cluster", "region", "there already", "no rule"],
)
def test_a_workload_keeps_away_from_its_peer(binding: BindingBuilder, names: set[str]) -> None:
    """A term refuses the cluster of a selected workload, or its region; what is placed may stay."""
    assert refused(APART, binding, *CLUSTERS, DB.on(m1=1)).keys() == names


def test_anti_affinity_holds_both_ways() -> None:
    """A newcomer keeps away from those whose terms select it, and is told whose they are."""
    assert refused(APART, DB, *CLUSTERS, WITHOUT_DB.on(m2=1)) == {
        "m2": "a workload on the cluster has anti-affinity to this one (default/web-deployment)"
    }


def test_members_of_an_anti_affinity_group_never_share_a_cluster() -> None:
    """One member a cluster; one that is still being evicted is there, too."""
    text = "cluster already has workload with the same anti-affinity group (default/db-deployment)"
    member = DB.anti_group(GROUP).on(m1=1).evicting("m2")
    assert refused(APART, WEB.anti_group(GROUP), *CLUSTERS, member) == dict.fromkeys(("m1", "m2"), text)


def test_anti_affinity_is_broken_where_both_are() -> None:
    """Both bindings that share a cluster are told, each in its own words."""
    web, db = WITHOUT_DB.on(m1=1), DB.on(m1=1, m3=1)
    assert broken(APART, web, *CLUSTERS, db) == [
        "m1: a workload that matches app=db is on the cluster (default/db-deployment)"
    ]
    assert broken(APART, db, *CLUSTERS, web) == [
        "m1: a workload on the cluster has anti-affinity to this one (default/web-deployment)"
    ]


# --- preferences ----------------------------------------------------------------------------------


def test_preferences_count_for_less_than_staying() -> None:
    """A preferred cluster gets 49 of the 100 points that the present one gets."""
    weighted = {"weight": 100, "workloadAffinityTerm": {"labelSelector": {"matchLabels": {"app": "db"}}}}
    near = WEB.placement(workloadAffinity={PREFERRED: [weighted]})
    apart = WEB.placement(workloadAntiAffinity={PREFERRED: [weighted]})
    assert scores(NEAR, near, *CLUSTERS, DB.on(m1=1)) == {"m1": 49, "m2": 0, "m3": 0}
    assert scores(APART, apart, *CLUSTERS, DB.on(m1=1)) == {"m1": 0, "m2": 49, "m3": 49}
    assert scores(NEAR, WEB, *CLUSTERS) == {}
