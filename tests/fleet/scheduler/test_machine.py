"""The fleet scheduler as a state machine: what is decided, written, said and retried."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from berth.fleet.scheduler import FleetScheduler, FleetSettings
from berth.kube.api_resources import CLUSTER_BINDINGS, CLUSTERS, LEASES, POLICIES, RESOURCE_BINDINGS
from berth.kube.karmada import APPLIED_PLACEMENT
from berth.kube.well_known import DEFAULT_SCHEDULER_NAME
from berth.machines.contract import Action, Outcome, Patch
from tests.fleet.builders import BindingBuilder, clusters_that, make_binding, make_cluster
from tests.support.scripts.fleet import OURS, FleetScript
from tests.support.scripts.script import verbs

COMPATIBLE = FleetSettings.compatible()
GROUP = "ha.example.com/group=pipelines"
CLAIMED = {"propagationpolicy.karmada.io/permanent-id": "p"}


def single(name: str) -> BindingBuilder:
    """A workload that wants exactly one cluster."""
    return make_binding(name).labels(CLAIMED).spread("cluster", 1, 1)


class TestWhatIsWritten:
    def test_a_binding_gets_its_clusters_and_says_so_in_karmadas_words(self) -> None:
        """A placed binding has targets, placement annotation and status as Karmada writes them."""
        world = FleetScript(clusters=2)
        world.bind(make_binding("web").replicas(2))
        world.settle()
        assert world.places("web") == {"m1": 2, "m2": 2}
        binding = world.binding("web")
        assert (
            json.loads(binding["metadata"]["annotations"][APPLIED_PLACEMENT]) == binding["spec"]["placement"]
        )
        assert world.condition("web") == {
            "type": "Scheduled",
            "status": "True",
            "reason": "Success",
            "message": "Binding has been scheduled successfully.",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        assert binding["status"]["schedulerObservedGeneration"] == binding["metadata"]["generation"]
        assert binding["status"]["lastScheduledTime"] == "2026-01-01T00:00:00Z"

    def test_events_are_about_the_binding_and_about_the_workload(self) -> None:
        """The same success event is recorded on the binding and on its workload."""
        world = FleetScript(clusters=1)
        world.bind(make_binding("web").replicas(2))
        world.settle()
        said = [("ScheduleBindingSucceed", "Binding has been scheduled successfully. Result: {m1:2}")]
        assert world.events() == world.events("Deployment") == said

    def test_of_a_binding_without_a_namespace_too(self) -> None:
        """A ClusterResourceBinding is placed and has its event as well."""
        world = FleetScript(clusters=1)
        body: dict[str, Any] = {
            "metadata": {"name": "crd-customresourcedefinition"},
            "spec": {
                "resource": {"apiVersion": "v1", "kind": "ConfigMap", "name": "crd"},
                "placement": {},
            },
        }
        world.create(CLUSTER_BINDINGS, body)
        world.settle()
        item = world.get(CLUSTER_BINDINGS, "crd-customresourcedefinition", "")
        assert item["spec"]["clusters"] == [{"name": "m1"}]
        text = "Binding has been scheduled successfully. Result {m1:0}"
        assert world.events("ClusterResourceBinding") == [("ScheduleBindingSucceed", text)]

    def test_what_was_written_is_not_decided_again(self) -> None:
        """Berth's own writes do not make it write a binding again."""
        world = FleetScript()
        world.bind(make_binding("web"))
        world.settle()
        assert verbs(world.done, RESOURCE_BINDINGS) == ["patch"]
        world.advance(600)
        assert verbs(world.done, RESOURCE_BINDINGS) == ["patch"]

    def test_when_it_was_scheduled_last_is_told_of_passes_that_changed_something(self) -> None:
        """A pass that leaves everything where it is does not refresh lastScheduledTime."""
        world = FleetScript(clusters=1)
        world.bind(make_binding("web").replicas(2).dynamic())
        world.settle()
        first = world.binding("web")["status"]["lastScheduledTime"]
        world.advance(60)
        preserve = {"spec": {"placement": {"clusterTolerations": [{"key": "x", "operator": "Exists"}]}}}
        for change in ({"spec": {"propagateDeps": True}}, preserve):
            world.edit("web", change)
            world.settle()
            status = world.binding("web")["status"]
            assert status["lastScheduledTime"] == first
            assert status["schedulerObservedGeneration"] == world.binding("web")["metadata"]["generation"]
        world.edit("web", {"spec": {"replicas": 3}})
        world.settle()
        assert world.binding("web")["status"]["lastScheduledTime"] == "2026-01-01T00:01:00Z"

    def test_a_reschedule_that_changes_nothing_was_one(self) -> None:
        """Who triggered a reschedule sees that it happened, and it happens once."""
        world = FleetScript(clusters=1)
        world.bind(make_binding("web").replicas(2).dynamic())
        world.settle()
        world.advance(60)
        world.edit("web", {"spec": {"rescheduleTriggeredAt": "2026-01-01T00:00:30Z"}})
        world.settle()
        assert world.binding("web")["status"]["lastScheduledTime"] == "2026-01-01T00:01:00Z"
        before = len(world.done)
        world.advance(600)
        assert len(world.done) == before

    def test_what_another_scheduler_applied_is_not_written_again_for_its_spelling(self) -> None:
        """An applied placement that only differs in spelling is not rewritten."""
        world = FleetScript(clusters=1)
        applied = '{ "spreadConstraints": [{"maxGroups": 1, "minGroups": 1, "spreadByField": "cluster"}] }'
        world.bind(single("web").on(m1=1).annotations({APPLIED_PLACEMENT: applied}))
        world.settle()
        assert verbs(world.done, RESOURCE_BINDINGS) == []

    def test_only_news_are_told(self) -> None:
        """A decision that changes nothing is not reported again."""
        told: list[tuple[str, str]] = []
        world = FleetScript(clusters=1)
        world.machines[:] = [FleetScheduler(OURS, tell=lambda key, why, _: told.append((key[1], why)))]
        world.cluster(make_cluster("m1"))
        for name in ("m1", "m2"):
            world.cluster(make_cluster(name))
        world.bind(single("web").affinity("m1", "m2"))
        world.settle()
        world.cluster(make_cluster("m2").labels(tier="gold"))
        world.settle()
        assert told == [("web-deployment", "its placement changed")]

    def test_other_conditions_stay(self) -> None:
        """Writing the Scheduled condition leaves the other conditions of the binding alone."""
        world = FleetScript(clusters=0)
        world.bind(make_binding("web"))
        world.settle()
        applied = {"type": "FullyApplied", "status": "False", "lastTransitionTime": "2025-01-01T00:00:00Z"}
        world.edit("web", {"status": {"conditions": [applied]}})
        world.cluster(make_cluster("m1"))
        world.settle()
        assert applied in world.binding("web")["status"]["conditions"]
        assert world.condition("web")["status"] == "True"

    def test_the_term_of_the_cluster_affinities_that_was_used_is_named(self) -> None:
        """The status names the affinity term used, and an event says why the first failed."""
        world = FleetScript()
        world.bind(
            make_binding("web").term("first", clusters_that("gone")).term("second", clusters_that("m2"))
        )
        world.settle()
        assert world.places("web") == {"m2": 1}
        assert world.binding("web")["status"]["schedulerObservingAffinityName"] == "second"
        failed = [message for reason, message in world.events() if reason == "ScheduleBindingFailed"]
        assert failed[0].startswith(
            "failed to schedule ResourceBinding(default/web-deployment) with clusterAffiliates index(0): 0/3"
        )


