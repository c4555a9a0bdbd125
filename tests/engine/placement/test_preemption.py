"""Who has to go, told by examples; `test_preemption_properties` compares with the reference."""

from collections.abc import Mapping

import pytest

from berth.engine.placement.preemption import Preemption, preempt
from berth.kube.defaults import created
from berth.kube.disruption import Budget
from berth.kube.selectors import EVERYTHING, selector_from_labels
from berth.kube.well_known import HOSTNAME, ZONE
from tests.support.builders import NodeBuilder, PodBuilder, make_node, make_pod
from tests.support.cluster import Cluster
from tests.support.engine import engine_of

Starts = Mapping[str, float]


def node(name: str, cpu: str = "4", zone: str = "a") -> NodeBuilder:
    return make_node(name).labels({HOSTNAME: name, ZONE: zone}).capacity(cpu=cpu)


def runs(name: str, on: str, priority: int = 0, cpu: str = "2") -> PodBuilder:
    return make_pod(name).labels(app=name).priority(priority).requests(cpu=cpu).on(on)


def urgent(cpu: str = "2") -> PodBuilder:
    return make_pod("urgent").labels(app="urgent").priority(100).requests(cpu=cpu)


def decide(
    pod: PodBuilder,
    nodes: list[NodeBuilder],
    pods: list[PodBuilder],
    *,
    starts: Starts | None = None,
    budgets: list[Budget] | None = None,
    **more: object,
) -> Preemption:
    """What happens to the pod; running pods started at 0 unless said otherwise."""
    engine = engine_of(
        Cluster(nodes=tuple(n.build() for n in nodes), pods=tuple(running.build() for running in pods))
    )
    return preempt(
        engine,
        engine.class_of(created(pod.build())),
        budgets=budgets or [],
        started=lambda key: (starts or {}).get(key.removeprefix("default/"), 0.0),
        **more,  # type: ignore[arg-type]
    )


def victims(decision: Preemption) -> list[str]:
    return [key.removeprefix("default/") for key in decision.victims]


# --- whether at all -------------------------------------------------------------------


def test_a_pod_of_lower_priority_makes_room() -> None:
    """The decision names the node and the pod to evict."""
    found = decide(urgent(), [node("n1", "2")], [runs("p", "n1")])

    assert found == Preemption("n1", ("default/p",))


