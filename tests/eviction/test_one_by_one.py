"""A domain that is above the ceiling: those with a place move one by one, the others stay."""

from __future__ import annotations

import pytest

from berth.engine.execution.eviction_ceiling import CLUSTER, HaltPolicy
from berth.eviction import EvictionRate, EvictionSettings
from berth.eviction.reports import HALTED, ONE_BY_ONE, RESUMED
from berth.kube.api_resources import NODES, PODS, REPLICA_SETS
from berth.machines.contract import Action, Evict, Get, Outcome
from berth.machines.rates import Backoff, ReturnMemory
from tests.support.scripts.eviction import EvictionScript, interfere_once, needs_label
from tests.support.scripts.script import Raw

RULE = needs_label("user", "b")
FAST = EvictionRate(qps=1000, burst=1000)
# Nobody waits for owners: what is seen is the pace of the domain alone.
EASY = EvictionSettings(rate=FAST, domain_rate=FAST, pace_by_owner=False)
JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}


class Tenants(EvictionScript):
    """A tenant with several owners on shared nodes, and others."""

    def __init__(
        self, settings: EvictionSettings = EASY, *, owners: int = 3, replicas: int = 4, others: int = 4
    ) -> None:
        super().__init__(settings)
        self.labelled("old-1", "a", user="b")
        self.labelled("old-2", "a", user="b")
        self.owner: dict[str, Raw] = {}
        self.moved: list[str] = []
        for owner in range(owners):
            reference = self.replica_set(f"o{owner}", replicas)
            for number in range(replicas):
                name = f"o{owner}-{number}"
                self.owner[name] = reference
                self.pod(name, f"old-{number % 2 + 1}", RULE, owner=reference)
        for number in range(others):
            self.pod(f"other-{number}", "old-1")
        self.settle()

    def wipe(self) -> None:
        """The label goes from the shared nodes."""
        for node in ("old-1", "old-2"):
            self.relabel(node, user=None)
        self.settle()

    def one(self) -> str:
        (name,) = self.going()
        return name

    def move(self, node: str | None = None, *, ready: bool = True) -> str:
        """The pod that goes is gone, and its owner has made another one, on a new node unless told where."""
        old = self.one()
        self.moved.append(old)
        if node is None:
            node = f"new-{len(self.moved) % 2 + 1}" if "new-2" in self.names(NODES) else "new"
        self.replace(old, f"new-{old}", node, affinity=RULE, owner=self.owner[old], ready=ready)
        self.settle()
        return f"new-{old}"


def test_all_of_a_tenant_move_and_never_two_at_once() -> None:
    """12 of 16 pods with room on new nodes: each goes when the replacement of the last is Ready."""
    world = Tenants()
    world.labelled("new-1", "b", user="b")
    world.labelled("new-2", "c", user="b")
    world.wipe()
    for _ in range(12):
        world.move()
    assert world.going() == set()
    assert sorted(world.moved) == sorted(world.owner)


def test_it_is_said_who_moves_and_who_stays() -> None:
    """The event, the log and the metrics have both numbers; when all is done it is said, too."""
    world = Tenants()
    world.labelled("new", "b", user="b")
    world.pod("filler", "new", cpu="3500m")  # room for five
    world.wipe()
    world.move()
    world.advance(31)
    for where in (CLUSTER, "a"):
        assert world.metric("affinity_evictions_halted", domain=where) > 0.55
        assert world.metric("affinity_evictions_one_by_one", domain=where) == 4
        assert world.metric("affinity_evictions_without_place", domain=where) == 6
    assert world.metric("affinity_evictions_waiting", reason="halted") == 6
    assert world.metric("affinity_evictions_waiting", reason="one-by-one") == 4
    (told, _) = world.said(ONE_BY_ONE)
    assert (told.subject, told.details["moving"], told.details["staying"]) == ("the cluster", 5, 7)
    assert told.warns
    message = world.events("EvictionsOneByOne")[0]["message"]
    assert "go one by one in the cluster: 12 of 17 pods (71%)" in message
    assert "5 with a node for their replacement go one by one, 7 without one stay" in message
    assert world.events("EvictionsHalted") == []

    while world.going():
        world.move()
    world.advance(31)
    assert len(world.moved) == 5
    assert world.said(HALTED)
    assert "nobody goes" in world.events("EvictionsHalted")[0]["message"]
    world.relabel("old-1", user="b")
    world.relabel("old-2", user="b")
    world.settle()
    assert world.said(RESUMED)


def test_an_accident_evicts_nobody() -> None:
    """The label is gone from all nodes: nobody has a place, however long it takes."""
    world = Tenants()
    world.labelled("third", "b", user="b")
    world.relabel("third", user=None)
    world.wipe()
    world.advance(7200)
    assert world.attempts() == []
    assert world.metric("affinity_evictions_waiting", reason="halted") == 12
    assert world.metric("affinity_evictions_without_place", domain=CLUSTER) == 12
    assert world.events("EvictionsHalted")