class TestWhoseBindings:
    def test_those_of_other_schedulers_are_left_alone(self) -> None:
        """Bindings for another scheduler, or for none, are not placed."""
        world = FleetScript(FleetSettings())
        world.bind(make_binding("web").scheduler("other"), make_binding("plain"))
        world.bind(make_binding("mine").scheduler("berth"))
        world.settle()
        assert (world.places("web"), world.places("plain")) == ({}, {})
        assert world.places("mine") != {}

    def test_suspended_ones_wait(self) -> None:
        """A binding whose scheduling is suspended is placed only when the suspension ends."""
        world = FleetScript()
        world.create(
            RESOURCE_BINDINGS,
            {
                "metadata": {"name": "web-deployment"},
                "spec": {
                    "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                    "suspension": {"scheduling": True},
                    "placement": {},
                },
            },
        )
        world.settle()
        assert world.places("web") == {}
        world.edit("web", {"spec": {"suspension": {"scheduling": False}}})
        world.settle()
        assert world.places("web") != {}

    def test_in_karmadas_way_only_those_a_policy_made(self) -> None:
        """With Karmada's settings only bindings that a policy claimed are placed."""
        world = FleetScript(COMPATIBLE)
        world.bind(make_binding("web"), make_binding("claimed").labels(CLAIMED))
        world.settle()
        assert world.places("web") == {}
        assert world.places("claimed") != {}

    def test_the_important_ones_come_first(self) -> None:
        """Of two bindings that wait, the one with the higher priority is placed first."""
        world = FleetScript(clusters=1)
        urgent: dict[str, Any] = {"spec": {"schedulePriority": {"priority": 10}}}
        world.held.add(RESOURCE_BINDINGS)
        world.bind(single("calm").anti_group(GROUP), single("urgent").anti_group(GROUP))
        world.edit("urgent", urgent)
        world.deliver()
        world.settle()
        assert (world.places("calm"), world.places("urgent")) == ({}, {"m1": 1})


