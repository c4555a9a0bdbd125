"""Components of different versions together: each has or lacks the execution-time rule, in every combination.

Half a cluster that is upgraded must not hurt the other half, whatever runs there: nothing goes round in
circles without ever waiting longer.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import click
import pytest

from berth.cli.up.control_plane import ComponentGates, read_gates
from berth.kube.api_resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    LEASES,
    NODES,
    PODS,
    STATEFUL_SETS,
)
from berth.kube.gates import FeatureGates
from berth.machines.contract import Create
from tests.support.builders import EXECUTION
from tests.support.scripts.plane import PlaneScript
from tests.support.scripts.script import image_of, new_image, workload

COMPONENTS = ("server", "scheduler", "controllers", "kubelet")
COMBINATIONS = [
    frozenset(itertools.compress(COMPONENTS, chosen)) for chosen in itertools.product((1, 0), repeat=4)
]
TERMS = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "ok", "operator": "Exists"}]}]}
RULE = {"nodeAffinity": {EXECUTION: TERMS}}
WORKLOADS = {"Deployment": DEPLOYMENTS, "StatefulSet": STATEFUL_SETS, "DaemonSet": DAEMON_SETS, "Job": JOBS}
every_combination = pytest.mark.parametrize(
    "having", COMBINATIONS, ids=lambda having: "+".join(sorted(having)) or "none"
)


def cluster(having: frozenset[str], kind: str, *, fits: bool) -> PlaneScript:
    """A workload whose rule holds on the node `good` alone, and that only where there is it."""
    chosen = {name: FeatureGates(node_affinity_eviction=name in having) for name in COMPONENTS}
    world = PlaneScript(ComponentGates(**chosen))
    for name, labels in {"bad-1": {}, "bad-2": {}, **({"good": {"ok": ""}} if fits else {})}.items():
        world.create(NODES, {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {}})
    world.settle()
    if kind == "Pod":
        containers = [{"name": "c", "image": "i"}]
        world.create(PODS, {"metadata": {"name": "p"}, "spec": {"containers": containers, "affinity": RULE}})
    elif kind == "Job":
        template = workload("p", pod={"affinity": RULE, "restartPolicy": "Never"})["spec"]["template"]
        world.create(JOBS, {"metadata": {"name": "p"}, "spec": {"template": template}})
    else:
        replicas = None if kind == "DaemonSet" else 1
        world.create(WORKLOADS[kind], workload("p", replicas, pod={"affinity": RULE}))
    return world


def placed(world: PlaneScript, phase: str = "Running") -> set[str]:
    """The nodes of the pods in a phase."""
    names = world.phases(phase)
    return {world.get(PODS, name)["spec"].get("nodeName", "") for name in names}


@every_combination
@pytest.mark.parametrize("kind", ["Pod", *WORKLOADS])
def test_nothing_goes_round_in_a_hot_loop(having: frozenset[str], kind: str) -> None:
    """However the components disagree, ten minutes bring a few dozen requests, fewer in the second half."""
    world = cluster(having, kind, fits=False)
    world.advance(300)
    first = writes(world)
    world.done.clear()
    world.advance(300)
    second = writes(world)
    assert first["Create"] <= 30
    assert second["Create"] <= 8
    assert first.total() <= 150


def writes(world: PlaneScript) -> Counter[str]:
    """What was asked of the server, by verb, without what hollow nodes do all the time."""
    return Counter(
        type(action).__name__ for action in world.done if action.resource not in (LEASES, EVENTS, NODES)
    )


def test_a_job_that_the_kubelet_refuses_waits_longer_each_time() -> None:
    """Its pods come after 10 s, 20 s, 40 s …, not all at once."""
    world = cluster(frozenset(COMPONENTS) - {"scheduler", "controllers"}, "Job", fits=False)
    refused = []
    for pause in (9, 10, 20, 40):
        world.advance(pause)
        refused.append(len(world.phases("Failed")))
    assert refused == [1, 2, 3, 4]


@every_combination
def test_where_a_pod_goes(having: frozenset[str]) -> None:
    """Without the server there is no rule; without the scheduler it is not looked at when a pod is placed."""
    world = cluster(having, "Pod", fits=False)
    world.advance(60)
    if "server" not in having:
        assert placed(world) & {"bad-1", "bad-2"}
    elif "scheduler" in having:
        assert world.phases("Pending") == ["p"]
    elif "kubelet" in having:
        assert world.phases("Failed") == ["p"]
    else:
        assert bool(placed(world)) != ("controllers" in having)  # nobody makes an evicted pod again


@every_combination
def test_where_a_deployment_runs(having: frozenset[str]) -> None:
    """It runs where it should if the server and the scheduler know the rule, and somewhere without."""
    world = cluster(having, "Deployment", fits=True)
    world.advance(60)
    if having >= {"server", "scheduler"}:
        assert placed(world) == {"good"}
    elif "server" not in having or not having & {"controllers", "kubelet"}:
        assert len(world.phases("Running")) == 1


@every_combination
def test_where_daemons_run(having: frozenset[str]) -> None:
    """The nodes of daemons are chosen by the controllers, if the server stored the rule."""
    world = cluster(having, "DaemonSet", fits=True)
    world.advance(60)
    if having >= {"server", "controllers"}:
        assert placed(world) == {"good"}
        assert world.phases("Pending") == []
    else:
        assert "good" in placed(world)
        ignored = "server" not in having or not having & {"scheduler", "kubelet"}
        assert ("bad-1" in placed(world)) is ignored


@every_combination
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet"])
def test_a_rollout_after_the_servers_gate_was_switched_off(having: frozenset[str], kind: str) -> None:
    """What is stored keeps the rule, new pods do not get it; the rollout ends, and is made once."""
    world = cluster(having | {"server"}, kind, fits=True)
    world.advance(60)
    world.upgrade(server=FeatureGates(node_affinity_eviction=False))
    world.done.clear()
    world.change(WORKLOADS[kind], "p", new_image("v2"))
    world.advance(300)
    assert EXECUTION in str(world.get(WORKLOADS[kind], "p"))
    running = [pod for pod in world.all(PODS) if pod["status"].get("phase") == "Running"]
    assert {image_of(pod) for pod in running} == {"v2"}
    assert EXECUTION not in str(running)
    assert writes(world)["Create"] <= 6


# --- the options ----------------------------------------------------------------------------------


def given(**options: str) -> dict[str, Any]:
    names = ("feature_gates", *(f"{component}_feature_gates" for component in COMPONENTS))
    return {**dict.fromkeys(names, ""), **options}


def test_a_component_has_what_everybody_has_and_its_own_gates_on_top() -> None:
    """What --feature-gates says holds for all, except where a component's option says otherwise."""
    gates = read_gates(
        given(
            feature_gates="NodeAffinityEviction=false,EvenPodsSpread=false",
            scheduler_feature_gates="NodeAffinityEviction=true",
            kubelet_feature_gates="AllBeta=true",
        )
    )
    assert gates.server == gates.controllers
    assert str(gates.server) == (
        "NodeAffinityEviction=false,PodAffinityEviction=true,EvenPodsSpread=false,KeepSpread=true"
    )
    assert (gates.scheduler.node_affinity_eviction, gates.scheduler.even_pods_spread) == (True, False)
    assert gates.kubelet == FeatureGates(keep_spread=True)


def test_an_error_names_the_option() -> None:
    """A gate that there is not is refused with the option it was given in."""
    with pytest.raises(
        click.ClickException, match="--kubelet-feature-gates: unrecognized feature gate: Nope"
    ):
        read_gates(given(kubelet_feature_gates="Nope=true"))


def test_the_script_stores_like_the_server() -> None:
    """A stored pod or template has the rule only if the server's gate is on, whoever made it."""
    for having in (frozenset(COMPONENTS), frozenset(COMPONENTS) - {"server"}):
        world = cluster(having, "Deployment", fits=True)
        world.settle()
        made = [action for action in world.done if isinstance(action, Create) and action.resource is PODS]
        for stored in (world.all(PODS), world.all(DEPLOYMENTS), made[0].body):
            assert (EXECUTION in str(stored)) is ("server" in having)
