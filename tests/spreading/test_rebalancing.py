"""All of `berth up` in a scripted world: uneven groups are moved back, safely, and never in circles."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from berth.engine.execution.rebalancing import Move
from berth.engine.offline.audit import audit
from berth.engine.offline.snapshot import Snapshot, read
from berth.engine.state.options import Options
from berth.eviction import AffinityEviction, EvictionSettings
from berth.kube.api_resources import BUDGETS, DEPLOYMENTS, EVENTS, NODES, PODS, REPLICA_SETS
from berth.kube.manifests.manifest import load
from berth.kube.well_known import HOSTNAME, ZONE
from berth.machines.cache import Cache
from berth.machines.contract import Action, Bind, Create, Event, Outcome, Patch
from berth.spreading import SpreadController, SpreadingSettings
from tests.support.scripts.script import Raw
from tests.support.scripts.spread import HARD, KEEP, SOFT, SpreadWorld, spread


def test_a_zone_lost_and_back_is_even_again_with_the_fewest_moves() -> None:
    """Nine over two zones, then three: three pods move, one after the other, and then it rests."""
    world = SpreadWorld(HARD)
    world.deploy("web", 9)
    assert world.counts() == {"a": 3, "b": 3, "c": 3}
    world.lose("c")
    assert world.counts() == {"a": 5, "b": 4} or world.counts() == {"a": 4, "b": 5}
    assert world.evicted() == []
    world.come_back()
    world.run(20)
    assert world.evicted() == []  # the node is not trusted yet
    world.run(600)
    assert world.counts() == {"a": 3, "b": 3, "c": 3}
    assert len(world.evicted()) == 3
    world.run(3600)
    assert len(world.evicted()) == 3
    assert world.machine.rebalancer.done == 3


def seen(world: SpreadWorld, folder: Path) -> Snapshot:
    """What a dump of the world has."""
    wanted = (NODES, PODS, DEPLOYMENTS, REPLICA_SETS, BUDGETS)
    items = [
        {"apiVersion": resource.api_version, "kind": resource.kind, **item}
        for (resource, _, _), item in world.objects.items()
        if resource in wanted
    ]
    dump = folder / "dump.json"
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return read(load([dump]))


def dry_run(world: SpreadWorld) -> list[Move]:
    """What machines in a dry run tell of the world as it is."""
    cache, told = Cache(), list[Move]()
    options = Options(gates=KEEP)
    eviction = AffinityEviction(cache, EvictionSettings(options=options, dry_run=True))
    settings = SpreadingSettings(options=options, rebalance=SOFT, dry_run=True)
    dry = SpreadController(cache, eviction.state.mirror, settings, tell=told.append)
    eviction.follow(dry.rebalancer)
    for (resource, _, _), item in world.objects.items():
        event = Event(resource, "ADDED", world.view(resource, item))
        cache.handle(event)
        for machine in (eviction, dry):
            if resource in machine.watches:
                machine.handle(event)
    for second in range(60):
        assert eviction.reconcile(world.now + second) == []
        assert dry.reconcile(world.now + second) == []
    return told


@pytest.mark.parametrize(
    "constraints",
    [
        (spread("web"),),
        (spread("web"), spread("web", HOSTNAME, "ScheduleAnyway")),
        (spread("web", when="ScheduleAnyway"),),
        (spread("web", skew=2),),
    ],
)
def test_the_plan_is_what_is_done(constraints: tuple[Raw, ...], tmp_path: Path) -> None:
    """What an audit prints beforehand, pod by pod and node by node, is what happens then, and no more."""
    world = SpreadWorld(SOFT)
    world.deploy("web", 11, *constraints)
    world.lose("c")
    world.come_back()
    found = audit(seen(world, tmp_path), rebalance=SOFT).rebalancing
    assert found is not None
    planned = [(move.pod.partition("/")[2], move.replacement_node) for each in found for move in each.moves]
    assert planned
    world.run(1200)
    binds = [action for action in world.done if isinstance(action, Bind)]
    landed = [action.node for action in binds[-len(planned) :]]
    assert list(zip(world.evicted(), landed, strict=True)) == planned


def shared(others: Raw | None = None, pods: int = 110) -> SpreadWorld:
    """Three workloads on the same nodes, of which one was away and has room for so many."""
    world = SpreadWorld(SOFT)
    world.deploy("one", 7, spread("one"), *([others] if others else []))
    world.deploy("three", 8, spread("three"))
    world.deploy("two", 6, spread("two", when="ScheduleAnyway"), spread("two", HOSTNAME, "ScheduleAnyway"))
    world.lose("c")
    world.lost["status"]["allocatable"]["pods"] = str(pods)
    world.come_back()
    return world


# What one workload spreads, though it counts all pods of the namespace.
EVERYBODY = {
    **spread("one", when="ScheduleAnyway"),
    "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
}


@pytest.mark.parametrize(("others", "pods"), [(None, 110), (None, 3), (None, 5), (EVERYBODY, 4)])
def test_the_plan_of_several_workloads_is_what_is_done(others: Raw | None, pods: int, tmp_path: Path) -> None:
    """Where workloads compete for a node they take turns, in the plan, in a dry run and in the deed."""
    world = shared(others, pods)
    found = audit(seen(world, tmp_path), rebalance=SOFT).rebalancing or []
    turns = {turn: move for each in found for turn, move in zip(each.turns, each.moves, strict=True)}
    planned = [turns[turn] for turn in sorted(turns)]
    assert len({move.pod.split("-")[0] for move in planned}) > 1
    told = dry_run(world)
    assert [(move.pod, move.replacement_node) for move in told] == [
        (move.pod, move.replacement_node) for move in planned
    ]
    world.run(600)
    assert world.evicted() == [move.pod.partition("/")[2] for move in planned]
    landed = [action.node for action in world.done if isinstance(action, Bind)][-len(planned) :]
    assert landed == [move.replacement_node for move in planned]


def test_one_that_is_held_up_is_not_waited_for_for_ever() -> None:
    """The pods of one workload never become Ready again: after a while the others move without it."""
    world = shared()
    before = set(world.names(PODS))

    def broken(action: Action) -> Outcome | None:
        late = action.name.startswith("one-") and action.name not in before
        if late and isinstance(action, Patch) and action.subresource == "status":
            return Outcome(at=world.now, code=500, reason="InternalError", message="not now")
        return None

    world.refuse = broken
    world.run(600)
    gone = Counter(name.split("-")[0] for name in world.evicted())
    assert gone["one"] == 1
    assert world.counts("two") == {"a": 2, "b": 2, "c": 2}
    assert max(world.counts("three").values()) == 3


@pytest.mark.parametrize("annotation", [{"berth.dev/rebalance": "off"}, {"berth.dev/keep-spread": "false"}])
def test_whoever_opts_out_when_it_is_his_turn_is_passed_over(annotation: dict[str, str]) -> None:
    """At whatever moment the annotation comes, nobody of the workload goes any more, and the others do."""
    for moment in range(28, 36):
        world = shared()
        world.run(moment)
        before = [name for name in world.evicted() if name.startswith("one-")]
        world.change(DEPLOYMENTS, "one", {"metadata": {"annotations": annotation}})
        world.machine.reconcile(world.now)  # before it is looked at for that
        world.run(200)
        assert [name for name in world.evicted() if name.startswith("one-")][len(before) + 1 :] == []
        assert world.counts("two") == {"a": 2, "b": 2, "c": 2}


def test_it_is_off_unless_somebody_says_so() -> None:
    """Without a flag or an annotation pods stay where they are; the annotation alone is enough."""
    world = SpreadWorld()
    world.deploy("web", 6)
    world.lose("c")
    world.come_back()
    world.run(300)
    assert world.evicted() == []
    world.change(DEPLOYMENTS, "web", {"metadata": {"annotations": {"berth.dev/rebalance": "hard"}}})
    world.run(300)
    assert world.counts() == {"a": 2, "b": 2, "c": 2}


@pytest.mark.parametrize("annotation", [{"berth.dev/rebalance": "off"}, {"berth.dev/keep-spread": "false"}])
def test_a_workload_that_opts_out_is_left_alone(annotation: dict[str, str]) -> None:
    """Whatever the flag says, its own annotation comes first."""
    world = SpreadWorld(SOFT)
    world.deploy("web", 6, annotations=annotation)
    world.lose("c")
    world.come_back()
    world.run(600)
    assert world.evicted() == []


def test_a_budget_without_room_is_not_even_asked() -> None:
    """Nobody is marked or evicted while the budget allows nobody; when it does, the moves are made."""
    world = SpreadWorld(HARD)
    world.deploy("web", 6)
    body = {
        "metadata": {"name": "all"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 6},
        "status": {"disruptionsAllowed": 0},
    }
    world.create(BUDGETS, body)
    world.lose("c")
    world.come_back()
    world.run(300)
    assert world.evicted() == []
    assert world.machine.rebalancer.refusals["budget"] >= 1
    world.change(BUDGETS, "all", {"spec": {"minAvailable": 5}})
    world.run(600)
    assert world.counts() == {"a": 2, "b": 2, "c": 2}


def test_two_constraints_that_fight_come_to_rest() -> None:
    """One wants zones even, the other the nodes of a rack empty: moves end, and nothing goes in circles."""
    world = SpreadWorld(SOFT)
    world.node("a2", labels={ZONE: "a", HOSTNAME: "a2"})
    world.deploy("web", 7, spread("web"), spread("web", HOSTNAME, "ScheduleAnyway"))
    world.lose("c")
    world.come_back()
    world.run(900)
    moved = len(world.evicted())
    assert moved <= 7
    world.run(4000)
    assert len(world.evicted()) == moved


def test_a_replacement_that_lands_badly_stops_the_workload() -> None:
    """Where replacements come back into the full zones it is tried again, after longer and longer pauses."""
    world = SpreadWorld(SOFT)
    world.deploy("web", 6, spread("web", when="ScheduleAnyway"))
    world.lose("c")

    def stubborn(action: Action) -> Outcome | None:
        if isinstance(action, Bind) and action.node == "c":
            world.change(PODS, action.name, {"spec": {"nodeName": "a"}}, action.namespace)
            return Outcome(at=world.now, code=409, reason="Conflict", message="bound elsewhere")
        return None

    world.refuse = stubborn
    world.come_back()
    world.run(900)
    assert 2 < len(world.evicted()) <= 4
    for round_ in range(20):  # whatever happens, it is not tried at once
        world.change(NODES, "b", {"metadata": {"labels": {"round": str(round_)}}})
        world.run(60)
    assert len(world.evicted()) <= 6


def test_a_flapping_node_is_not_trusted() -> None:
    """A zone that comes and goes draws few pods, and fewer each time."""
    world = SpreadWorld(HARD)
    world.deploy("web", 6)
    world.lose("c")
    for _ in range(12):
        world.come_back()
        world.run(20)
        world.lose("c")
    assert world.evicted() == []
    for _ in range(10):
        world.come_back()
        world.run(90)
        world.lose("c")
    assert len(world.evicted()) <= 8


def test_a_zone_that_is_lost_again_counts_once() -> None:
    """However many nodes of it had replacements: it is waited for a minute, which the workload is told."""
    world = SpreadWorld(HARD)
    world.node("c2", labels={ZONE: "c", HOSTNAME: "c2"})
    world.deploy("web", 12, spread("web"), spread("web", HOSTNAME, "ScheduleAnyway"))
    for seconds in (100, 50):
        saved = [world.get(NODES, name) for name in ("c", "c2")]
        for node in saved:
            world.lost = node
            world.lose(node["metadata"]["name"])
        for world.lost in saved:
            world.come_back()
        world.run(seconds)
    assert len(world.evicted()) == 4
    told = [
        action.body["message"]
        for action in world.done
        if isinstance(action, Create) and action.body.get("reason") == "RebalancingPaused"
    ]
    assert len(told) == 1
    assert told[0].startswith("Its pods stay where they are for 60 s")
    world.run(150)
    assert len(world.evicted()) == 8


def test_a_cordoned_node_is_no_place() -> None:
    """A zone whose only node is cordoned takes nobody, so nobody is sent away for it."""
    world = SpreadWorld(HARD)
    world.deploy("web", 6)
    world.lose("c")
    world.lost["spec"] = {"unschedulable": True}
    world.come_back()
    world.run(300)
    assert world.evicted() == []
    assert world.machine.rebalancer.refusals["no-node"] >= 1
    world.change(NODES, "c", {"spec": {"unschedulable": None}})
    world.run(600)
    assert world.counts() == {"a": 2, "b": 2, "c": 2}


def test_a_rollout_and_a_scaling_are_waited_for() -> None:
    """While its number changes, as an autoscaler does it, or a new revision comes, nobody is moved."""
    world = SpreadWorld(HARD)
    world.deploy("web", 6)
    world.lose("c")
    world.come_back()
    for number in range(7, 12):
        world.run(25)
        world.change(DEPLOYMENTS, "web", {"spec": {"replicas": number}})
        before = world.evicted()
        world.advance(0)
        assert world.evicted() == before
    world.run(600)
    counts = world.counts()
    assert max(counts.values()) - min(counts.values()) <= 1


def test_a_rollout_that_hangs_is_left_alone(tmp_path: Path) -> None:
    """While pods of two revisions are there nobody is moved, and both the metrics and an audit say why."""
    world = SpreadWorld(HARD)
    world.deploy("web", 6)
    world.lose("c")
    pod = {"metadata": {"labels": {"revision": "2"}}, "spec": {"nodeSelector": {"nowhere": "yes"}}}
    world.change(DEPLOYMENTS, "web", {"spec": {"template": pod}})
    world.run(10)
    assert len(world.names(REPLICA_SETS)) == 2
    world.come_back()
    world.run(120)
    assert world.evicted() == []
    assert world.machine.rebalancer.refusals["rolling-out"] >= 1
    [found] = audit(seen(world, tmp_path), rebalance=HARD).rebalancing or []
    assert (found.moves, found.stays_because) == ((), "rolling-out")
    world.change(DEPLOYMENTS, "web", {"spec": {"template": {"spec": {"nodeSelector": {"nowhere": None}}}}})
    world.run(600)
    counts = world.counts()
    assert max(counts.values()) - min(counts.values()) <= 1


def test_a_paused_deployment_is_moved_like_any_other() -> None:
    """Pausing stops rollouts; its ReplicaSet still makes replacements."""
    world = SpreadWorld(HARD)
    world.deploy("web", 6)
    world.change(DEPLOYMENTS, "web", {"spec": {"paused": True}})
    world.lose("c")
    world.come_back()
    world.run(600)
    assert world.counts() == {"a": 2, "b": 2, "c": 2}
    assert len(world.evicted()) == 2


def test_a_workload_deleted_on_the_way_is_forgotten() -> None:
    """Nothing is evicted of it any more, and nothing is left of it."""
    world = SpreadWorld(HARD)
    world.deploy("web", 6)
    world.lose("c")
    world.come_back()
    world.run(32)
    world.delete(DEPLOYMENTS, "web")
    for name in world.names(REPLICA_SETS):
        world.delete(REPLICA_SETS, name)
    before = len(world.evicted())
    world.run(60)
    for name in world.names(PODS):
        world.delete(PODS, name, grace=0)
    world.run(60)
    assert len(world.evicted()) <= before + 1
    assert world.machine.rebalancer.records.by_key == {}
    assert world.machine.rebalancer.wanted() == []


def test_a_new_leader_goes_on_where_the_last_one_stopped() -> None:
    """In the middle of a move another process takes over: not one pod more is moved than has to be."""
    world = SpreadWorld(HARD)
    world.deploy("web", 9)
    world.lose("c")
    world.come_back()
    while not world.evicted():
        world.run(1)
    again = SpreadWorld(HARD, zones="")
    again.objects, again._numbers, again.now = dict(world.objects), world._numbers, world.now
    for (resource, _, _), item in world.objects.items():
        again._tell(Event(resource, "ADDED", again.view(resource, item)))
    again.run(900)
    assert again.counts() == {"a": 3, "b": 3, "c": 3}
    assert len(world.evicted()) + len(again.evicted()) == 3


def test_the_workload_is_told_and_the_metrics_tell() -> None:
    """An event on the Deployment names the pod, the nodes and the figures; skew and moves are counted."""
    world = SpreadWorld(HARD)
    world.deploy("web", 6)
    world.lose("c")
    world.come_back()
    world.run(25)
    registry = world.machine.metrics.registry
    labels = {"namespace": "default", "topology_key": ZONE, "when_unsatisfiable": "DoNotSchedule"}

    def skew() -> float | None:
        name = world.names(REPLICA_SETS)[0]
        return registry.get_sample_value("berth_spread_skew", {**labels, "replicaset": name, "max_skew": "1"})

    assert skew() == 3
    world.run(300)
    assert skew() == 0
    assert registry.get_sample_value("berth_rebalance_moves_total") == 2
    assert registry.get_sample_value("berth_rebalance_planned_moves") == 0
    told = [
        action.body
        for action in world.done
        if isinstance(action, Create) and action.resource == EVENTS and action.body["reason"] == "Rebalancing"
    ]
    assert told[0]["involvedObject"]["kind"] == "Deployment"
    assert "and 1 more after it" in told[0]["message"]
    assert "its replacement would go to node c" in told[0]["message"]


def test_a_dry_run_tells_what_is_done_otherwise() -> None:
    """Beside the machines that act, one in a dry run hears the same: it names the pods that then go."""
    world = SpreadWorld(SOFT)
    world.deploy("web", 9)
    world.lose("c")
    world.come_back()
    told = dry_run(world)
    world.run(900)
    assert [move.pod.partition("/")[2] for move in told] == world.evicted()