class TestThatFitsNowhere:
    def test_what_cluster_affinity_no_longer_matches_is_left(self) -> None:
        """A binding loses the clusters it does not ask for any more, and says why it fits nowhere."""
        world = FleetScript(clusters=1)
        world.bind(make_binding("web").affinity("gone").on(m1=1))
        world.settle()
        assert world.places("web") == {}
        assert world.condition("web")["reason"] == "NoClusterFit"
        assert world.condition("web")["message"] == (
            "0/1 clusters are available: "
            "1 cluster(s) did not match the placement cluster affinity constraint."
        )

    def test_a_cluster_is_drained_by_its_label(self) -> None:
        """Whoever asks for a label leaves a cluster that loses it, and returns with the label."""
        world = FleetScript(clusters=0)
        world.cluster(make_cluster("m1").labels(tier="gold"))
        gold = clusters_that(labels={"tier": "gold"})
        world.bind(make_binding("web").affinity(to=gold))
        world.settle()
        assert world.places("web") == {"m1": 1}
        world.cluster(make_cluster("m1").labels(tier="none"))
        world.settle()
        assert world.places("web") == {}
        assert world.condition("web")["status"] == "False"
        world.cluster(make_cluster("m1").labels(tier="gold"))
        world.settle()
        assert world.places("web") == {"m1": 1}

    def test_for_want_of_room_it_keeps_the_clusters_it_has(self) -> None:
        """A binding that was scaled beyond the room there is keeps what it has."""
        world = FleetScript(clusters=0)
        world.cluster(make_cluster("m1").only(pods=4))
        world.bind(make_binding("web").replicas(3).dynamic())
        world.settle()
        assert world.places("web") == {"m1": 3}
        world.edit("web", {"spec": {"replicas": 9}})
        world.settle()
        assert world.places("web") == {"m1": 3}
        assert world.condition("web")["reason"] == "Unschedulable"

    def test_and_for_want_of_peers(self) -> None:
        """A binding whose group went where it may not follow keeps what it has."""
        world = FleetScript(clusters=3)
        world.bind(single("a").group(GROUP), single("b").group(GROUP).affinity("m1", "m3"))
        world.settle()
        world.cluster(make_cluster("m3").taint("full"))
        world.evict("a", "m1")
        world.settle()
        assert (world.places("a"), world.places("b")) == ({"m2": 1}, {"m1": 1})
        assert world.condition("b")["reason"] == "NoClusterFit"

    def test_karmada_takes_them_away(self) -> None:
        """With Karmada's settings a binding that fits nowhere loses its clusters."""
        world = FleetScript(COMPATIBLE, clusters=1)
        world.bind(make_binding("web").labels(CLAIMED).affinity("gone").on(m1=1))
        world.settle()
        assert world.places("web") == {}
        assert world.condition("web")["reason"] == "NoClusterFit"

    def test_reasons_name_the_peer_in_the_way(self) -> None:
        """The condition of a blocked binding names the peer that blocks it."""
        world = FleetScript(clusters=1)
        world.bind(single("a").anti_group(GROUP), single("b").anti_group(GROUP))
        world.settle()
        assert world.condition("b")["message"] == (
            "0/1 clusters are available: 1 cluster already has workload with the same "
            "anti-affinity group (default/a-deployment)."
        )

    def test_it_is_tried_again_when_the_peer_leaves(self) -> None:
        """A blocked binding is placed once the peer that blocks it is deleted."""
        world = FleetScript(clusters=1)
        world.bind(single("a").anti_group(GROUP), single("b").anti_group(GROUP))
        world.settle()
        world.delete(RESOURCE_BINDINGS, "a-deployment")
        world.settle()
        assert world.places("b") == {"m1": 1}

    def test_or_moves(self) -> None:
        """A blocked binding is placed once the peer that blocks it moves to another cluster."""
        world = FleetScript(clusters=1)
        world.bind(single("a").anti_group(GROUP), single("b").anti_group(GROUP))
        world.settle()
        world.edit("a", {"spec": {"clusters": [{"name": "elsewhere", "replicas": 1}]}})
        world.settle()
        assert world.places("b") == {"m1": 1}

    def test_or_gets_another_label(self) -> None:
        """A blocked binding is placed once the peer that blocks it leaves the group."""
        world = FleetScript(clusters=1)
        world.bind(single("a").anti_group(GROUP), single("b").anti_group(GROUP))
        world.settle()
        world.edit("a", {"spec": {"workloadAffinityGroups": {"antiAffinityGroup": "other=x"}}})
        world.settle()
        assert world.places("b") == {"m1": 1}

    def test_karmada_leaves_it_there(self) -> None:
        """With Karmada's settings a blocked binding is not retried when its peer leaves."""
        world = FleetScript(COMPATIBLE, clusters=1)
        world.bind(single("a").anti_group(GROUP), single("b").anti_group(GROUP))
        world.settle()
        world.delete(RESOURCE_BINDINGS, "a-deployment")
        world.advance(600)
        assert world.places("b") == {}

    def test_a_new_cluster_helps_at_once(self) -> None:
        """A binding that waits for a cluster is placed as soon as one joins."""
        world = FleetScript(clusters=0)
        world.bind(make_binding("web"))
        world.settle()
        assert world.condition("web")["message"] == "0/0 clusters are available: no cluster exists."
        world.cluster(make_cluster("m1"))
        world.settle()
        assert world.places("web") == {"m1": 1}

    def test_room_that_comes_free_helps_at_once(self) -> None:
        """A binding that waits for room is placed as soon as a cluster reports enough."""
        world = FleetScript(clusters=0)
        world.cluster(make_cluster("m1").only(pods=1))
        world.bind(make_binding("web").replicas(3).dynamic())
        world.settle()
        assert world.condition("web")["reason"] == "Unschedulable"
        world.cluster(make_cluster("m1").only(pods=5))
        world.settle()
        assert world.places("web") == {"m1": 3}

    def test_want_of_clusters_is_tried_again_after_a_while(self) -> None:
        """A binding with too few clusters for its spread is decided again after a backoff."""
        world = FleetScript(clusters=1)
        world.bind(make_binding("web").spread("cluster", 2, 2))
        world.settle()
        assert world.condition("web")["reason"] == "SchedulerError"
        before = len(world.scheduler.story.of(("default", "web-deployment")))
        world.advance(3.5)
        assert len(world.scheduler.story.of(("default", "web-deployment"))) > before

    def test_it_does_not_write_the_same_again(self) -> None:
        """Retries that fail in the same way write the binding once."""
        world = FleetScript(clusters=1)
        world.bind(make_binding("web").spread("cluster", 2, 2))
        world.advance(120)
        writes = [a for a in world.done if isinstance(a, Patch) and a.resource == RESOURCE_BINDINGS]
        assert len(writes) == 1


