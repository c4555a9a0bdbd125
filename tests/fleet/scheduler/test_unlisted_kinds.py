"""Kinds of workloads that the scheduler may not list: rules about their labels are refused, not ignored."""

from __future__ import annotations

from typing import Any

import pytest

from berth.fleet.scheduler.fleet_cache import unlisted_kind
from berth.kube.api_resources import RESOURCE_BINDINGS
from tests.fleet.builders import BindingBuilder, make_binding, make_cluster, peers
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
    world.settle()
    for name in "abc":
        placed, message = state(world, f"{name}-flinkdeployment")
        assert not placed
        assert message == (
            "its rules about other workloads cannot be followed, because the labels of FlinkDeployment of "
            "flink.apache.org/v1beta1 may not be seen: let the scheduler list and watch them "
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
    world.settle()
    assert (world.places("web"), len(world.places("free")), len(world.places("far"))) == ({}, 1, 1)
    assert "FlinkDeployment" in world.condition("web")["message"]


def test_mere_objects_and_karmadas_own_groups_hold_up_nobody() -> None:
    """A ConfigMap is no workload; and who is in a group was told by Karmada."""
    world = start()
    world.scheduler.handle(unlisted_kind(("v1", "ConfigMap"), "configmaps is forbidden"))
    world.cluster(make_cluster("m1").apis(*FLINK).apis("v1", "ConfigMap"))
    world.bind(make_binding("settings", kind="ConfigMap", api_version="v1").replicas(0))
    world.settle()
    world.bind(single("web").apart_from(peers({"app": "x"})))
    world.settle()
    assert len(world.places("web")) == 1
    world.bind(pipeline("p").anti_group(GROUP), pipeline("q").anti_group(GROUP))
    world.settle()
    assert state(world, "p-flinkdeployment")[0]
    assert state(world, "q-flinkdeployment")[0]
    assert state(world, "settings-configmap")[0]
