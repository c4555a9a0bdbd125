"""Placing everything that is pending, and reporting where it stands."""

from collections.abc import Iterator

import numpy as np
import pytest
from msgspec.structs import replace

from berth.engine.offline.simulation import simulate
from berth.engine.offline.snapshot import SnapshotError
from berth.engine.offline.topology import domains, spreads
from berth.engine.placement.evaluation import NO_NODES, fit_error
from berth.engine.placement.plan import Plan
from berth.engine.state.options import Options
from berth.kube.objects import (
    KubeObject,
    LabelSelector,
    ObjectMeta,
    PriorityClass,
    ReplicationController,
    ReplicationControllerSpec,
)
from berth.kube.well_known import SCHEDULING_GATED_MESSAGE
from tests.support.builders import (
    HOSTNAME,
    ZONE,
    PodBuilder,
    expression,
    make_node,
    make_pod,
    make_selector,
)
from tests.support.snapshots import messages, new, simulated, snapshot, where, workload, zone_node

# --- order -------------------------------------------------------------------------------


def test_higher_priority_is_placed_first() -> None:
    """The queue goes by priority, then by appearance."""
    node = make_node("n1").capacity(pods="2").build()
    pods = [new("low").build(), new("high").priority(10).build(), new("also-high").priority(10).build()]
    simulation = simulated(node, *pods)
    assert [placement.entry.name for placement in simulation.placements] == ["high", "also-high"]
    assert messages(simulation) == {"low": "0/1 nodes are available: 1 Too many pods."}


def test_of_equal_priority_the_oldest_is_first() -> None:
    """A dump lists pods by name; the queue has them by creation, and those still to be created last."""
    node = make_node("n1").capacity(pods="2").build()
    pods = [
        new("a"),
        new("b").created("2026-01-02T00:00:00Z"),
        new("c").created("2026-01-01T00:00:00Z"),
    ]
    simulation = simulated(node, *(pod.build() for pod in pods))
    assert [placement.entry.name for placement in simulation.placements] == ["c", "b"]


def test_priority_comes_from_the_priority_class() -> None:
    """A pod that names a class has the priority of that class."""
    node = make_node("n1").capacity(pods="1").build()
    important = PriorityClass(metadata=ObjectMeta(name="important"), value=7)
    named = new("named").priority_class("important").build()
    simulation = simulated(node, new("plain").build(), named, important)
    assert where(simulation) == {"named": "n1"}


def test_an_unknown_priority_class_is_noted() -> None:
    """A missing PriorityClass is said, not silently taken as zero."""
    taken = snapshot(make_node("n1").build(), new("p").priority_class("missing").build())
    assert taken.notes == [
        "there is no PriorityClass missing among the files: its pods are placed with priority 0"
    ]


def test_a_pod_waits_for_the_peer_it_needs() -> None:
    """A pod whose affinity only a later pod satisfies is tried again and placed beside it."""
    follower = new("follower").affinity_to({"app": "leader"}, topology=HOSTNAME).build()
    leader = new("leader").labels(app="leader").build()
    simulation = simulated(zone_node("n1", "a").build(), follower, leader)
    assert where(simulation) == {"leader": "n1", "follower": "n1"}


# --- who takes part ----------------------------------------------------------------------------


def test_finished_pods_are_invisible() -> None:
    """A succeeded pod neither takes room nor is placed."""
    node = make_node("n1").capacity(pods="1").build()
    done = [make_pod("done").on("n1").phase("Succeeded").build(), make_pod("failed").phase("Failed").build()]
    assert where(simulated(node, *done, new("p").build())) == {"p": "n1"}


def test_terminating_pending_pods_are_left_alone() -> None:
    """A pending pod that is being deleted is not placed."""
    simulation = simulated(make_node("n1").build(), make_pod("going").terminating().build())
    assert (simulation.placements, simulation.unplaced) == ([], [])


def test_gated_pods_say_so() -> None:
    """A pod with scheduling gates is not placed, and the reason is upstream's."""
    simulation = simulated(make_node("n1").build(), new("p").gated("example.com/wait").build())
    (unplaced,) = simulation.unplaced
    assert (unplaced.reason, unplaced.message) == ("SchedulingGated", SCHEDULING_GATED_MESSAGE)


