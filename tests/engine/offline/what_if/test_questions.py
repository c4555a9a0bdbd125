"""Losing each in turn, how many more fit, scenarios, and two ways compared."""

from pathlib import Path

import pytest

from berth.engine.offline.what_if.changes import ClusterChange, WhatIfError, parse
from berth.engine.offline.what_if.questions import fit, lose_each
from berth.engine.offline.what_if.run import versus, what_if
from berth.engine.offline.what_if.scenario import ScenarioError, read_scenario, run_scenario
from tests.support.manifests.what_if import (
    Files,
    Thing,
    apart,
    budget,
    changed,
    node,
    places,
    pod,
    spread,
    workload,
    world,
)

NODES = [node(f"{zone}{i}", zone, cpu="3") for zone in "abc" for i in (1, 2)]
THINGS = [
    *NODES,
    workload("Deployment", "web", 6, topologySpreadConstraints=spread("web")),
    workload("Deployment", "db", 3, affinity=apart("db"), priority=10),
    workload("DaemonSet", "agent", cpu="100m"),
    pod("bare", "a1", cpu="100m"),
    budget("web", maxUnavailable=1),
]


def changes(folder: Path, text: str) -> list[ClusterChange]:
    parts = [change.strip().partition(" ") for change in text.split(";")]
    return [parse(option, value, Files(folder)) for option, _, value in parts]


# --- each in turn --------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["zone", "node"])
def test_each_row_is_what_losing_it_would_do(tmp_path: Path, key: str) -> None:
    """Undone and done again on one engine, every row says the same as a what-if of its own."""
    for row in lose_each(world(tmp_path, *THINGS), key).rows:
        alone = changed(world(tmp_path, *THINGS), tmp_path, f"lose {key}={row.domain}")
        assert sorted(row.unplaced) == sorted(f"{pod.namespace}/{pod.pod}" for pod in alone.unplaced)
        assert row.lost == [f"{gone.namespace}/{gone.pod}" for gone in alone.gone if gone.lost]
        assert row.preempted == len(alone.preempted)


def test_the_world_is_the_same_afterwards(tmp_path: Path) -> None:
    """Whatever was lost is back: pods, nodes, their order, and the room preemption took."""
    things = [*THINGS, workload("Deployment", "vip", 6, cpu="900m", priority=100)]
    made, fresh = world(tmp_path, *things), world(tmp_path, *things)
    lose_each(made, "node")
    lose_each(made, "zone")
    assert places(made) == places(fresh)
    on = {key: name for name in made.cluster.nodes.slot_of for key, _ in made.cluster.pods_on(name)}
    assert on == {key: entry.pod.spec.node_name for key, entry in fresh.on.items()}
    later = [changed(each, tmp_path, "scale deploy/web=9; drain b1") for each in (made, fresh)]
    assert later[0] == later[1]


def test_what_each_answers(tmp_path: Path) -> None:
    """The sentence says whether all can be lost; a label that no node has is refused with near ones."""
    roomy = [node(f"{zone}1", zone) for zone in "abc"]
    found = lose_each(world(tmp_path, *roomy, workload("Deployment", "web", 3)), "zone")
    assert (found.ok, found.sentence) == (
        True,
        "each of the 3 zones can be lost: all its pods land elsewhere.",
    )
    bad = lose_each(world(tmp_path, *THINGS), "zone")
    assert not bad.ok
    assert bad.sentence.startswith("3 of 3 zones cannot be lost, the worst is ")
    with pytest.raises(WhatIfError, match=r"has the label zon; did you mean topology.kubernetes.io/zone"):
        lose_each(world(tmp_path, *THINGS), "zon")


# --- how many more -------------------------------------------------------------------------------------


def test_how_many_more_fit(tmp_path: Path) -> None:
    """As many as scaling would place, and what stops the next; the world stays as it was."""
    made = world(tmp_path, *NODES, workload("Deployment", "web", 6, topologySpreadConstraints=spread("web")))
    before = places(made)
    found = fit(made, "deploy/web")
    assert (found.fitting, found.more, found.stops) == (
        12,
        False,
        "0/6 nodes are available: 6 Insufficient cpu.",
    )
    assert found.zones == {"a": 4, "b": 4, "c": 4}
    assert places(made) == before
    assert changed(made, tmp_path, "scale deploy/web=18").ok
    assert not changed(made, tmp_path, "scale deploy/web=19").ok
    none = fit(made, "deploy/web")
    assert (none.fitting, none.ok) == (0, False)
    assert "already has no node" in none.sentence


def test_rules_stop_the_next_one(tmp_path: Path) -> None:
    """One a node is one a node, however much room there is."""
    found = fit(world(tmp_path, *NODES, workload("Deployment", "db", 2, affinity=apart("db"))), "deploy/db")
    assert found.fitting == 4
    assert "anti-affinity" in (found.stops or "")
    assert found.help


# --- scenarios -----------------------------------------------------------------------------------------


