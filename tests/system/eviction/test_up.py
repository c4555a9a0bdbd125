"""Execution-time node affinity on `berth up`: scheduling, eviction, budgets, DaemonSets, and the gate."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from functools import partial

import pytest

from tests.support.api.client import Json
from tests.support.api.servers import REAL, started
from tests.support.builders import EXECUTION, HOSTNAME, make_pod
from tests.support.processes.controllers import metrics
from tests.support.worlds.control_plane import APPS, ControlPlane, PlaneWorld, hollow
from tests.system.eviction.scenario import (
    NO_MATCH,
    POLICY,
    budget,
    evicted,
    is_gone,
    is_ready,
    native,
    nine_steps,
    numbers_ready,
    of_app,
    running,
    tenant,
    uid_of,
    unlabel,
    version,
)

pytestmark = pytest.mark.skipif(REAL, reason="it brings its own API server")

ON, OFF = "NodeAffinityEviction=true", "NodeAffinityEviction=false"
# Those who stay: evictions are halted where most of the pods would go.
BYSTANDERS = 20
_numbers = itertools.count()


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with started(lambda folder: ControlPlane(folder, "", "-v", "4")) as running_plane:
        yield running_plane


@pytest.fixture
def world(plane: ControlPlane) -> Iterator[PlaneWorld]:
    made = PlaneWorld(plane, f"test-{next(_numbers)}")
    made.nodes(hollow("bystander"))
    for number in range(BYSTANDERS):
        made.pod(make_pod(f"bystander-{number}").on("bystander"))
    yield made
    made.clear()


@pytest.fixture
def fresh() -> Iterator[PlaneWorld]:
    """A control plane of the test's own, with the feature disabled."""
    with started(lambda folder: ControlPlane(folder, OFF)) as own:
        made = PlaneWorld(own, "upgrade")
        yield made
        made.client.close()


def rule(pod: Json) -> Json | None:
    affinity = pod["spec"].get("affinity") or {}
    found: Json | None = (affinity.get("nodeAffinity") or {}).get(EXECUTION)
    return found


def nodes_of(world: PlaneWorld, app: str) -> list[str]:
    """Where the pods of an app are that run and stay."""
    return sorted(pod["spec"]["nodeName"] for pod in of_app(world, app) if is_ready(pod))


def _runs(world: PlaneWorld, app: str, count: int) -> bool:
    return len(nodes_of(world, app)) == count


def pods_made(world: PlaneWorld, since: str) -> int:
    """How many pods were created after a version."""
    path = world.path("pods")
    with world.client.watching(path, resourceVersion=since, timeoutSeconds=1) as watch:
        return sum(change["type"] == "ADDED" for change in watch.rest())


def is_judged(world: PlaneWorld, name: str) -> None:
    """Wait until the controllers have dealt with all that was before: another kind of rule is broken last."""
    world.nodes(hollow(f"{name}-node", only=name))
    apart = (
        make_pod(name)
        .node_selector(only=name)
        .anti_affinity_to({"loud": name}, topology=HOSTNAME, during_execution=True)
    )
    pod = world.add_pod(native(apart))
    world.pod(make_pod(f"{name}-neighbour").node_selector(only=name))
    for each in (name, f"{name}-neighbour"):
        running(world, each)
    world.patch_pod(f"{name}-neighbour", {"metadata": {"labels": {"loud": name}}})
    world.until(lambda: is_gone(world, pod), f"{name} is evicted")


# --- scheduling and execution -----------------------------------------------------------------------


def test_a_rule_holds_while_a_pod_is_placed_and_while_it_runs(world: PlaneWorld) -> None:
    """A pod whose rule stops holding is evicted, and the next waits for a node where it holds."""
    nine_steps(world, native, hollow, starts=True)
    running(world, "web")


def test_the_pod_says_why_it_goes(world: PlaneWorld) -> None:
    """Its condition has a reason of its own, also after the eviction."""
    world.nodes(hollow("old", team="b"))
    body = native(tenant("web", team="b"))
    world.add_pod({**body, "metadata": {**body["metadata"], "finalizers": ["example.com/look"]}})
    running(world, "web")
    unlabel(world, "old", "team")

    def reason() -> bool:
        pod = world.get_pod("web")
        conditions = {one["type"]: one for one in pod["status"]["conditions"]}
        target = conditions.get("DisruptionTarget", {})
        return "deletionTimestamp" in pod["metadata"] and (
            target.get("reason") == "RequiredNodeAffinityViolation" and target["status"] == "True"
        )

    world.until(reason, "the pod has the condition")