def test_an_accident_that_takes_the_last_place_stops_a_move_on_its_way() -> None:
    """The new node loses the label while a pod is being marked: it is not evicted."""
    world = Tenants()
    world.labelled("new", "b", user="b")
    for node in ("old-1", "old-2"):
        world.relabel(node, user=None)
    interfere_once(world, Get, lambda: world.relabel("new", user=None))
    world.advance(600)
    assert world.going() == set()


def test_a_place_that_is_taken_at_the_last_moment_stops_it_too() -> None:
    """A place that is gone when the machine is asked right before the eviction stops it."""
    world = Tenants()
    world.labelled("new", "b", user="b")
    taken: list[str] = []

    def take(action: Action) -> Outcome | None:
        if isinstance(action, Evict) and not taken:
            taken.append(action.name)
            world.pod("filler", "new", cpu="3950m")
            assert not world.machine.confirms(action)
            return Outcome(at=world.now, code=409, reason="Conflict")
        return None

    world.refuse = take
    world.wipe()
    assert taken
    world.refuse = lambda _: None
    world.advance(600)
    assert world.going() == set()


def test_places_that_come_later_are_used() -> None:
    """New nodes after the labels went: they are noticed without waiting for the next plan."""
    world = Tenants()
    world.wipe()
    world.advance(60)
    assert world.going() == set()
    world.labelled("new", "b", user="b")
    world.advance(2)
    assert len(world.going()) == 1


@pytest.mark.parametrize("node", ["", "new"])
def test_a_replacement_that_is_not_ready_is_waited_for_without_a_limit(node: str) -> None:
    """No owner of the domain goes on before the replacement is Ready, whether that has a node or not."""
    world = Tenants()
    world.labelled("new", "b", user="b")
    world.wipe()
    made = world.move(node, ready=False)
    world.advance(4 * 3600)
    assert world.going() == set()
    if node:
        world.set_ready(made)
        world.settle()
        assert len(world.going()) == 1


def test_nobody_makes_a_pod_anew_that_has_no_controller() -> None:
    """Pods by themselves, and those of nodes, stay in a halted domain though there is room elsewhere."""
    world = EvictionScript(EASY)
    daemon = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
    world.labelled("old", "a", user="b")
    world.labelled("new", "b", user="b")
    for number in range(6):
        world.pod(f"p{number}", "old", RULE)
        world.pod(f"d{number}", "old", RULE, owner=daemon)
    world.settle()
    world.relabel("old", user=None)
    world.advance(600)
    assert world.attempts() == []


def test_another_domain_goes_at_its_own_pace() -> None:
    """Only the halted domain moves one by one."""
    world = Tenants(others=0)
    world.labelled("new", "b", user="b")
    world.labelled("more", "c", user="b")
    owner = world.replica_set("free", 3)
    for number in range(3):
        world.pod(f"free-{number}", "more", RULE, owner=owner)
    for number in range(30):
        world.pod(f"filler-{number}", "more", cpu="1m")
    world.settle()
    for node in ("old-1", "old-2", "more"):
        world.relabel(node, user=None)
    world.settle()
    assert set(world.machine.halts.halts) == {"a"}
    assert {name for name in world.going() if name.startswith("free")} == {"free-0", "free-1", "free-2"}
    assert len(world.going()) == 4


def test_a_budget_that_refuses_one_lets_the_next_have_its_turn() -> None:
    """A protected pod does not hold up the whole domain."""
    world = Tenants()
    world.labelled("new", "b", user="b")
    for number in range(4):
        world.change(PODS, f"o0-{number}", {"metadata": {"labels": {"app": "protected"}}})
    world.budget("never", "protected", allowed=0)
    world.wipe()
    for _ in range(8):
        world.advance(2)
        world.move()
    world.advance(120)
    assert {name for name in world.names(PODS) if name.startswith("o")} == {
        *(f"o0-{n}" for n in range(4)),
        *(f"other-{n}" for n in range(4)),
    }


def test_the_rate_still_holds() -> None:
    """One at a time is no faster than the rate of the cluster."""
    slow = EvictionSettings(rate=EvictionRate(qps=0.1, burst=1), domain_rate=FAST, pace_by_owner=False)
    world = Tenants(slow)
    world.labelled("new", "b", user="b")
    world.wipe()
    world.move()
    assert world.going() == set()
    world.advance(11)
    assert len(world.going()) == 1


def test_after_a_restart_the_replacement_of_the_last_is_still_waited_for() -> None:
    """A process that ends and starts again does not send one pod away each time."""
    world = Tenants()
    world.labelled("new", "b", user="b")
    world.wipe()
    made = world.move("", ready=False)
    for _ in range(3):
        world.restart()
        world.advance(120)
    assert world.going() == set()
    world.vanish(made)
    world.pod("made", "new", RULE, owner=world.owner[world.moved[0]])
    world.settle()
    assert len(world.going()) == 1