class TestClustersThatChange:
    def test_a_cluster_that_is_deleted_is_left(self) -> None:
        """A binding moves away from a cluster that is being deleted."""
        world = FleetScript(clusters=2)
        world.bind(single("web").affinity("m1", "m2"))
        world.settle()
        world.change(CLUSTERS, "m1", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "")
        world.settle()
        assert world.places("web") == {"m2": 1}

    def test_what_is_duplicated_comes_to_a_new_cluster(self) -> None:
        """A duplicated binding is extended to a cluster that joins later."""
        world = FleetScript(clusters=1)
        world.bind(make_binding("web"))
        world.settle()
        world.cluster(make_cluster("m2"))
        world.settle()
        assert world.places("web") == {"m1": 1, "m2": 1}

    def test_a_report_of_resources_moves_nothing(self) -> None:
        """A cluster that only reports other resources causes no write."""
        world = FleetScript()
        world.bind(make_binding("web"))
        world.settle()
        before = len(world.done)
        world.cluster(make_cluster("m1").only(pods=7))
        world.settle()
        assert len(world.done) == before

    def test_a_binding_that_names_a_deleted_cluster_is_not_dropped(self) -> None:
        """A binding on a cluster that does not exist keeps it and says that nothing fits."""
        world = FleetScript(clusters=1)
        world.bind(make_binding("web").affinity("gone").on(gone=1))
        world.settle()
        assert world.places("web") == {"gone": 1}
        assert world.condition("web")["reason"] == "NoClusterFit"


