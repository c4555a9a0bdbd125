"""The fleet scheduler as a state machine: what is decided, written, said and retried."""

from __future__ import annotations

import json
from typing import Any

import pytest

from berth.fleet.scheduler import FleetScheduler, FleetSettings
from berth.kube.api_resources import CLUSTER_BINDINGS, POLICIES, RESOURCE_BINDINGS
from berth.kube.karmada import APPLIED_PLACEMENT
from berth.kube.well_known import DEFAULT_SCHEDULER_NAME
from berth.machines.contract import Action, Outcome, Patch
from tests.support.fleet.builders import BindingBuilder, clusters_that, make_binding, make_cluster
from tests.support.scripts.fleet import CLAIMED, COMPATIBLE, GROUP, OURS, FleetScript, single
from tests.support.scripts.script import verbs


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
