"""Kinds of workloads that the scheduler may not list: rules about their labels are refused, not ignored."""

from __future__ import annotations

from typing import Any

import pytest

from berth.fleet.scheduler.fleet_cache import unlisted_kind
from berth.fleet.scheduler.machine import PATIENCE
from berth.kube.api_resources import NAMESPACES, POLICIES, RESOURCE_BINDINGS, Resource
from berth.kube.karmada import POLICY_NAME, POLICY_NAMESPACE
from berth.kube.objects import LabelSelector
from tests.support.fleet.builders import BindingBuilder, make_binding, make_cluster, peers
from tests.support.scripts.fleet import FleetScript

GROUP = "ha.example.com/group=pipelines"
FLINK = ("flink.apache.org/v1beta1", "FlinkDeployment")
KEYED: dict[str, Any] = {"workloadAffinity": {"antiAffinity": {"groupByLabelKey": "team"}}}


def single(name: str) -> BindingBuilder:
    return make_binding(name).spread("cluster", 1, 1)


def start() -> FleetScript:
    world = FleetScript(clusters=0)
    for name in ("m1", "m2"):
        world.cluster(make_cluster(name).apis(*FLINK))
    world.scheduler.handle(unlisted_kind(FLINK, "flinkdeployments is forbidden"))
    return world


def pipeline(name: str) -> BindingBuilder:
    return make_binding(name, kind=FLINK[1], api_version=FLINK[0]).spread("cluster", 1, 1)


def state(world: FleetScript, name: str) -> tuple[bool, str]:
    binding = world.get(RESOURCE_BINDINGS, name, "default")
    (condition,) = binding["status"]["conditions"]
    return bool(binding["spec"].get("clusters")), condition["message"]


def test_who_has_a_required_rule_is_refused() -> None:
    """Its own labels, on which its rules depend, are not known."""
    world = start()
    world.bind(pipeline("a").apart_from(peers({"app": "x"})))
    world.bind(pipeline("b").near(peers({"app": "x"})))
    world.bind(pipeline("c").placement(**KEYED))
    world.bind(pipeline("free"))
    world.advance(PATIENCE)
    for name in "abc":
        placed, message = state(world, f"{name}-flinkdeployment")
        assert not placed
        assert message == (
            "its rules about other workloads cannot be followed, because FlinkDeployment of "
            "flink.apache.org/v1beta1 cannot be seen: the scheduler has to list and watch them "
            "(flinkdeployments is forbidden)"
        )
    assert state(world, "free-flinkdeployment")[0]
    assert ("ScheduleBindingFailed", message) in world.events()
    world.scheduler.handle(unlisted_kind(FLINK, None))
    world.settle()
    assert state(world, "a-flinkdeployment")[0]


@pytest.mark.parametrize("replicas", [0, 1])
def test_so_is_who_has_a_rule_about_them(replicas: int) -> None:
    """A placed pipeline may be the one that a Deployment must keep away from, replicas known or not."""
    world = start()
    world.bind(pipeline("p").replicas(replicas))
    world.settle()
    world.bind(single("web").apart_from(peers({"app": "x"})), single("free"))
    world.bind(single("far").apart_from(peers({"app": "x"}, namespaces=["other"])))
    world.advance(PATIENCE)
    assert (world.places("web"), len(world.places("free")), len(world.places("far"))) == ({}, 1, 1)
    assert "FlinkDeployment" in world.condition("web")["message"]


def test_mere_objects_hold_up_nobody() -> None:
    """A ConfigMap is no workload."""
    world = start()
    world.scheduler.handle(unlisted_kind(("v1", "ConfigMap"), "configmaps is forbidden"))
    world.cluster(make_cluster("m1").apis(*FLINK).apis("v1", "ConfigMap"))
    world.bind(make_binding("settings", kind="ConfigMap", api_version="v1").replicas(0))
    world.settle()
    world.bind(single("web").apart_from(peers({"app": "x"})))
    world.settle()
    assert len(world.places("web")) == 1
    assert state(world, "settings-configmap")[0]


def test_karmadas_own_groups_hold_up_nobody() -> None:
    """Who is in a group was told by Karmada."""
    world = start()
    world.bind(pipeline("p").anti_group(GROUP), pipeline("q").anti_group(GROUP))
    world.settle()
    assert state(world, "p-flinkdeployment")[0]
    assert state(world, "q-flinkdeployment")[0]


def test_so_is_whom_somebody_may_keep_off() -> None:
    """A required rule of a workload that is placed holds for newcomers, too, whose labels are not known."""
    world = start()
    world.bind(single("web").apart_from(peers({"app": "x"})))
    world.settle()
    world.bind(pipeline("p"))
    world.advance(PATIENCE)
    placed, message = state(world, "p-flinkdeployment")
    assert (placed, "FlinkDeployment" in message) == (False, True)
    world.scheduler.handle(unlisted_kind(FLINK, None))
    world.settle()
    assert state(world, "p-flinkdeployment")[0]


def test_a_short_trouble_is_waited_out() -> None:
    """Nobody is refused, and no event written, for a server that is back at once."""
    world = start()
    world.bind(pipeline("a").apart_from(peers({"app": "x"})))
    world.advance(PATIENCE / 2)
    world.scheduler.handle(unlisted_kind(FLINK, None))
    world.settle()
    assert state(world, "a-flinkdeployment")[0]
    assert [reason for reason, _ in world.events()] == ["ScheduleBindingSucceed"]


def fails(world: FleetScript, resource: Resource, why: str | None) -> None:
    world.scheduler.handle(unlisted_kind((resource.api_version, resource.kind), why))


@pytest.mark.parametrize("resource", [NAMESPACES, RESOURCE_BINDINGS])
def test_what_rules_depend_on_besides_workloads(resource: Resource) -> None:
    """A rule waits until it is known which namespaces it selects, and where others are."""
    world = FleetScript()
    fails(world, resource, "forbidden")
    everywhere = peers({"app": "x"}, namespace_selector=LabelSelector())
    world.bind(single("web").apart_from(everywhere), single("free"))
    world.advance(PATIENCE)
    assert (len(world.places("web")), len(world.places("free"))) == (0, 1)
    assert f"{resource.kind} of {resource.api_version}" in world.condition("web")["message"]
    fails(world, resource, None)
    world.settle()
    assert len(world.places("web")) == 1


def test_a_policy_that_is_not_seen_yet_is_waited_for() -> None:
    """Rules may stand in its annotation: a binding waits for it, and is refused if policies fail."""
    world = FleetScript()
    named = {POLICY_NAMESPACE: "default", POLICY_NAME: "p"}
    world.bind(single("a").annotations(named))
    world.settle()
    assert world.places("a") == {}
    world.create(POLICIES, {"metadata": {"name": "p", "namespace": "default"}})
    world.settle()
    assert len(world.places("a")) == 1
    fails(world, POLICIES, "forbidden")
    world.bind(single("b").annotations(named), single("c").annotations({**named, POLICY_NAME: "other"}))
    world.advance(PATIENCE)
    assert (len(world.places("b")), len(world.places("c"))) == (1, 0)
    assert "PropagationPolicy" in world.condition("c")["message"]
    fails(world, POLICIES, None)
    world.settle()
    assert len(world.places("c")) == 1
