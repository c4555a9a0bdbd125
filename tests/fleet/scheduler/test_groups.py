"""Groups of workloads: they move together, and two schedulers cannot split them."""

from __future__ import annotations

from dataclasses import replace

from berth.fleet.scheduler import FleetSettings
from berth.kube.api_resources import LEASES, RESOURCE_BINDINGS
from berth.machines.contract import Action, Outcome, Patch
from tests.support.fleet.builders import make_cluster
from tests.support.scripts.fleet import COMPATIBLE, GROUP, OURS, FleetScript, single
from tests.support.scripts.script import verbs


class TestGroupsThatMoveTogether:
    def start(self, *settings: FleetSettings) -> FleetScript:
        world = FleetScript(*settings)
        world.bind(single("a").group(GROUP), single("b").group(GROUP))
        world.settle()
        assert world.places("a") == world.places("b") == {"m1": 1}
        return world

    def test_when_all_are_evicted(self) -> None:
        """A group whose members are all evicted meets again on one other cluster."""
        world = self.start()
        world.cluster(make_cluster("m1").taint("cluster.karmada.io/not-ready", effect="NoExecute"))
        world.evict("a", "m1")
        world.settle()
        world.evict("b", "m1")
        world.settle()
        assert world.places("a") == world.places("b") == {"m2": 1}

    def test_when_only_one_had_to_go_the_others_follow_gracefully(self) -> None:
        """When one member is evicted the rest of its group follows with eviction tasks."""
        world = self.start()
        world.evict("a", "m1")
        world.settle()
        assert world.places("a") == world.places("b") == {"m2": 1}
        (task,) = world.binding("b")["spec"]["gracefulEvictionTasks"]
        assert (task["fromCluster"], task["reason"], task["producer"]) == (
            "m1",
            "AffinityGroupFailover",
            "BerthFleet",
        )

    def test_a_task_that_is_there_already_is_written_back_whole(self) -> None:
        """Fields of a newer Karmada are kept as they were."""
        world = FleetScript()
        there = {"fromCluster": "m3", "reason": "TaintUntolerated", "notYetInvented": {"n": 1}}
        world.bind(single("a").group(GROUP), single("b").group(GROUP).evicted_by(there))
        world.settle()
        world.evict("a", "m1")
        world.settle()
        kept, _ = world.binding("b")["spec"]["gracefulEvictionTasks"]
        assert kept == there

    def test_karmada_waits_for_ever(self) -> None:
        """With Karmada's settings an evicted member waits while its group stays."""
        world = self.start(COMPATIBLE)
        world.evict("a", "m1")
        world.advance(600)
        assert world.places("a") == {}
        assert world.places("b") == {"m1": 1}