class TestPeersBeingEvicted:
    def test_they_count_as_there(self) -> None:
        """A peer that is still being evicted keeps its anti-affinity group away until it is gone."""
        world = FleetScript(clusters=2)
        world.bind(single("a").anti_group(GROUP).affinity("m2").evicting("m1"))
        world.bind(single("b").anti_group(GROUP).affinity("m1"))
        world.settle()
        assert (world.places("a"), world.places("b")) == ({"m2": 1}, {})
        world.edit("a", {"spec": {"gracefulEvictionTasks": None}})
        world.settle()
        assert world.places("b") == {"m1": 1}

    def test_not_in_karmadas_way(self) -> None:
        """With Karmada's settings a peer that is being evicted does not count."""
        world = FleetScript(COMPATIBLE, clusters=2)
        world.bind(single("a").anti_group(GROUP).affinity("m2").evicting("m1"))
        world.bind(single("b").anti_group(GROUP).affinity("m1"))
        world.settle()
        assert world.places("b") == {"m1": 1}


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


class TestWritesThatFail:
    def refuse_once(self, world: FleetScript, code: int, reason: str = "", *, done: bool = False) -> None:
        left = [1]

        def refuse(action: Action) -> Outcome | None:
            spec = isinstance(action, Patch) and action.resource == RESOURCE_BINDINGS
            if spec and not getattr(action, "subresource", "") and left:
                left.pop()
                if done:
                    world.answer(action)
                return Outcome(at=world.now, code=code, reason=reason, message="no")
            return None

        world.refuse = refuse

    @pytest.mark.parametrize(("code", "reason"), [(409, "Conflict"), (503, ""), (429, ""), (0, "")])
    def test_it_is_decided_again(self, code: int, reason: str) -> None:
        """A placement that the server refused for now is decided and written again."""
        world = FleetScript()
        self.refuse_once(world, code, reason)
        world.bind(single("web"))
        world.advance(10)
        assert len(world.places("web")) == 1

    def test_what_may_have_been_written_counts_until_it_is_known(self) -> None:
        """A write whose answer is lost still keeps the group's other member away."""
        world = FleetScript(clusters=2)
        self.refuse_once(world, 0, done=True)
        world.held.add(RESOURCE_BINDINGS)
        world.bind(single("a").anti_group(GROUP), single("b").anti_group(GROUP))
        world.deliver()
        world.held.add(RESOURCE_BINDINGS)  # the answer is lost, and the watch is slow, too
        world.advance(3)
        world.deliver()
        world.settle()
        assert {*world.places("a"), *world.places("b")} == {"m1", "m2"}

    def test_a_quota_that_is_exceeded_is_a_reason_of_its_own(self) -> None:
        """An exceeded quota shows as QuotaExceeded and is retried."""
        world = FleetScript(clusters=1)
        world.refuse = lambda action: (
            Outcome(
                at=world.now, code=403, reason="QuotaExceeded", message="FederatedResourceQuota: too much"
            )
            if isinstance(action, Patch) and not action.subresource and action.resource == RESOURCE_BINDINGS
            else None
        )
        world.bind(make_binding("web"))
        world.settle()
        assert world.condition("web")["reason"] == "QuotaExceeded"
        world.refuse = lambda _: None
        world.advance(20)
        assert world.places("web") == {"m1": 1}

    def test_a_binding_that_is_gone_meanwhile_is_forgotten(self) -> None:
        """Nothing is kept of a binding that was deleted while it was written."""
        world = FleetScript(clusters=1)
        self.refuse_once(world, 404, "NotFound")
        world.bind(single("web"))
        world.settle()
        world.delete(RESOURCE_BINDINGS, "web-deployment")
        world.advance(60)
        assert len(world.scheduler.fleet.index) == 0