def test_an_owner_that_wants_fewer_ends_the_wait() -> None:
    """Scaled down to what it has, or deleted."""
    world = Tenants()
    world.labelled("new", "b", user="b")
    world.wipe()
    gone = world.one()
    world.vanish(gone)
    world.settle()
    assert world.going() == set()
    world.change(REPLICA_SETS, world.owner[gone]["name"], {"spec": {"replicas": 3}})
    world.settle()
    assert len(world.going()) == 1


def test_a_job_that_is_done_ends_the_wait() -> None:
    """Its other pods are finished and it makes no more; that is believed after the pace timeout."""
    world = EvictionScript(EASY)
    world.labelled("old", "a", user="b")
    world.labelled("new", "b", user="b")
    for number in range(8):
        world.pod(f"p{number}", "old", RULE, owner=JOB)
    world.settle()
    world.relabel("old", user=None)
    world.settle()
    (first,) = world.going()
    world.vanish(first)
    world.advance(60)
    assert world.going() == set()
    world.pod("again", "new", RULE, owner=JOB)
    world.settle()
    (second,) = world.going()
    world.vanish(second)
    world.advance(599)
    assert world.going() == set()
    world.advance(2)
    assert len(world.going()) == 1


def test_a_person_can_demand_that_nobody_moves() -> None:
    """With the policy `stop` a halt stops everybody, place or no place."""
    world = Tenants(
        EvictionSettings(rate=FAST, domain_rate=FAST, pace_by_owner=False, policy=HaltPolicy.STOP)
    )
    world.labelled("new", "b", user="b")
    world.wipe()
    world.advance(3600)
    assert world.attempts() == []
    assert world.events("EvictionsHalted")
    assert world.metric("affinity_evictions_without_place", domain=CLUSTER) == 12


def test_those_on_their_way_when_a_halt_begins_go_on_one_by_one() -> None:
    """Several were marked: the first of them goes on, the others wait for their turn."""
    world = Tenants()
    world.labelled("new", "b", user="b")
    world.labelled("full", "b")
    for number in range(20):
        world.pod(f"filler-{number}", "full", cpu="1m")
    world.settle()
    world.relabel("old-1", user=None)
    interfere_once(world, Get, lambda: world.relabel("old-2", user=None))
    assert set(world.machine.halts.halts) == {"a"}
    assert len(world.going()) == 1


def test_an_eviction_without_a_sure_answer_holds_the_turn() -> None:
    """It may have happened: the next pod of the domain waits for a replacement."""
    world = Tenants()
    world.labelled("new", "b", user="b")
    with world.answers_lost(0):
        world.wipe()
    world.vanish(world.one())
    world.advance(60)
    assert world.going() == set()


def test_many_are_asked_about_in_turn() -> None:
    """A large domain where the first few hundred have no place and a later one has."""
    world = EvictionScript(EASY)
    world.labelled("old", "a", user="b")
    world.labelled("new", "b", user="b")
    world.pod("filler", "new", cpu="3800m")
    large, small = world.replica_set("large", 210), world.replica_set("small", 1)
    for number in range(210):
        world.pod(f"large-{number}", "old", RULE, owner=large, cpu="1")
    world.pod("small-0", "old", RULE, owner=small)
    world.settle()
    world.relabel("old", user=None)
    world.advance(120)
    assert world.going() == {"small-0"}


def test_a_pod_that_was_said_to_go_and_did_not_holds_nobody_up_for_ever() -> None:
    """The server took its eviction, it stays all the same, and its rules hold again by then."""
    world = Tenants()
    world.labelled("new", "b", user="b")
    kept: list[str] = []

    def keep(action: Action) -> Outcome | None:
        if isinstance(action, Evict) and not kept:
            kept.append(action.name)
            return Outcome(at=world.now, code=201)
        return None

    world.refuse = keep
    world.wipe()
    world.change(PODS, kept[0], {"spec": {"affinity": None}})
    world.advance(590)
    assert world.going() == set()
    world.advance(20)
    assert len(world.going()) == 1


def test_pods_that_have_just_come_are_not_taken_for_replacements() -> None:
    """Only one that came after a pod of its owner was sent away can have come back."""
    memory = ReturnMemory(Backoff(first=30.0, longest=3600.0), moved=10.0)
    assert not memory.came_back(arrived=9.8, now=10.2)
    assert memory.returns == 0
    assert memory.came_back(arrived=10.1, now=10.2)
    assert memory.until == 40.2


def test_a_replacement_whose_node_loses_the_label_a_moment_later_did_not_come_back() -> None:
    """Labels are taken from one node after the other: it was right where it was when it came."""
    world = Tenants()
    world.labelled("next", "a", user="b")
    world.labelled("new", "b", user="b")
    world.wipe()
    world.move("next")
    world.advance(0.3)
    world.relabel("next", user=None)
    world.settle()
    assert world.events("EvictionBackOff") == []