def test_a_pod_that_stops_at_once_says_why_it_goes(world: PlaneWorld) -> None:
    """The reason is the last that is known of it, and the event comes from the controller."""
    world.nodes(hollow("old", team="b"))
    pod = world.add_pod(native(tenant("web", team="b")))
    running(world, "web")
    since = version(world)
    unlabel(world, "old", "team")
    event = evicted(world, pod)
    assert event["source"]["component"] == "node-affinity-eviction"
    with world.client.watching(world.path("pods"), resourceVersion=since, timeoutSeconds=1) as watch:
        changes = [
            change for change in watch.rest() if change["object"]["metadata"].get("uid") == uid_of(pod)
        ]
    reasons = [
        condition["reason"]
        for change in changes
        for condition in change["object"]["status"].get("conditions", ())
        if condition["type"] == "DisruptionTarget"
    ]
    assert changes[-1]["type"] == "DELETED"
    assert set(reasons) == {"RequiredNodeAffinityViolation"}


def test_decisions_are_logged_and_counted(world: PlaneWorld) -> None:
    """Evictions are logged with pod, rule, node and label, and counted beside the scheduler's."""
    world.nodes(hollow("old", team="b"))
    pod = world.add_pod(native(tenant("web", team="b")))
    running(world, "web")
    unlabel(world, "old", "team")
    evicted(world, pod)

    about = f'pod="{world.namespace}/web" rule="spec.affinity.nodeAffinity.{EXECUTION}" node="old"'
    cause = 'cause="team=b, the node has no label team"'
    log = world.backend.log("up", characters=100_000)
    for decision in ("Rule broken", "Evicting pod", "Evicted pod"):
        assert f'"{decision}" {about} {cause}' in log
    served = metrics(world.backend.metrics_port)
    assert re.search(r"^evictions_node_affinity_total [1-9]", served, re.MULTILINE)
    assert "scheduler_schedule_attempts_total" in served


def test_another_label_of_the_node_concerns_nobody(world: PlaneWorld) -> None:
    """Removing a label no rule names evicts nobody."""
    world.nodes(hollow("n", team="b", colour="red"))
    world.add_pod(native(tenant("web", team="b")))
    pod = running(world, "web")
    unlabel(world, "n", "colour")
    is_judged(world, "marker")
    assert not is_gone(world, pod)


def test_a_pod_stays_as_long_as_its_budget_forbids(world: PlaneWorld) -> None:
    """It is asked for again when the budget changes."""
    world.nodes(hollow("old", team="b"))
    world.add_pod(native(tenant("web", team="b")))
    pod = running(world, "web")
    budget(world, "web", minAvailable=1)
    path = world.path("poddisruptionbudgets", "web", POLICY)
    world.until(lambda: world.get(path).get("status", {}).get("currentHealthy") == 1, "the budget knows it")

    unlabel(world, "old", "team")
    (event, *_) = world.events("web", "FailedNodeAffinityEviction")
    assert event["type"] == "Warning"
    assert "budget" in event["message"]
    assert not is_gone(world, pod)

    world.patch(path, {"spec": {"minAvailable": 0}})
    evicted(world, pod)


def test_a_pod_that_matches_again_is_left_alone(world: PlaneWorld) -> None:
    """A pod whose label is back is not evicted when the budget allows it later."""
    world.nodes(hollow("old", team="b"))
    world.add_pod(native(tenant("web", team="b")))
    pod = running(world, "web")
    budget(world, "web", minAvailable=1)
    unlabel(world, "old", "team")
    world.events("web", "FailedNodeAffinityEviction")

    world.label_node("old", team="b")
    world.patch(world.path("poddisruptionbudgets", "web", POLICY), {"spec": {"minAvailable": 0}})
    is_judged(world, "marker")
    assert not is_gone(world, pod)


# --- the user story -----------------------------------------------------------------------------------


def test_a_tenant_moves_to_its_own_nodes(world: PlaneWorld) -> None:
    """User B's pods leave the shared nodes, never fewer of them ready than promised; user A's stay."""
    shared = ("shared-1", "shared-2")
    world.nodes(*(hollow(name, userA="allow", userB="allow") for name in shared))
    for app, key in (("usera", "userA"), ("userb", "userB")):
        world.add_workload("deployments", app, native(tenant("any", **{key: "allow"})), replicas=3)
    for app in ("usera", "userb"):
        world.until(partial(_runs, world, app, 3), f"{app} runs")
    budget(world, "userb", minAvailable=2)
    stays = {uid_of(pod) for pod in of_app(world, "usera")}
    moves = {uid_of(pod) for pod in of_app(world, "userb")}

    since = version(world)
    world.nodes(hollow("own-1", userB="allow"), hollow("own-2", userB="allow"))
    for name in shared:
        unlabel(world, name, "userB")
    world.until(lambda: set(nodes_of(world, "userb")) <= {"own-1", "own-2"}, "user B leaves")
    world.until(partial(_runs, world, "userb", 3), "user B has moved")
    assert min(numbers_ready(world, ["userb"], since, moves)) == 2
    assert {uid_of(pod) for pod in of_app(world, "usera")} == stays