def scenario(folder: Path, value: object, *things: Thing) -> dict[str, bool]:
    found = run_scenario(read_scenario(value, Files(folder), str), lambda: world(folder, *things))
    return {step.name: step.ok for step in found.steps}


def test_a_scenario_in_steps(tmp_path: Path) -> None:
    """Steps go on where the last ended, unless they begin afresh, and each is held to what it expects."""
    steps = [
        {"name": "lose a", "lose": "zone=a", "expect": {"placed": "all", "skew": 1}},
        {"name": "and b", "lose": "zone=b", "expect": {"unplaced": 0}},
        {"name": "only b", "fresh": True, "lose": ["zone=b"], "expect": {"placed": 3}},
        {"name": "nothing expected", "changes": [{"cordon": "c1"}, {"drain": "a1"}]},
    ]
    things = [node("a1", "a", cpu="2"), node("b1", "b", cpu="2"), node("c1", "c", cpu="2")]
    found = scenario(tmp_path, {"steps": steps}, *things, workload("Deployment", "web", 3))
    assert found == {"lose a": True, "and b": False, "only b": True, "nothing expected": False}


@pytest.mark.parametrize(
    ("value", "path", "words"),
    [
        ([], (), "expected a scenario with some of apiVersion, kind, name, steps"),
        ({"step": []}, ("step",), "a scenario has no step; did you mean steps? it may have apiVersion"),
        ({"steps": []}, ("steps",), "expected a list of steps"),
        ({"kind": "Scene", "steps": [{}]}, ("kind",), "expected Scenario, got Scene"),
        ({"steps": [{"drian": "n"}]}, ("steps", 0, "drian"), "did you mean drain? it may have name, fresh"),
        ({"steps": [{"drain": {}}]}, ("steps", 0, "drain"), "expected NODE|-l SELECTOR, got a mapping"),
        ({"steps": [{"lose": ["zone=a", "b"]}]}, ("steps", 0, "lose", 1), "write KEY=VALUE"),
        ({"steps": [{"expect": {"placd": 1}}]}, ("steps", 0, "expect", "placd"), "did you mean placed?"),
        (
            {"steps": [{"expect": {"skew": "low"}}]},
            ("steps", 0, "expect", "skew"),
            "expected a number, got 'low'",
        ),
        ({"steps": [{"changes": {"drain": "n"}}]}, ("steps", 0, "changes"), "expected a list of changes"),
        ({"steps": [{"replaceAll": "yes"}]}, ("steps", 0, "replaceAll"), "expected true or false"),
        ({"steps": [{"fresh": 1}]}, ("steps", 0, "fresh"), "expected true or false"),
    ],
)
def test_a_scenario_with_a_mistake(
    tmp_path: Path, value: object, path: tuple[str | int, ...], words: str
) -> None:
    """It is told where it is and what is allowed there."""
    with pytest.raises(ScenarioError) as refused:
        read_scenario(value, Files(tmp_path), str)
    assert refused.value.path == path
    assert words in str(refused.value)


def test_a_step_that_cannot_be_made(tmp_path: Path) -> None:
    """It is told where the change is written."""
    value = {"steps": [{"name": "gone", "drain": ["a1", "n9"]}]}
    made = read_scenario(value, Files(tmp_path), lambda path: "/".join(map(str, path)))
    with pytest.raises(WhatIfError, match=r"^steps/0/drain/1: node n9"):
        run_scenario(made, lambda: world(tmp_path, *NODES))


# --- two ways ------------------------------------------------------------------------------------------


def test_two_ways_side_by_side(tmp_path: Path) -> None:
    """Both ways are measured on the same pods, and pods that differ are named."""
    sides = [world(tmp_path, *NODES, workload("Deployment", "web", 6)) for _ in range(2)]
    found = versus(
        ("lose a", sides[0], changes(tmp_path, "lose zone=a")),
        ("lose much", sides[1], changes(tmp_path, "cordon c2; lose zone=a; lose zone=b")),
    )
    assert found.sentence == "A leaves 2 fewer pods without a node than B."
    assert (found.a.measures.placed, found.b.measures.placed) == (6, 4)
    assert (found.a.measures.nodes_used, found.b.measures.nodes_used) == (4, 2)
    assert {each.b for each in found.differing} >= {None}
    same = [world(tmp_path, *NODES, workload("Deployment", "web", 6)) for _ in range(2)]
    equal = versus(("x", same[0], []), ("y", same[1], []))
    assert equal.sentence == "both ways every pod has the same node."


def test_the_largest_pod_that_still_fits(tmp_path: Path) -> None:
    """Fragmentation is measured by the emptiest node that takes pods."""
    nodes = [node("a1", "a", cpu="4"), node("b1", "b", cpu="2"), node("c1", "c", cpu="8")]
    found = what_if(world(tmp_path, *nodes), changes(tmp_path, "cordon c1"))
    largest = found.measures.largest_pod
    assert largest is not None
    assert (largest.node, largest.cpu) == ("a1", 4000)
    assert found.measures.fragmentation == pytest.approx(1 / 3, abs=0.001)