@pytest.mark.parametrize("priority", [100, 101])
def test_pods_of_the_same_or_a_higher_priority_stay(priority: int) -> None:
    """Only lower priorities give way."""
    found = decide(urgent(), [node("n1", "2")], [runs("p", "n1", priority)])

    assert found.node is None
    assert found.message == (
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_a_missing_priority_is_zero() -> None:
    """In the pod that wants to run and in those that do already."""
    idle = make_pod("p").requests(cpu="2").on("n1")

    assert victims(decide(urgent(), [node("n1", "2")], [idle])) == ["p"]
    assert decide(make_pod("q").requests(cpu="2"), [node("n1", "2")], [idle]).node is None


def test_nodes_that_no_eviction_can_help_are_counted_apart() -> None:
    """One is too small, one has a taint, one holds only important pods, one is still too full without p."""
    nodes = [
        node("small", "1"),
        node("tainted").taint("dedicated"),
        node("taken", "2"),
        node("full", "3"),
    ]
    pods = [runs("vip", "taken", 200), runs("big", "full", 200), runs("p", "full", cpu="1")]
    found = decide(urgent(), nodes, pods)

    assert found.message == (
        "preemption: 0/4 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming "
        "pod, 2 Preemption is not helpful for scheduling."
    )


def test_the_first_rule_that_refuses_a_node_decides() -> None:
    """The affinity is beyond help, but upstream does not get there: first the node is full."""
    pod = urgent().affinity_to(app="friend", topology=HOSTNAME)
    found = decide(pod, [node("full", "2"), node("empty")], [runs("p", "full")])

    assert found.message == (
        "preemption: 0/2 nodes are available: 1 Preemption is not helpful for scheduling, "
        "1 node(s) didn't match pod affinity rules."
    )


def test_a_pod_that_is_never_to_preempt_does_not() -> None:
    """Its class differs from that of pods that may."""
    found = decide(urgent().never_preempts(), [node("n1", "2")], [runs("p", "n1")])
    engine = engine_of(Cluster())

    assert found.message == "preemption: not eligible due to preemptionPolicy=Never."
    assert engine.class_of(urgent().build()) is not engine.class_of(urgent().never_preempts().build())


# --- while victims are leaving -------------------------------------------------------------


def test_nothing_more_is_evicted_while_a_victim_is_leaving() -> None:
    """Nothing more is evicted while a victim is leaving the nominated node, which will be free soon."""
    pods = [runs("p", "n1").terminating(), runs("q", "n2")]
    found = decide(urgent(), [node("n1", "2"), node("n2", "2")], pods, nominated_node="n1")

    assert found.node is None
    assert found.message == "preemption: not eligible due to a terminating pod on the nominated node."


def test_a_pod_that_leaves_for_other_reasons_holds_nobody_up() -> None:
    """If it is known who was preempted, only these are waited for."""
    pods = [runs("p", "n1").terminating()]
    nodes = [node("n1", "2")]

    assert decide(urgent(), nodes, pods, nominated_node="n1", preempted={"default/x"}).node == "n1"
    assert decide(urgent(), nodes, pods, nominated_node="n1", preempted={"default/p"}).node is None


def test_a_nominated_node_that_is_beyond_help_is_given_up() -> None:
    """It was tainted after it was nominated, so waiting there makes no sense."""
    nodes = [node("n1", "2").taint("dedicated"), node("n2", "2")]
    pods = [runs("p", "n1").terminating(), runs("q", "n2")]

    assert decide(urgent(), nodes, pods, nominated_node="n1").node == "n2"
    assert decide(urgent(), nodes, pods, nominated_node="gone").node == "n2"


def test_terminating_pods_are_victims_like_others() -> None:
    """A node may be chosen for a pod that is leaving anyway."""
    assert victims(decide(urgent(), [node("n1", "2")], [runs("p", "n1").terminating()])) == ["p"]


# --- whom -----------------------------------------------------------------------------


def test_as_few_as_possible_go_and_the_least_important_first() -> None:
    """More important pods stay if the rest is enough; among equals those that started earlier do."""
    pods = [
        runs("high", "n1", 5, "1"),
        runs("old", "n1", 1, "1"),
        runs("young", "n1", 1, "1"),
        runs("low", "n1", 0, "1"),
    ]
    found = decide(urgent(), [node("n1")], pods, starts={"old": 1, "young": 2})

    assert victims(found) == ["low", "young"]


def test_a_small_pod_stays_when_a_larger_one_must_go_anyway() -> None:
    """The larger one is the more important, but without it there is no room."""
    pods = [runs("large", "n1", 5, "3"), runs("small", "n1", 0, "1")]

    assert victims(decide(urgent("3"), [node("n1")], pods)) == ["large"]


def test_a_budget_protects_even_the_less_important() -> None:
    """Pods whose budget has nothing left are spared before all others."""
    pods = [runs("low", "n1", 0), runs("high", "n1", 5)]
    budget = Budget("default", selector_from_labels({"app": "low"}), 0)
    found = decide(urgent(), [node("n1")], pods, budgets=[budget])

    assert (victims(found), found.violations) == (["high"], 0)


def test_a_budget_is_broken_if_nothing_else_helps() -> None:
    """A budget is broken if nothing else helps, and the decision says by how many victims."""
    pods = [runs("p", "n1"), runs("q", "n1")]
    budget = Budget("default", selector_from_labels({"app": "p"}), 0)
    found = decide(urgent("4"), [node("n1")], pods, budgets=[budget])

    assert (set(victims(found)), found.violations) == ({"p", "q"}, 1)


@pytest.mark.parametrize(
    "budget",
    [
        Budget("default", selector_from_labels({"app": "p"}), 1),
        Budget("default", selector_from_labels({"app": "p"}), 0, frozenset({"p"})),
        Budget("default", selector_from_labels({"app": "other"}), 0),
        Budget("elsewhere", selector_from_labels({"app": "p"}), 0),
        Budget("default", EVERYTHING, 0),
    ],
    ids=["with-some-left", "disrupted-already", "of-other-pods", "of-another-namespace", "of-no-pods"],
)
def test_a_budget_that_is_not_broken(budget: Budget) -> None:
    """A pod of a budget that allows its eviction may go like any other."""
    assert decide(urgent(), [node("n1", "2")], [runs("p", "n1")], budgets=[budget]).violations == 0


def test_a_budget_finds_pods_by_the_labels_that_number_them() -> None:
    """Replicas of a StatefulSet share a class, but not each other's budgets."""
    index = "apps.kubernetes.io/pod-index"
    pods = [runs(f"p{i}", "n1").labels({"app": "db", index: str(i)}) for i in range(2)]
    budget = Budget("default", selector_from_labels({index: "0"}), 0)

    assert victims(decide(urgent(), [node("n1")], pods, budgets=[budget])) == ["p1"]


# --- where ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([runs("a", "n1", 5, "4")], [runs("b", "n2", 4), runs("c", "n2", 4)]),
        ([runs("a", "n1", 5), runs("b", "n1", 3)], [runs("c", "n2", 5), runs("d", "n2", 2)]),
        ([runs("a", "n1", -5), runs("b", "n1", -5)], [runs("c", "n2", -5, "4")]),
        ([runs("old", "n1", 5, "4")], [runs("new", "n2", 5, "4")]),
    ],
    ids=["lowest-highest-priority", "smallest-sum", "fewest-victims", "latest-start"],
)
def test_the_node_that_loses_least_is_taken(first: list[PodBuilder], second: list[PodBuilder]) -> None:
    """The node that loses least is taken, here always the second, for one reason each."""
    found = decide(urgent("4"), [node("n1"), node("n2")], [*first, *second], starts={"old": 1, "new": 2})

    assert found.node == "n2"


