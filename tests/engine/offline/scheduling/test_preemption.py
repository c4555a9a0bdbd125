"""Pods of higher priority make room for themselves, as the scheduler does it, and it can be taken back."""

from berth.engine.offline.scheduling.setup import SchedulerSetup
from berth.engine.offline.simulation import Simulation, simulate
from berth.engine.offline.topology import domains
from berth.engine.state.cluster import Cluster
from berth.kube.objects import KubeObject, Pod
from tests.support.builders import HOSTNAME, make_node, make_pod
from tests.support.snapshots import budget, explained, messages, new, simulated, snapshot, where


def low(name: str, node: str, *, owner: str | None = "rs", priority: int = 0) -> Pod:
    built = make_pod(name).on(node).priority(priority).requests(cpu="1").labels(app="web")
    return (built.owned_by("ReplicaSet", owner) if owner else built).build()


def nodes(*cpus: int) -> list[KubeObject]:
    return [
        make_node(f"n{i}").labels({HOSTNAME: f"n{i}"}).capacity(cpu=str(cpu)).build()
        for i, cpu in enumerate(cpus)
    ]


def high(name: str, cpu: str = "1", priority: int = 10) -> Pod:
    return new(name).priority(priority).requests(cpu=cpu).build()


def preempted(simulation: Simulation) -> dict[str, tuple[str, str]]:
    return {victim.entry.name: (victim.node, who.name) for victim, who in simulation.preemptions()}


def on_nodes(cluster: Cluster) -> dict[str, str]:
    return {key: name for name in cluster.nodes.slot_of for key, _ in cluster.pods_on(name)}


def test_a_victim_is_made_anew_and_placed_where_there_is_room() -> None:
    """The preemptor gets the node that refused it, and the victim's replacement goes elsewhere."""
    fixed = new("p").priority(10).requests(cpu="1").node_selector({HOSTNAME: "n0"}).build()
    simulation = simulated(*nodes(1, 1), low("a", "n0"), fixed)
    assert preempted(simulation) == {"a": ("n0", "p")}
    assert where(simulation) == {"p": "n0", "a": "n1"}
    assert simulation.unplaced == []


def test_a_victim_whose_replacement_finds_no_node_is_told() -> None:
    """Who was preempted and has no other place is unplaced; whom nobody makes anew is just gone."""
    simulation = simulated(*nodes(2), low("a", "n0"), low("b", "n0", owner=None), high("p", cpu="2"))
    assert where(simulation) == {"p": "n0"}
    assert messages(simulation) == {"a": "0/1 nodes are available: 1 Insufficient cpu."}
    assert on_nodes(simulation.snapshot.cluster) == {"default/p": "n0"}


def chain() -> list[KubeObject]:
    """A pod that needs a peer: another makes room for itself first, and goes for it once the peer came."""
    seeks = (
        new("seeks").priority(10).requests(cpu="1").affinity_to({"app": "peer"}, topology=HOSTNAME).build()
    )
    peer = new("peer").priority(10).labels(app="peer").build()
    return [*nodes(1), low("old", "n0", owner=None), seeks, peer, high("mid", priority=5)]


def test_who_was_preempted_by_a_victim_is_gone_too() -> None:
    """Both preemptions are told, and only who is left counts on the node."""
    simulation = simulated(*chain())
    assert preempted(simulation) == {"old": ("n0", "mid"), "mid": ("n0", "seeks")}
    assert on_nodes(simulation.snapshot.cluster) == {"default/seeks": "n0", "default/peer": "n0"}
    shown = {pod.entry.name for zone in domains(simulation) for node in zone.nodes for pod in node.pods}
    assert shown == {"seeks", "peer"}


def test_a_chain_of_preemptions_can_be_taken_back() -> None:
    """All the way, and every pod of it can be explained at its turn."""
    simulation = simulated(*chain())
    simulation.rewind()
    assert on_nodes(simulation.snapshot.cluster) == {"default/old": "n0"}
    assert simulation.placements == []
    assert {name: explained(name, *chain()).state for name in ("seeks", "peer", "mid")} == {
        "seeks": "DoesNotFit",
        "peer": "Fits",
        "mid": "DoesNotFit",
    }


def test_what_was_taken_back_can_be_made_again() -> None:
    """Taking back a pod that preempted and putting it back changes nothing."""
    simulation = simulated(*chain())
    before, on = list(simulation.placements), on_nodes(simulation.snapshot.cluster)
    simulation.put_back(simulation.take_back(simulation.placements[-1:]))
    assert (simulation.placements, on_nodes(simulation.snapshot.cluster)) == (before, on)


def test_a_pod_that_fits_only_after_a_preemption_says_so() -> None:
    """One that may not preempt itself goes where a lower one makes room: who leaves first is named."""
    big = make_pod("big").on("n0").requests(cpu="2").build()
    never = new("never").priority(10).requests(cpu="1").never_preempts().build()
    found = explained("never", *nodes(2), big, never, high("mid", priority=5))
    assert found.node == "n0"
    assert found.message == (
        "1/1 nodes are available: default/never goes to n0 once default/big went for default/mid."
    )


def test_one_namespace_is_told_of_preemptions_from_both_sides() -> None:
    """Whose pod had to go and who made it go both see it, and where the replacement went."""
    victim = make_pod("a").namespace("lost").on("n0").requests(cpu="1").owned_by("ReplicaSet", "rs").build()
    fixed = new("p").priority(10).requests(cpu="1").node_selector({HOSTNAME: "n0"}).build()
    simulation = simulated(*nodes(1, 1), victim, fixed)
    for namespace in ("lost", "default"):
        shown = simulation.within(namespace)
        assert preempted(shown) == {"a": ("n0", "p")}
        assert shown.node_of("lost/a") == "n1"
    assert preempted(simulation.within("other")) == {}