class TestTwoSchedulers:
    """Each sees the world of a moment ago, and both want to place the first of a group."""

    FIRST = replace(OURS, scheduler_names=frozenset(("first",)))
    SECOND = replace(OURS, scheduler_names=frozenset(("second",)))

    def bind(self, world: FleetScript, group: bool = True) -> None:
        a = single("a").scheduler("first").affinity("m1", "m2")
        b = single("b").scheduler("second").affinity("m2", "m1")
        world.bind(a.group(GROUP) if group else a)
        world.bind(b.group(GROUP) if group else b)

    def test_they_cannot_split_it(self) -> None:
        """Two schedulers that do not see each other's writes still keep a group on one cluster."""
        world = FleetScript(self.FIRST, self.SECOND, clusters=2)
        # The second scheduler would rather have m2, and its watch shows nothing of what the first does.
        world.cluster(make_cluster("m2").capacity(pods=10))
        self.bind(world)
        world.held.add(RESOURCE_BINDINGS)
        world.settle()
        assert world.names(LEASES) != []
        assert world.places("a") == world.places("b") == {"m1": 1}
        world.deliver()
        world.advance(5)
        assert world.places("a") == world.places("b") != {}

    def test_a_claim_whose_binding_is_gone_is_taken_over(self) -> None:
        """The claim of a scheduler that died is taken over when it expires."""
        world = FleetScript(self.FIRST, self.SECOND, clusters=2)
        a, b = single("a").scheduler("first").group(GROUP), single("b").scheduler("second").group(GROUP)
        world.refuse = lambda action: (
            Outcome(at=world.now, code=409, reason="Conflict")
            if isinstance(action, Patch) and action.name == "a-deployment" and "spec" in action.body
            else None
        )
        world.bind(a)
        for _ in range(3):
            for machine in world.machines:
                for action in machine.reconcile(world.now):
                    world.perform(machine, action)
        world.machines.pop(0)  # it dies between its claim and its write
        world.bind(b)
        world.advance(5)
        assert world.places("b") == {}
        world.advance(30)
        assert world.places("b") != {}

    def test_a_slow_holder_of_a_claim_cannot_place_it_after_it_was_taken_over(self) -> None:
        """Its write, which was decided long ago, reaches the server after the other has founded the group."""
        world = FleetScript(self.FIRST, self.SECOND, clusters=2)
        late: list[Action] = []

        def lose(action: Action) -> Outcome | None:
            if isinstance(action, Patch) and action.name == "a-deployment" and "spec" in action.body:
                late.append(action)
                return Outcome(at=world.now, code=0)
            return None

        world.refuse = lose
        world.bind(single("a").scheduler("first").affinity("m1").group(GROUP))
        world.settle()
        slow = world.machines.pop(0)  # it hangs
        world.bind(single("b").scheduler("second").affinity("m2").group(GROUP))
        world.advance(30)
        assert world.places("b") == {"m2": 1}
        world.refuse = lambda _: None
        assert world.answer(late[0]).conflict
        world.machines.insert(0, slow)
        world.advance(30)
        assert world.places("a") == {}
        assert "affinity group" in world.condition("a")["message"]

    def test_a_claim_that_was_used_holds_nobody_up(self) -> None:
        """A group that fails over right after it was founded moves at once, whoever is evicted first."""
        world = FleetScript(self.FIRST, self.SECOND)
        world.bind(single("a").scheduler("first").group(GROUP))
        world.settle()
        world.bind(single("b").scheduler("second").group(GROUP))
        world.settle()
        world.cluster(make_cluster("m1").taint("cluster.karmada.io/not-ready", effect="NoExecute"))
        began = world.now
        world.evict("b", "m1")
        world.settle()
        assert (world.places("b"), world.now) == ({"m2": 1}, began)
        world.evict("a", "m1")
        world.settle()
        assert (world.places("a"), world.now) == ({"m2": 1}, began)

    def test_who_waits_for_its_first_does_not_say_that_it_is_placed(self) -> None:
        """While another scheduler founds the group anew the condition of an evicted member is not True."""
        world = FleetScript(self.FIRST, self.SECOND)
        world.bind(single("a").scheduler("first").group(GROUP), single("b").scheduler("second").group(GROUP))
        world.settle()
        world.refuse = lambda action: (
            Outcome(at=world.now, code=503)
            if isinstance(action, Patch) and action.name == "a-deployment" and "spec" in action.body
            else None
        )
        world.cluster(make_cluster("m1").taint("cluster.karmada.io/not-ready", effect="NoExecute"))
        world.evict("a", "m1")
        world.settle()
        world.evict("b", "m1")
        world.settle()
        assert world.places("b") == {}
        assert (world.condition("b")["status"], world.condition("b")["reason"]) == ("False", "Unschedulable")
        assert world.condition("b")["message"] == (
            "Binding waits for another one of its affinity group to be placed: default/a-deployment."
        )
        world.refuse = lambda _: None
        world.advance(30)
        assert world.places("a") == world.places("b") == {"m2": 1}
        assert world.condition("b")["status"] == "True"

    def test_nor_does_who_follows_one_of_the_same_scheduler(self) -> None:
        """A member that waits for a peer's write to be confirmed says so."""
        world = FleetScript()
        world.bind(single("a").group(GROUP), single("b").group(GROUP))
        world.settle()
        world.refuse = lambda action: (
            Outcome(at=world.now, code=503) if action.name == "a-deployment" else None
        )
        world.cluster(make_cluster("m1").taint("cluster.karmada.io/not-ready", effect="NoExecute"))
        world.evict("a", "m1")
        world.evict("b", "m1")
        world.settle()
        assert (world.places("b"), world.condition("b")["status"]) == ({}, "False")
        world.refuse = lambda _: None
        world.advance(30)
        assert world.places("a") == world.places("b") == {"m2": 1}
        assert {world.condition(name)["status"] for name in "ab"} == {"True"}

    def test_a_claim_that_is_not_allowed_is_a_reason(self) -> None:
        """Nobody waits in silence for rights that are lacking; once they are there, it goes on."""
        world = FleetScript()
        world.refuse = lambda action: (
            Outcome(at=world.now, code=403, reason="Forbidden", message="leases is forbidden")
            if action.resource == LEASES
            else None
        )
        world.bind(single("a").group(GROUP))
        world.advance(10)
        assert world.condition("a")["message"] == "cannot claim its affinity group: leases is forbidden"
        assert [reason for reason, _ in world.events()] == ["ScheduleBindingFailed"]
        world.refuse = lambda _: None
        world.advance(10)
        assert world.places("a") != {}

    def test_the_members_of_one_scheduler_wait_for_their_first(self) -> None:
        """Members of a new group follow the first one with a single claim."""
        world = FleetScript(clusters=3)
        world.held.add(RESOURCE_BINDINGS)
        world.bind(*(single(name).group(GROUP) for name in "abcd"))
        world.deliver()
        world.advance(5)
        assert {tuple(world.places(name)) for name in "abcd"} == {("m1",)}
        assert verbs(world.done, LEASES) == ["create"]