def test_pods_of_other_schedulers_are_not_placed() -> None:
    """They wait for theirs and take no room; pods of default-scheduler and of berth are placed."""
    node = make_node("n1").capacity(pods="3").build()
    pods = [
        new("other").priority(9).scheduler("volcano"),
        new("ours").scheduler("berth"),
        new("default").scheduler("default-scheduler"),
        new("plain"),
    ]
    simulation = simulated(node, *(pod.build() for pod in pods))
    assert where(simulation) == {"ours": "n1", "default": "n1", "plain": "n1"}
    (unplaced,) = simulation.unplaced
    assert (unplaced.reason, unplaced.message) == (
        "OtherScheduler",
        "waits for scheduler volcano; those placed here are of default-scheduler and berth",
    )


def test_without_nodes() -> None:
    """Without any node the sentence is the scheduler's for that."""
    assert messages(simulated(new("p").build())) == {"p": NO_NODES}


def test_pods_on_unknown_nodes_are_noted() -> None:
    """A pod bound to a node that is not there does not count, and the user learns of it."""
    taken = snapshot(make_node("n1").build(), make_pod("p").on("elsewhere").build())
    assert taken.notes == ["pod default/p is on a node that is not among the files and does not count"]


def test_nodes_that_take_no_pods_are_noted() -> None:
    """A node written without a number of pods takes none, which nobody means."""
    taken = snapshot(make_node("n1").capacity(pods="0").build(), new("p").build())
    assert taken.notes == ["node n1 takes no pods: its capacity does not say how many"]


def test_deployments_get_the_replicas_they_lack() -> None:
    """The pods of a Deployment are its owner's, and default spreading knows them."""
    nodes = [zone_node(name, name).build() for name in "abc"]
    simulation = simulated(*nodes, workload("Deployment", "web", 3))
    assert {"Deployment/web"} == {placement.entry.owner for placement in simulation.placements}
    assert {"a", "b", "c"} == set(where(simulation).values())


# --- daemons -------------------------------------------------------------------------------------


def test_a_daemon_runs_on_every_eligible_node() -> None:
    """A DaemonSet has one pod on every node, cordoned or not, that selector and taints leave it."""
    nodes = [
        make_node("plain").labels(os="linux").build(),
        make_node("tainted").labels(os="linux").taint("gpu").build(),
        make_node("cordoned").labels(os="linux").unschedulable().build(),
        make_node("other").labels(os="windows").build(),
    ]
    simulation = simulated(
        *nodes, workload("DaemonSet", "agent", None, make_pod("agent").node_selector(os="linux"))
    )
    assert where(simulation) == {"agent-plain": "plain", "agent-cordoned": "cordoned"}
    assert simulation.unplaced == []


def test_a_daemon_that_finds_no_room_is_named_with_its_node() -> None:
    """A full node leaves its daemon pending, in the words kube-scheduler has for a pinned pod."""
    nodes = [make_node("big").build(), make_node("small").capacity(cpu="100m").build()]
    agent = workload("DaemonSet", "agent", None, make_pod("agent").requests(cpu="1"))
    simulation = simulated(*nodes, agent)
    expected = (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )
    assert {"agent-small": expected} == messages(simulation)


def test_spread_daemons_are_judged_with_their_pin() -> None:
    """A spread constraint of a daemon looks at its own node only, so it refuses none."""
    nodes = [zone_node("n1", "a").build(), zone_node("n2", "a").build(), zone_node("n3", "b").build()]
    agent = workload("DaemonSet", "agent", None, make_pod("agent").spread(ZONE, app="agent"))
    assert where(simulated(*nodes, agent)) == {"agent-n1": "n1", "agent-n2": "n2", "agent-n3": "n3"}


# --- scale and repeatability -------------------------------------------------------------------------


