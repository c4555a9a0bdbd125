"""Topology spread: the pods of a group are kept even over domains."""

import pytest

from berth.kube.defaults import created, default_node
from tests.engine.rules.asking import cluster_of, judged, violated
from tests.support.builders import HOSTNAME, ZONE, PodBuilder, make_node, make_pod
from tests.support.engine import plan_of

NODES = tuple(make_node(f"n{zone}").labels({HOSTNAME: f"n{zone}", ZONE: zone}) for zone in "abc")
SKEW = ("node(s) didn't match pod topology spread constraints",)
NO_LABEL = ("node(s) didn't match pod topology spread constraints (missing required label)",)


def pods(**counts: int) -> list[PodBuilder]:
    """So many pods of the group on each node."""
    return [
        make_pod(f"{node}-{i}").labels(app="web").on(node)
        for node, count in counts.items()
        for i in range(count)
    ]


def web_pod() -> PodBuilder:
    return make_pod("p").labels(app="web")


@pytest.mark.parametrize(
    ("counts", "skew", "refused"),
    [
        pytest.param({}, 1, "", id="nobody yet"),
        pytest.param({"na": 1}, 1, "na", id="one ahead"),
        pytest.param({"na": 1}, 2, "", id="a skew of two"),
        pytest.param({"na": 2, "nb": 1}, 1, "na nb", id="the emptiest only"),
        pytest.param({"na": 2, "nb": 1}, 2, "na", id="the fullest not"),
        pytest.param({"na": 1, "nb": 1, "nc": 1}, 1, "", id="even"),
    ],
)
def test_no_domain_gets_more_than_the_skew_ahead(counts: dict[str, int], skew: int, refused: str) -> None:
    """With the pod, a domain may have `maxSkew` pods more than the emptiest."""
    found = judged(
        "PodTopologySpread", web_pod().spread(ZONE, max_skew=skew, app="web"), *NODES, *pods(**counts)
    )

    assert found.refused == dict.fromkeys(refused.split(), SKEW)


def test_a_node_without_the_label_is_refused() -> None:
    """A node without the label is refused, since it is in no domain."""
    found = judged("PodTopologySpread", web_pod().spread(ZONE, app="web"), *NODES, make_node("bare"))

    assert found.refused == {"bare": NO_LABEL}
    assert found.causes == {"bare": (f"the node has no label {ZONE}",)}


def test_a_node_that_gets_the_label_is_ranked_from_then_on() -> None:
    """A node is ranked from when it gets the label until it loses it, by one and the same plan."""
    cluster = cluster_of(*NODES, make_node("d"), *pods(na=2, nb=2, nc=2))
    pod = created(web_pod().spread(ZONE, when="ScheduleAnyway", app="web").build())
    labelled, bare = make_node("d").labels({ZONE: "d"}), make_node("d")
    found = []
    for node in (bare, labelled, bare):
        cluster.add_node(default_node(node.build()))
        plan = plan_of(cluster, pod)
        found.append(plan.totals(plan.blocked()).tolist()[-1])

    assert found[0] == found[2] < found[1]


def test_the_cause_has_the_figures() -> None:
    """The domain, its pods, the emptiest one and the skew there would be."""
    found = judged("PodTopologySpread", web_pod().spread(ZONE, app="web"), *NODES, *pods(na=2, nb=1))

    assert found.causes["na"] == (
        f"{ZONE}=a has 2 matching pod(s), the emptiest domain 0: skew would be 3, maxSkew is 1",
    )


def test_too_few_domains_count_as_an_empty_one() -> None:
    """Until there are `minDomains`, the skew is measured from nothing."""
    pod = web_pod().spread(ZONE, app="web", min_domains=4)
    found = judged("PodTopologySpread", pod, *NODES, *pods(na=1, nb=1, nc=1))

    assert found.refused.keys() == {"na", "nb", "nc"}


@pytest.mark.parametrize(
    "stranger",
    [
        pytest.param(make_pod("x").labels(app="db").on("na"), id="another label"),
        pytest.param(make_pod("x").labels(app="web").namespace("other").on("na"), id="another namespace"),
        pytest.param(make_pod("x").labels(app="web").on("na").terminating(), id="terminating"),
    ],
)
def test_who_does_not_count(stranger: PodBuilder) -> None:
    """Pods that are not of the group, or on their way out."""
    assert judged("PodTopologySpread", web_pod().spread(ZONE, app="web"), *NODES, stranger).refused == {}


def test_a_soft_constraint_prefers_emptier_domains() -> None:
    """A soft constraint refuses no node, and prefers those in emptier domains."""
    pod = web_pod().spread(ZONE, app="web", when="ScheduleAnyway")
    found = judged("PodTopologySpread", pod, *NODES, *pods(na=2, nb=1))

    assert found.refused == {}
    assert found.scores["nc"] > found.scores["nb"] > found.scores["na"]


def test_a_running_pod_in_a_domain_that_is_too_full_breaks_it() -> None:
    """Judged as if it were placed where it is; nobody is evicted for it."""
    pod = web_pod().spread(ZONE, app="web").on("na")
    (found,) = violated("PodTopologySpread", pod, *NODES, *pods(na=1))

    assert (found.reason, found.path, found.execution) == (
        SKEW[0],
        "spec.topologySpreadConstraints[0]",
        False,
    )
    assert violated("PodTopologySpread", pod, *NODES) == []