def test_fewer_broken_budgets_outweigh_everything_else() -> None:
    """The other node has the pod of lower priority."""
    budget = Budget("default", selector_from_labels({"app": "p"}), 0)
    pods = [runs("p", "n1"), runs("q", "n2", 50)]
    found = decide(urgent(), [node("n1", "2"), node("n2", "2")], pods, budgets=[budget])

    assert (found.node, found.violations) == ("n2", 0)


def test_nodes_are_looked_at_until_one_breaks_no_budget() -> None:
    """Nodes are looked at until one breaks no budget, even beyond the usual number."""
    budget = Budget("default", selector_from_labels({"app": "p"}), 0)
    pods = [runs("p", "n1"), runs("q", "n2", 50)]
    nodes = [node("n1", "2"), node("n2", "2")]

    assert decide(urgent(), nodes, pods, budgets=[budget], most_candidates=1).node == "n2"


def test_equals_go_to_the_node_that_came_first() -> None:
    """Of equal nodes the one that came first is taken, where upstream draws lots."""
    nodes = [node(name, "2") for name in ("n2", "n1", "n3")]

    assert decide(urgent(), nodes, [runs(f"p{n}", f"n{n}") for n in (1, 2, 3)]).node == "n2"


def test_with_few_candidates_the_cheapest_nodes_are_looked_at() -> None:
    """The node with the lowest priorities is found without looking closely at the others."""
    nodes = [node(f"n{i}", "2") for i in range(20)]
    asked: list[str] = []

    def started(key: str) -> float:
        asked.append(key)
        return 0.0

    cluster = Cluster(
        nodes=tuple(n.build() for n in nodes),
        pods=tuple(runs(f"p{i}", f"n{i}", 40 - i).build() for i in range(20)),
    )
    engine = engine_of(cluster)
    pod_class = engine.class_of(created(urgent().build()))
    found = preempt(engine, pod_class, budgets=[], started=started, most_candidates=2)

    assert found.node == "n19"
    assert set(asked) == {"default/p18", "default/p19"}


# --- by every rule ------------------------------------------------------------------------


def test_a_host_port_is_freed() -> None:
    """Only the pod that holds the wanted host port is a victim."""
    pods = [runs("other", "n1").host_port(81), runs("holder", "n1", 5, "1").host_port(80)]

    assert victims(decide(urgent("1").host_port(80), [node("n1")], pods)) == ["holder"]


