"""What each rule about clusters refuses, prefers and finds broken."""

import pytest

from berth.fleet.rules.cluster_rules import (
    ApiEnablementRule,
    ClusterAffinityRule,
    ClusterEvictionRule,
    ClusterLocalityRule,
    SpreadConstraintRule,
    TaintTolerationRule,
)
from tests.fleet.rules.asking import broken, refused, scores
from tests.support.fleet.builders import BindingBuilder, clusters_that, make_binding, make_cluster

M1, M2 = make_cluster("m1").region("eu").labels(tier="gold"), make_cluster("m2")
WEB = make_binding("web")
TAINTED = make_cluster("m2").taint("gpu", "yes")
NO_EXECUTE = make_cluster("m2").taint("broken", effect="NoExecute")


@pytest.mark.parametrize(
    ("binding", "names"),
    [
        (WEB, set()),
        (WEB.affinity("m1"), {"m2"}),
        (WEB.affinity(to=clusters_that(labels={"tier": "gold"})), {"m2"}),
        (WEB.affinity(to=clusters_that(exclude=["m1"])), {"m1"}),
        (WEB.affinity("m1", "m2"), set()),
    ],
    ids=["none", "a name", "a label", "an exclusion", "all names"],
)
def test_cluster_affinity(binding: BindingBuilder, names: set[str]) -> None:
    """Only the clusters that a placement asks for are feasible."""
    reason = "cluster(s) did not match the placement cluster affinity constraint"
    assert refused(ClusterAffinityRule(), binding, M1, M2) == dict.fromkeys(names, reason)


def test_cluster_affinity_is_broken_where_it_no_longer_matches() -> None:
    """A placed binding breaks it on each cluster that is not asked for."""
    placed = WEB.affinity("m1").on(m1=1, m2=1)
    said = ["m2 does not match the placement's cluster affinity"]
    assert broken(ClusterAffinityRule(), placed, M1, M2) == said


@pytest.mark.parametrize(
    ("binding", "names"),
    [(WEB, {"m2"}), (WEB.tolerates("gpu"), set()), (WEB.tolerates("other"), {"m2"}), (WEB.on(m2=1), set())],
    ids=["no toleration", "tolerated", "another toleration", "there already"],
)
def test_taint_toleration(binding: BindingBuilder, names: set[str]) -> None:
    """A taint keeps off those that do not tolerate it, unless they are there already."""
    reason = "cluster(s) had untolerated taint {gpu=yes:NoSchedule}"
    assert refused(TaintTolerationRule(), binding, M1, TAINTED) == dict.fromkeys(names, reason)


def test_only_a_taint_that_evicts_is_broken_by_what_is_there() -> None:
    """NoSchedule is about newcomers; NoExecute is about all."""
    placed = WEB.on(m2=1)
    assert broken(TaintTolerationRule(), placed, TAINTED) == []
    assert broken(TaintTolerationRule(), placed, NO_EXECUTE) == [
        "m2 has the untolerated taint broken:NoExecute"
    ]


def test_api_enablement() -> None:
    """A cluster must serve the kind; where the binding is already it is only said to be broken."""
    bare, rule = make_cluster("m2").without_apis(), ApiEnablementRule()
    assert refused(rule, WEB, M1, bare) == {"m2": "cluster(s) did not have the API resource"}
    assert refused(rule, WEB.on(m2=1), M1, bare) == {}
    assert broken(rule, WEB.on(m2=1), M1, bare) == ["m2 does not serve Deployment of apps/v1"]


def test_cluster_eviction() -> None:
    """A binding does not return to a cluster that it is being evicted from."""
    rule, leaving = ClusterEvictionRule(), WEB.evicting("m2")
    assert refused(rule, WEB, M1, M2) == {}
    assert refused(rule, leaving, M1, M2) == {"m2": "cluster(s) is in the process of eviction"}
    assert broken(rule, leaving.on(m1=1), M1, M2) == []
    assert broken(rule, leaving.on(m2=1), M1, M2) == [
        "m2 is a target while the binding is being evicted from it"
    ]


@pytest.mark.parametrize(
    ("field", "reasons"),
    [
        ("cluster", {}),
        ("region", {"m2": "cluster(s) did not have region property"}),
        ("zone", dict.fromkeys(("m1", "m2"), "cluster(s) did not have zones property")),
        ("provider", dict.fromkeys(("m1", "m2"), "cluster(s) did not have provider property")),
    ],
)
def test_spread_constraint(field: str, reasons: dict[str, str]) -> None:
    """A cluster without the property cannot be spread by it."""
    assert refused(SpreadConstraintRule(), WEB.spread(field, 1, 2), M1, M2) == reasons


def test_spread_constraint_is_broken_on_a_cluster_that_lost_the_property() -> None:
    """A placed binding is told which cluster lacks what."""
    placed = WEB.spread("region", 1, 2).on(m1=1, m2=1)
    assert broken(SpreadConstraintRule(), placed, M1, M2) == ["m2: cluster(s) did not have region property"]


def test_cluster_locality() -> None:
    """The clusters that a binding has are the best ones for it."""
    assert scores(ClusterLocalityRule(), WEB.on(m2=1), M1, M2) == {"m1": 0, "m2": 100}