def test_identical_unplaced_replicas_are_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand replicas that do not fit cost one verdict, not a thousand."""
    calls: list[Plan] = []

    def counted(plan: Plan) -> tuple[str, frozenset[str]]:
        calls.append(plan)
        return fit_error(plan)

    monkeypatch.setattr("berth.engine.offline.simulation.fit_error", counted)
    huge = workload("Deployment", "huge", 1000, make_pod("huge").requests(cpu="9999"))
    simulation = simulated(make_node("n1").build(), huge)
    assert (len(simulation.unplaced), len(calls)) == (1000, 1)


def test_a_seed_decides_ties() -> None:
    """Of equal nodes the first is taken by default, and with a seed a repeatable random one."""
    things: list[KubeObject] = [*(make_node(f"n{i}").build() for i in range(20)), new("p").build()]
    assert where(simulated(*things)) == {"p": "n0"}
    seeded = [simulate(snapshot(*things), rng=np.random.default_rng(3)) for _ in range(2)]
    assert where(seeded[0]) == where(seeded[1]) != {"p": "n0"}


def test_progress_reaches_the_end() -> None:
    """The progress callback ends at the number of pods to be placed."""
    seen: list[tuple[int, int]] = []
    taken = snapshot(make_node("n1").build(), new("a").build(), new("b").build())
    simulate(taken, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (2, 2)


def test_rewinding_takes_placements_back() -> None:
    """After a rewind the room is free again."""
    simulation = simulated(make_node("n1").build(), new("a").build(), new("b").build())
    simulation.rewind(simulation.placements[1].number)
    assert where(simulation) == {"a": "n1"}
    assert not simulation.snapshot.cluster.has_pod("default/b")


# --- the report ----------------------------------------------------------------------------------------


def test_domains_are_zones_then_nodes_then_pods() -> None:
    """Nodes without a zone come last; what runs and what was placed is told apart."""
    things: list[KubeObject] = [
        zone_node("n2", "b").build(),
        zone_node("n1", "a").build(),
        make_node("n3").build(),
        make_pod("old").on("n1").build(),
        new("new").node_selector({ZONE: "b"}).build(),
    ]
    zones = domains(simulated(*things))
    shape = [
        (zone.name, [(node.name, [(pod.entry.name, pod.placed) for pod in node.pods]) for node in zone.nodes])
        for zone in zones
    ]
    assert shape == [
        ("a", [("n1", [("old", False)])]),
        ("b", [("n2", [("new", True)])]),
        (None, [("n3", [])]),
    ]


def test_spread_is_reported_once_a_workload() -> None:
    """Counts per domain, the skew and whether it is kept, for the stated constraint of a Deployment."""
    nodes = [zone_node(name, name).build() for name in "abc"]
    web = workload("Deployment", "web", 4, make_pod("web").spread(ZONE, app="web"))
    (spread,) = spreads(simulated(*nodes, web))
    assert (
        spread.owner,
        spread.topology_key,
        spread.when_unsatisfiable,
    ) == ("Deployment/web", ZONE, "DoNotSchedule")
    assert (spread.counts, spread.skew, spread.max_skew, spread.ok) == ({"a": 2, "b": 1, "c": 1}, 1, 1, True)


def test_skew_of_running_pods_is_reported_too() -> None:
    """A constraint that running pods break, here a soft one over nodes, shows as not kept."""
    nodes = [zone_node("n1", "a").build(), zone_node("n2", "a").build()]
    running = [
        make_pod(f"p{i}").labels(app="x").spread(HOSTNAME, when="ScheduleAnyway", app="x").on("n1").build()
        for i in range(3)
    ]
    found = [spread for spread in spreads(simulated(*nodes, *running)) if spread.owner == "Pod/p0"]
    assert [(s.counts, s.skew, s.ok) for s in found] == [({"n1": 3, "n2": 0}, 3, False)]


def test_too_few_domains_measure_from_zero() -> None:
    """While there are fewer domains than minDomains the minimum is zero."""
    pods = [
        make_pod(f"p{i}").labels(app="x").spread(ZONE, min_domains=2, app="x").on("n1").build()
        for i in range(2)
    ]
    spread = spreads(simulated(zone_node("n1", "a").build(), *pods))[0]
    assert (spread.minimum, spread.skew) == (0, 2)


# --- bad input --------------------------------------------------------------------------------------------


def broken() -> Iterator[tuple[str, PodBuilder, str]]:
    yield (
        "operator of node affinity",
        new("p").node_affinity(expression("a", "Is", "b")),  # type: ignore[arg-type]
        "nodeSelectorTerms[0].matchExpressions[0].operator",
    )
    yield (
        "operator of pod affinity",
        new("p").affinity_to(make_selector(expression("a", "Is", "b")), topology=ZONE),
        "labelSelector.matchExpressions[0].operator",
    )
    yield "spread without skew", new("p").spread(ZONE, max_skew=0), "topologySpreadConstraints[0].maxSkew"


@pytest.mark.parametrize(
    ("name", "pod", "path"), list(broken()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_an_invalid_pod_is_refused_with_file_object_and_field(name: str, pod: PodBuilder, path: str) -> None:
    """What the API server would refuse ends in one sentence that says where it stands."""
    del name
    with pytest.raises(SnapshotError) as caught:
        snapshot(make_node("n1").build(), pod.build())
    assert str(caught.value).startswith("test.yaml: Pod default/p: spec.")
    assert path in str(caught.value)


def test_admitted_pods_are_not_judged_again() -> None:
    """A pod that a server admitted is taken as it is, even if today's rules would refuse it."""
    pod = make_pod("p").spread(ZONE, max_skew=0, when="ScheduleAnyway", app="x").build()
    assert where(simulated(make_node("n1").build(), pod)) == {"p": "n1"}


