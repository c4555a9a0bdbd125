"""Counters by pod stay within bounds."""

from __future__ import annotations

import pytest

from berth.engine.state.options import Options
from berth.eviction import EvictionMetrics, EvictionSettings
from berth.eviction.reports import MOST_PODS
from berth.eviction.state import NODE_KIND
from berth.kube.api_resources import EVENTS, NAMESPACES, PODS
from berth.kube.gates import FeatureGates
from berth.kube.well_known import RELEASE_ANNOTATION
from berth.machines.contract import Create
from tests.support.scripts.eviction import EvictionScript, apart_from, needs_label
from tests.support.scripts.script import Raw


def test_the_pods_that_failed_last_are_told_apart() -> None:
    """The one that failed longest ago is left out when there are too many."""
    metrics = EvictionMetrics()
    failures = metrics.failures[NODE_KIND]
    for number in range(MOST_PODS):
        failures.inc(f"p{number}", "default")
    failures.inc("p0", "default")
    failures.inc("new", "default")

    def value(pod: str) -> float | None:
        labels = {"pod": pod, "namespace": "default"}
        return metrics.registry.get_sample_value("pod_failed_eviction_node_affinity_total", labels)

    assert (value("p0"), value("p1"), value("p2"), value("new")) == (2, None, 1, 1)


@pytest.mark.parametrize(("rule", "who"), [(needs_label("disk"), "node"), (apart_from("web"), "pod")])
def test_events_come_from_the_controller_of_their_kind(rule: Raw, who: str) -> None:
    """`node-affinity-eviction` and `pod-affinity-eviction`, also where an eviction is refused or halted."""
    world = EvictionScript(EvictionSettings(halt_above=1, max_share=0.1))
    world.labelled("n", disk="ssd")
    world.budget("never", "web", allowed=0)
    for name in "abc":
        world.pod(name, "n", rule, app="web" if name == "a" else "b")
    world.settle()
    world.relabel("n", disk=None)
    for name in "abc":
        world.change(PODS, name, {"metadata": {"labels": {"app": "web"}}})
    world.settle()
    world.change(NAMESPACES, "kube-system", {"metadata": {"annotations": {RELEASE_ANNOTATION: "*"}}})
    world.advance(5)
    events = [
        action.body for action in world.done if isinstance(action, Create) and action.resource == EVENTS
    ]
    assert {event["reason"] for event in events} >= {
        "EvictionsHalted",
        f"Failed{who.capitalize()}AffinityEviction",
    }
    for event in events:
        if event["reason"] != "EvictionsResumed":
            assert event["source"] == {"component": f"{who}-affinity-eviction"}
            assert event["reportingComponent"] == f"{who}-affinity-eviction"


def test_the_controllers_that_run_are_shown() -> None:
    """By their names; a gate that is off switches one of them off."""
    gates = FeatureGates(pod_affinity_eviction=False)
    world = EvictionScript(EvictionSettings(options=Options(gates=gates)))
    registry = world.machine.metrics.registry
    shown = {
        name: registry.get_sample_value("running_managed_controllers", {"name": name})
        for name in ("node-affinity-eviction", "pod-affinity-eviction")
    }
    assert shown == {"node-affinity-eviction": 1, "pod-affinity-eviction": 0}
