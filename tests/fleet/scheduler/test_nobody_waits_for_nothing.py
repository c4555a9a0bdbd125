"""States from which a binding must find its way out: claims, groups, answers that overtake the watch."""

from __future__ import annotations

import json
from typing import Any

import pytest

from berth.fleet.scheduler import FleetSettings
from berth.kube.api_resources import CLUSTERS, LEASES, NAMESPACES, RESOURCE_BINDINGS
from berth.machines.contract import Action, Create, Outcome, Patch
from tests.support.fleet.builders import BindingBuilder, make_binding, make_cluster
from tests.support.scripts.fleet import OURS, FleetScript

GROUP = "ha.example.com/group=pipelines"
ANNOTATION = "berth.dev/workload-affinity"


def single(name: str) -> BindingBuilder:
    return make_binding(name).spread("cluster", 1, 1)


def apart_from(app: str, **more: Any) -> str:
    term = {"labelSelector": {"matchLabels": {"app": app}}, **more}
    return json.dumps({"workloadAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})


def is_placement(action: Action, name: str) -> bool:
    return isinstance(action, Patch) and action.name == f"{name}-deployment" and "spec" in action.body


class TestClaimsThatAreOver:
    @pytest.mark.parametrize("after", [0.0, 60.0])
    def test_a_group_moves_whoever_of_it_is_evicted_first(self, after: float) -> None:
        """A group moves together whichever member is evicted first."""
        world = FleetScript()
        world.bind(single("a").group(GROUP), single("b").group(GROUP))
        world.advance(after)
        world.evict("b", "m1")
        world.advance(30)
        assert world.places("a") == world.places("b") == {"m2": 1}

    def test_who_claimed_the_group_may_have_left_it(self) -> None:
        """A claim does not bind the group to a member that has left it."""
        world = FleetScript()
        world.bind(single("a").group(GROUP))
        world.advance(60)
        world.edit("a", {"spec": {"workloadAffinityGroups": {"affinityGroup": "other=x"}}})
        world.bind(single("b").group(GROUP).affinity("m2"))
        world.advance(30)
        assert world.places("b") == {"m2": 1}

    def test_who_has_the_claim_may_not_fit_any_more(self) -> None:
        """A member that claimed its group and then fits nowhere does not hold up the others."""
        world = FleetScript(clusters=2)

        def break_m1(action: Action) -> Outcome | None:
            if action.resource != LEASES or not isinstance(action, Create):
                return None
            world.refuse = lambda _: None
            world.cluster(make_cluster("m1").taint("broken"))
            return world.answer(action)

        world.refuse = break_m1
        world.bind(single("a").group(GROUP).affinity("m1"), single("b").group(GROUP).affinity("m2"))
        world.advance(60)
        assert (world.places("a"), world.places("b")) == ({}, {"m2": 1})

    def test_nor_may_it_be_allowed_where_it_fits(self) -> None:
        """A member that a quota keeps from its cluster does not hold up the others."""
        world = FleetScript(clusters=2)
        world.refuse = lambda action: (
            Outcome(at=world.now, code=403, reason="QuotaExceeded", message="FederatedResourceQuota: full")
            if is_placement(action, "a")
            else None
        )
        world.bind(single("a").group(GROUP), single("b").group(GROUP))
        world.advance(120)
        assert (world.places("a"), len(world.places("b"))) == ({}, 1)
        assert world.condition("a")["reason"] == "QuotaExceeded"

    @pytest.mark.parametrize(
        "change",
        [
            {"spec": {"suspension": {"scheduling": True}}},
            {"spec": {"schedulerName": "other"}},
            {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
        ],
    )
    def test_or_be_none_of_ours_meanwhile(self, change: dict[str, Any]) -> None:
        """A member that is suspended, deleted or handed over does not hold up the others."""
        world = FleetScript(clusters=2)
        world.refuse = lambda action: Outcome(at=world.now, code=503) if action.resource == LEASES else None
        world.bind(single("a").group(GROUP), single("b").group(GROUP))
        world.advance(1)
        world.edit("a", change)
        world.refuse = lambda _: None
        world.advance(60)
        assert (world.places("a"), len(world.places("b"))) == ({}, 1)


class TestWhoeverIsBlocked:
    def test_gets_rid_of_its_own_rule(self) -> None:
        """A binding blocked by its own annotation is placed when the annotation goes."""
        world = FleetScript(clusters=1)
        world.bind(single("a").labels(app="flink"))
        world.settle()
        world.bind(single("b").annotations({ANNOTATION: apart_from("flink")}))
        world.settle()
        assert world.places("b") == {}
        world.edit("b", {"metadata": {"annotations": {ANNOTATION: None}}})
        world.settle()
        assert world.places("b") == {"m1": 1}

    def test_or_of_the_label_that_is_in_the_way(self) -> None:
        """A binding blocked by a peer's rule is placed when its own label changes."""
        world = FleetScript(clusters=1)
        world.bind(single("a").annotations({ANNOTATION: apart_from("flink")}))
        world.settle()
        world.bind(single("b").labels(app="flink"))
        world.settle()
        assert world.places("b") == {}
        world.edit("b", {"metadata": {"labels": {"app": "web"}}})
        world.settle()
        assert world.places("b") == {"m1": 1}

    def test_or_a_namespace_is_selected_no_longer(self) -> None:
        """A blocked binding is placed when the namespace of its peer is no longer selected."""
        world = FleetScript(clusters=1)
        world.create(NAMESPACES, {"metadata": {"name": "other", "labels": {"team": "red"}}})
        world.bind(single("a").namespace("other").labels(app="flink"))
        world.settle()
        rule = apart_from("flink", namespaceSelector={"matchLabels": {"team": "red"}})
        world.bind(single("b").annotations({ANNOTATION: rule}))
        world.settle()
        assert world.places("b") == {}
        world.change(NAMESPACES, "other", {"metadata": {"labels": {"team": "blue"}}}, "")
        world.settle()
        assert world.places("b") == {"m1": 1}

    def test_says_so_in_a_message_that_is_not_too_long_for_a_condition(self) -> None:
        """A message is cut to what a condition takes, and written once."""
        world = FleetScript(clusters=0)
        for number in range(200):
            world.cluster(make_cluster(f"c{number}").taint("taken", f"{number}-{'x' * 200}"))
        world.bind(make_binding("z"))
        world.advance(30)
        assert len(world.condition("z")["message"]) == 32768
        writes = [a for a in world.done if isinstance(a, Patch) and a.name == "z-deployment"]
        assert len(writes) == 1


class TestClustersThatAreGone:
    def test_what_was_divided_over_them_is_divided_anew(self) -> None:
        """The replicas of a cluster that is gone are divided among the others."""
        world = FleetScript(clusters=3)
        world.bind(make_binding("web").replicas(6).dynamic())
        world.settle()
        assert world.places("web") == {"m1": 2, "m2": 2, "m3": 2}
        world.delete(CLUSTERS, "m1")
        world.settle()
        assert world.places("web") == {"m2": 3, "m3": 3}

    def test_karmada_looks_only_for_those_that_are_going(self) -> None:
        """With Karmada's settings a cluster that is already gone stays a target."""
        world = FleetScript(FleetSettings.compatible(), clusters=3)
        claimed = {"propagationpolicy.karmada.io/permanent-id": "p"}
        world.bind(make_binding("web").labels(claimed).replicas(6).dynamic())
        world.settle()
        world.delete(CLUSTERS, "m1")
        world.advance(60)
        assert world.places("web") == {"m1": 2, "m2": 2, "m3": 2}


class TestAnswersThatOvertakeTheWatch:
    def test_a_change_that_only_an_answer_shows_is_acted_on(self) -> None:
        """The status is written over a newer spec; when the watch shows it, it is nothing new."""
        world = FleetScript(OURS, clusters=1)
        world.bind(make_binding("web").replicas(2).dynamic())
        world.settle()

        def scale(action: Action) -> Outcome | None:
            if isinstance(action, Patch) and action.subresource:
                world.refuse = lambda _: None
                world.held.add(RESOURCE_BINDINGS)
                world.edit("web", {"spec": {"replicas": 5}})
            return None

        world.refuse = scale
        world.edit("web", {"spec": {"schedulePriority": {"priority": 1}}})
        world.settle()
        world.deliver()
        world.settle()
        assert world.places("web") == {"m1": 5}

    def test_nor_is_a_change_lost_that_the_watch_shows_before_the_answer(self) -> None:
        """What the answer says was decided on is an older generation by then."""
        world = FleetScript(OURS, clusters=1)

        def overtake(action: Action) -> Outcome | None:
            if not is_placement(action, "web"):
                return None
            world.refuse = lambda _: None
            answer = world.answer(action)
            world.edit("web", {"spec": {"replicas": 5}})
            return answer

        world.refuse = overtake
        world.bind(make_binding("web").replicas(2).dynamic())
        world.advance(5)
        assert world.places("web") == {"m1": 5}

    def test_a_refused_placement_is_tried_again_though_to_say_so_took_two_attempts(self) -> None:
        """A conflict while reporting a failure does not end the retries."""
        world = FleetScript(clusters=1)
        answers = [(403, "Forbidden"), (409, "Conflict")]

        def refuse(action: Action) -> Outcome | None:
            if not answers or action.resource != RESOURCE_BINDINGS:
                return None
            code, reason = answers.pop(0)
            return Outcome(at=world.now, code=code, reason=reason, message="no")

        world.refuse = refuse
        world.bind(make_binding("web"))
        world.held.add(RESOURCE_BINDINGS)
        world.advance(10)
        assert world.places("web") == {"m1": 1}

    def test_it_becomes_known_where_a_peer_is_that_was_suspended_meanwhile(self) -> None:
        """A lost answer for a binding since suspended does not block its group."""
        world = FleetScript(clusters=1)

        def lose(action: Action) -> Outcome | None:
            if not is_placement(action, "a"):
                return None
            world.refuse = lambda _: None
            world.edit("a", {"spec": {"suspension": {"scheduling": True}}})
            return Outcome(at=world.now, code=0)

        world.refuse = lose
        world.bind(single("a").group(GROUP), single("b").group(GROUP))
        world.advance(60)
        assert (world.places("a"), world.places("b")) == ({}, {"m1": 1})