def test_admitted_pods_must_still_be_readable() -> None:
    """An operator that no rule could evaluate is refused wherever the pod came from."""
    pod = make_pod("p").affinity_to(make_selector(expression("a", "Is", "b")), topology=ZONE).build()
    with pytest.raises(SnapshotError, match="operator"):
        snapshot(make_node("n1").build(), pod)


def test_daemon_namespaces_are_an_option() -> None:
    """Pods in kube-system do not stand in the way of an exclusive pod, unless the list is empty."""
    things: list[KubeObject] = [
        zone_node("n1", "a").build(),
        make_pod("proxy").namespace("kube-system").on("n1").build(),
        new("p").anti_affinity_to(topology=HOSTNAME, namespaces=["kube-system"]).build(),
    ]
    assert where(simulated(*things)) == {"p": "n1"}
    assert where(simulated(*things, options=Options(daemon_namespaces=frozenset()))) == {}


def test_a_workload_that_does_not_select_its_pods_is_refused() -> None:
    """As an API server refuses it, and as an object that one has stored is not."""
    wrong = workload("Deployment", "web", 1)
    wrong = replace(wrong, spec=replace(wrong.spec, selector=LabelSelector(match_labels={"app": "other"})))
    with pytest.raises(SnapshotError, match=r"labels: Invalid value: .* does not match template `labels`"):
        simulated(make_node("n1").build(), wrong)
    stored = replace(wrong, metadata=replace(wrong.metadata, uid="1"))
    assert where(simulated(make_node("n1").build(), stored))
    with pytest.raises(SnapshotError, match="empty selector is invalid for deployment"):
        simulated(replace(wrong, spec=replace(wrong.spec, selector=LabelSelector())))
    template = wrong.spec.template
    spec = ReplicationControllerSpec(selector={"app": "other"}, template=template)
    older = ReplicationController(kind="ReplicationController", metadata=wrong.metadata, spec=spec)
    with pytest.raises(SnapshotError, match="does not match template `labels`"):
        simulated(older)
    filled = replace(older, spec=replace(spec, selector=None))
    assert where(simulated(make_node("n1").build(), filled)) == {"web-0": "n1"}


def test_every_node_that_is_not_ready_is_told_of() -> None:
    """Every node that is not ready is told of, those that report the same together."""
    silent = [make_node(f"n{i}").condition("Ready", "False").build() for i in range(7)]
    lost = make_node("lost").condition("Ready", "Unknown").build()
    assert simulated(*silent, lost, new("p").build()).snapshot.notes == [
        "nodes n0 and 6 more report NotReady: they are judged with the taint for it",
        "node lost reports Ready=Unknown: it is judged with the taint for it",
    ]