def test_anti_affinity_is_lifted_in_both_directions() -> None:
    """The peer this pod cannot stand goes, and so does the one that cannot stand it."""
    disliked, loner = (
        runs("disliked", "n1"),
        runs("loner", "n1").anti_affinity_to(app="urgent", topology=ZONE),
    )
    pod = urgent().anti_affinity_to(app="disliked", topology=ZONE)
    found = decide(pod, [node("n1", "100")], [disliked, loner, runs("bystander", "n1")])

    assert victims(found) == ["loner", "disliked"]


def test_anti_affinity_to_a_pod_on_another_node_remains() -> None:
    """Victims are taken from the pod's own node only."""
    pod = urgent().anti_affinity_to(app="p", topology=ZONE)
    found = decide(pod, [node("n1"), node("n2")], [runs("p", "n1"), runs("q", "n2")])

    assert (found.node, victims(found)) == ("n1", ["p"])


def test_affinity_that_only_a_victim_fulfils_does_not_count() -> None:
    """Without its friend the pod does not fit, so the friend's node is no use."""
    pod = urgent().affinity_to(app="friend", topology=HOSTNAME)
    nodes = [node("n1", "2")]

    assert decide(pod, nodes, [runs("friend", "n1")]).node is None


def test_a_friend_among_the_possible_victims_is_not_spared_for_affinity() -> None:
    """As upstream has it: with all lower pods gone the affinity does not hold, so the node is given up."""
    pod = urgent().affinity_to(app="friend", topology=HOSTNAME)
    found = decide(pod, [node("n1")], [runs("friend", "n1"), runs("p", "n1")])

    assert found.message == (
        "preemption: 0/1 nodes are available: 1 node(s) didn't match pod affinity rules."
    )


def test_a_pod_may_start_its_group_anew() -> None:
    """Its last peer is in the way; once that is gone the pod is the first of its kind again."""
    pod = urgent().labels(group="g").affinity_to(group="g", topology=HOSTNAME)
    found = decide(pod, [node("n1", "2"), node("n2")], [runs("peer", "n1").labels(group="g")])

    assert (found.node, victims(found)) == ("n1", ["peer"])


def test_skew_is_evened_out() -> None:
    """The crowded zone loses one of its pods; one that does not count for the spread stays."""
    nodes = [node("a1", zone="a"), node("b1", "1", zone="b")]
    pods = [runs("x1", "a1", cpu="1").labels(app="urgent"), runs("other", "a1", cpu="1")]
    found = decide(urgent().spread(ZONE, app="urgent"), nodes, pods)

    assert (found.node, victims(found)) == ("a1", ["x1"])


def test_a_terminating_pod_does_not_count_for_the_skew_and_neither_does_its_leaving() -> None:
    """The one that does count is too important to go."""
    nodes = [node("a1", zone="a"), node("b1", "1", zone="b")]
    pods = [
        runs("counts", "a1", 200).labels(app="urgent"),
        runs("leaves", "a1").labels(app="urgent").terminating(),
    ]
    found = decide(urgent().spread(ZONE, app="urgent"), nodes, pods)

    assert found.message == (
        "preemption: 0/2 nodes are available: 1 Preemption is not helpful for scheduling, "
        "1 node(s) didn't match pod topology spread constraints."
    )


def test_a_domain_may_become_the_emptiest_by_losing_pods() -> None:
    """Both zones are even, so evicting here for room does not break the spread."""
    nodes = [node("a1", "2", zone="a"), node("b1", "1", zone="b")]
    pods = [
        runs("x1", "a1", cpu="1").labels(app="urgent"),
        runs("x2", "a1", cpu="1").labels(app="urgent"),
        runs("x3", "b1", 200, cpu="1").labels(app="urgent"),
    ]
    found = decide(urgent().spread(ZONE, app="urgent"), nodes, pods)

    assert (found.node, set(victims(found))) == ("a1", {"x1", "x2"})


def test_without_nodes_there_is_nothing_to_say() -> None:
    """Without nodes none is found, and nothing is raised."""
    assert decide(urgent(), [], []).node is None