# --- DaemonSets -----------------------------------------------------------------------------------


def test_a_daemon_pod_leaves_with_the_label_and_returns_with_it(world: PlaneWorld) -> None:
    """A daemon pod leaves with the label and returns with it, and none is made in between."""
    since = version(world)
    world.nodes(hollow("d1", agent="yes"), hollow("d2", agent="yes"), hollow("d3"))
    world.add_workload("daemonsets", "agent", native(tenant("any", agent="yes")))
    world.until(lambda: nodes_of(world, "agent") == ["d1", "d2"], "the daemon runs where it matches")

    unlabel(world, "d1", "agent")
    world.until(lambda: nodes_of(world, "agent") == ["d2"], "the daemon leaves")
    path = world.path("daemonsets", "agent", APPS)
    world.until(lambda: world.get(path)["status"]["desiredNumberScheduled"] == 1, "the status says so")
    is_judged(world, "marker")
    assert len(of_app(world, "agent")) == 1

    world.label_node("d1", agent="yes")
    world.until(lambda: nodes_of(world, "agent") == ["d1", "d2"], "the daemon is back")
    judged = 2  # the pods of the marker
    assert pods_made(world, since) == 2 + 1 + judged


# --- on, off and on again ---------------------------------------------------------------------------


def test_the_gate_decides_about_pods(fresh: PlaneWorld) -> None:
    """Off: the field is dropped. On: it works. Off again: it is kept and ignored. On again: it works."""
    world = fresh
    world.nodes(hollow("n", team="b"))
    template = native(tenant("web", team="b"))
    assert rule(world.add_pod(template)) is None
    running(world, "web")
    world.delete_pod("web")
    world.until(lambda: world.client.get(world.path("pods", "web")).status == 404, "the pod is deleted")

    world.restart_with(ON)
    world.add_pod(template)
    first = running(world, "web")
    unlabel(world, "n", "team")
    evicted(world, first)
    world.add_pod({**template, "metadata": {"name": "waits"}})
    world.refused("waits", NO_MATCH)
    world.label_node("n", team="b")
    world.bound("waits")
    world.add_pod(template)
    second = running(world, "web")
    world.add_pod(native(tenant("nowhere", team="c")))
    world.refused("nowhere", NO_MATCH)

    world.restart_with(OFF)
    assert rule(world.get_pod("web")) == rule(second) is not None
    assert world.bound("nowhere") == "n"
    unlabel(world, "n", "team")
    is_judged(world, "marker")
    assert not is_gone(world, second)
    world.label_node("n", team="b")

    world.restart_with(ON)
    assert not is_gone(world, second)
    unlabel(world, "n", "team")
    evicted(world, second)


def test_the_gate_decides_about_daemons(fresh: PlaneWorld) -> None:
    """On: the daemon follows the label. Off: the field is kept, the pod stays. On again: it follows."""
    world = fresh
    world.restart_with(ON)
    world.nodes(hollow("d1", agent="yes"), hollow("d2", agent="yes"), hollow("d3"))
    world.add_workload("daemonsets", "agent", native(tenant("any", agent="yes")))
    path = world.path("daemonsets", "agent", APPS)
    world.until(lambda: nodes_of(world, "agent") == ["d1", "d2"], "the daemon runs where it matches")

    world.restart_with(OFF)
    kept = world.get(path)["spec"]["template"]
    assert rule(kept) is not None
    world.until(lambda: "d3" in nodes_of(world, "agent"), "the rule no longer keeps it away")
    before = {uid_of(pod) for pod in of_app(world, "agent")}
    unlabel(world, "d1", "agent")
    is_judged(world, "marker")
    assert before <= {uid_of(pod) for pod in of_app(world, "agent")}
    world.label_node("d1", agent="yes")

    world.restart_with(ON)
    since = version(world)
    unlabel(world, "d1", "agent")
    world.until(lambda: "d1" not in nodes_of(world, "agent"), "the daemon leaves")
    world.until(lambda: world.get(path)["status"]["desiredNumberScheduled"] == 1, "the status says so")
    assert pods_made(world, since) == 0