def test_one_namespace_keeps_what_the_simulation_is_about() -> None:
    """Whose pods are placed, and which groups wait, is the same for the part that is shown."""
    simulation = simulate(snapshot(*nodes(1)), SchedulerSetup(schedulers=("mine",)))
    assert simulation.within("other").setup.schedulers == ("mine",)


def test_a_replacement_may_preempt_in_turn() -> None:
    """Priorities 10, 5 and 1 on two nodes: each takes the place of the next lower one."""
    fixed = new("p").priority(10).requests(cpu="1").node_selector({HOSTNAME: "n0"}).build()
    simulation = simulated(*nodes(1, 1), low("mid", "n0", priority=5), low("low", "n1", priority=1), fixed)
    assert preempted(simulation) == {"mid": ("n0", "p"), "low": ("n1", "mid")}
    assert where(simulation) == {"p": "n0", "mid": "n1"}
    assert list(messages(simulation)) == ["low"]


def test_nobody_is_preempted_in_vain() -> None:
    """Pods of the same priority stay, a pod that never preempts waits, and one too large helps nobody."""
    things = [*nodes(1), low("a", "n0", priority=3)]
    never = new("p").priority(9).never_preempts().requests(cpu="1").build()
    for pod in (high("p", priority=3), never, high("p", cpu="2")):
        simulation = simulated(*things, pod)
        assert (preempted(simulation), where(simulation)) == ({}, {})
    (unplaced,) = simulated(*things, never).unplaced
    assert unplaced.preemption == "preemption: not eligible due to preemptionPolicy=Never."


def test_a_scheduler_without_preemption_leaves_everyone_alone() -> None:
    """A profile that disables it preempts nobody."""
    taken = snapshot(*nodes(1), low("a", "n0"), high("p"))
    assert preempted(simulate(taken, SchedulerSetup(preempting=frozenset()))) == {}


def test_each_preemption_uses_up_the_budget() -> None:
    """A budget that lets one pod go steers the second preemptor to pods that no budget protects."""
    other = make_pod("c").on("n2").requests(cpu="1").labels(app="other").owned_by("ReplicaSet", "o").build()
    things = [*nodes(1, 1, 1), low("a", "n0"), low("b", "n1"), other, budget(min_available=1)]
    assert set(preempted(simulated(*things, high("p"), high("q")))) == {"c", "a"}


def test_everything_can_be_taken_back() -> None:
    """Victims return to where they were, whether they ran before or were placed meanwhile."""
    follower = new("f").priority(10).requests(cpu="1").affinity_to({"app": "db"}, topology=HOSTNAME).build()
    leader = new("db").priority(10).labels(app="db").requests(cpu="1").build()
    filler = new("filler").requests(cpu="1").build()
    taken = snapshot(*nodes(2, 1), low("run", "n1"), follower, leader, filler)
    before = on_nodes(taken.cluster)
    simulation = simulate(taken)
    assert simulation.node_of("default/f") == simulation.node_of("default/db")
    assert preempted(simulation)
    simulation.rewind()
    assert (on_nodes(taken.cluster), simulation.placements) == (before, [])


def test_a_victim_that_was_placed_first_of_all_is_taken_back() -> None:
    """No placement is left behind, also not that of a pod that came before all those that stayed."""
    zone = {"zone": "a"}
    first, second = (
        make_node(n).labels({HOSTNAME: n, **zone}).capacity(cpu="1").build() for n in ("n0", "n1")
    )
    seeks = new("seeks").priority(10).requests(cpu="1").node_selector({HOSTNAME: "n0"})
    seeks = seeks.affinity_to({"app": "peer"}, topology="zone")
    victim = new("victim").priority(5).requests(cpu="1").node_selector({HOSTNAME: "n0"}).build()
    peer = new("peer").labels(app="peer").node_selector({HOSTNAME: "n1"}).build()
    simulation = simulated(first, second, seeks.build(), victim, peer)
    assert preempted(simulation) == {"victim": ("n0", "seeks")}
    simulation.rewind()
    assert on_nodes(simulation.snapshot.cluster) == {}


def test_taking_back_one_preemption_takes_back_what_followed() -> None:
    """The victim's replacement goes before the victim returns; others stay."""
    fixed = new("p").priority(10).requests(cpu="1").node_selector({HOSTNAME: "n0"}).build()
    simulation = simulated(*nodes(1, 2), low("a", "n0"), fixed, new("other").requests(cpu="1").build())
    (own,) = [placement for placement in simulation.placements if placement.victims]
    simulation.take_back([own])
    assert on_nodes(simulation.snapshot.cluster) == {"default/a": "n0", "default/other": "n1"}
    simulation.put_back([own])
    assert on_nodes(simulation.snapshot.cluster) == {"default/p": "n0", "default/other": "n1"}


def test_explain_judges_a_preemptor_before_it_made_room() -> None:
    """It fits nowhere as things are, and is told for whom it would be preempted."""
    found = explained("p", *nodes(1), low("a", "n0"), high("p"))
    assert found.state == "DoesNotFit"
    assert found.preemption is not None
    assert found.preemption.victims == ("default/a",)