class TestRulesThatTravelInAnnotations:
    RULE = json.dumps(
        {
            "workloadAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {"app": "flink"}}}
                ]
            }
        }
    )

    def flink(self, name: str) -> BindingBuilder:
        made_by = {
            "propagationpolicy.karmada.io/namespace": "default",
            "propagationpolicy.karmada.io/name": "ha",
        }
        return single(name).labels(app="flink").annotations(made_by)

    def test_on_the_policy(self) -> None:
        """An anti-affinity annotation on the policy keeps its workloads on different clusters."""
        world = FleetScript(clusters=2)
        world.create(
            POLICIES, {"metadata": {"name": "ha", "annotations": {"berth.dev/workload-affinity": self.RULE}}}
        )
        world.bind(self.flink("a"), self.flink("b"))
        world.settle()
        assert {*world.places("a"), *world.places("b")} == {"m1", "m2"}

    def test_on_the_binding(self) -> None:
        """An anti-affinity annotation on the bindings themselves keeps them on different clusters."""
        world = FleetScript(clusters=2)
        for name in "ab":
            world.bind(
                single(name).labels(app="flink").annotations({"berth.dev/workload-affinity": self.RULE})
            )
        world.settle()
        assert {*world.places("a"), *world.places("b")} == {"m1", "m2"}

    def test_a_rule_that_cannot_be_read_is_said_and_nothing_is_placed(self) -> None:
        """A misspelt annotation is named in the condition and the binding is not placed."""
        world = FleetScript(clusters=2)
        world.bind(single("a").annotations({"berth.dev/workload-affinity": '{"workloadAffinty": {}}'}))
        world.settle()
        assert world.places("a") == {}
        assert world.condition("a")["reason"] == "SchedulerError"
        assert "workloadAffinty" in world.condition("a")["message"]

    def test_nor_is_it_taken_away_where_it_is(self) -> None:
        """An annotation that cannot be read does not take a placed binding's clusters away."""
        world = FleetScript(clusters=2)
        world.bind(single("a").annotations({"berth.dev/workload-affinity": "{"}).on(m1=1))
        world.settle()
        assert world.places("a") == {"m1": 1}


def test_default_names() -> None:
    """By default only bindings for `berth` are placed, with Karmada's settings those for its default."""
    assert FleetSettings().scheduler_names == {"berth"}
    assert COMPATIBLE.scheduler_names == {DEFAULT_SCHEDULER_NAME}
