"""Drains under disruption budgets: several, overlapping, with a status, with pods that are not ready."""

from pathlib import Path

import pytest

from berth.engine.offline.what_if.outcome import WhatIfOutcome
from tests.support.manifests.what_if import Thing, after, budget, node, pod, workload, written

NODES = [node("a1", "a"), node("b1", "b")]


def counted(allowed: int, healthy: int, desired: int) -> Thing:
    return {"disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": desired}


def web(number: int, on: str = "a1", *, ready: bool = True) -> list[Thing]:
    """Pods of ReplicaSet web on a node, as a server has them."""
    made = [pod(f"web-{on}-{i}", on, owner="ReplicaSet/web", app="web") for i in range(number)]
    for each in made:
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        each["status"] = {"phase": "Running", "conditions": [condition]}
    return made


def rounds(found: WhatIfOutcome) -> list[int]:
    return [len(each.pods) for each in found.rounds]


@pytest.mark.parametrize(
    ("scaled", "expected"),
    [("scale rs/web=2", [1, 1]), ("scale rs/web=4", [1, 1, 1]), ("label a1:x=y", [1, 1, 1])],
)
def test_a_status_goes_with_the_number_of_replicas(tmp_path: Path, scaled: str, expected: list[int]) -> None:
    """A budget of one unavailable pod lets one go at a time, however many replicas there are by then."""
    keep: Thing = {**budget("web", maxUnavailable=1), "status": counted(1, 3, 2)}
    things = [*NODES, workload("ReplicaSet", "web", 3), *web(3), keep]
    found = after(tmp_path, f"{scaled}; drain a1", *things)
    assert (rounds(found), found.ok) == (expected, True)
    assert (found.budgets[0].allowed_before, found.budgets[0].allowed_after) == (1, 1)


def test_a_status_that_was_short_of_pods_stays_short_of_them(tmp_path: Path) -> None:
    """Two more pods do not make up for three that were missing; the third does."""
    keep: Thing = {**budget("web", minAvailable=6), "status": counted(0, 3, 6)}
    things = [*NODES, workload("ReplicaSet", "web", 3), *web(3), keep]
    assert after(tmp_path, "scale rs/web=6", *things).budgets[0].allowed_after == 0
    assert after(tmp_path, "scale rs/web=7", *things).budgets[0].allowed_after == 1


def test_who_is_not_ready_never_counted(tmp_path: Path) -> None:
    """A pod that is not ready uses nothing up when it goes, and its replacement is one more."""
    keep: Thing = {**budget("web", minAvailable=1), "status": counted(1, 2, 1)}
    things = [*NODES, workload("ReplicaSet", "web", 3), *web(2), *web(1, "b1", ready=False), keep]
    found = after(tmp_path, "drain b1", *things)
    assert (found.budgets[0].allowed_after, found.budgets[0].healthy_after) == (2, 3)


@pytest.mark.parametrize(("policy", "going"), [("AlwaysAllow", 1), ("IfHealthyBudget", 0), (None, 0)])
def test_pods_that_are_not_ready_under_a_budget_that_is_short(
    tmp_path: Path, policy: str | None, going: int
) -> None:
    """While too few are ready, those that are not may go only if the budget always allows it."""
    keep = budget("web", minAvailable=2, **({"unhealthyPodEvictionPolicy": policy} if policy else {}))
    things = [*NODES, workload("ReplicaSet", "web", 2), *web(1, "b1"), *web(1, ready=False), keep]
    found = after(tmp_path, "drain a1", *things)
    assert (sum(rounds(found)), len(found.blocked)) == (going, 1 - going)


def test_two_budgets_at_once_let_nobody_go(tmp_path: Path) -> None:
    """The eviction API refuses pods of two budgets, whatever each of them allows."""
    other = {**budget("web", maxUnavailable=3), "metadata": {"name": "other", "namespace": "default"}}
    found = after(
        tmp_path,
        "drain a1",
        *NODES,
        workload("ReplicaSet", "web", 2),
        *web(2),
        budget("web", maxUnavailable=2),
        other,
    )
    assert (rounds(found), len(found.blocked)) == ([], 2)
    assert sorted(found.blocked[0].budgets) == ["other", "web"]
    assert [len(each.blocks) for each in found.budgets] == [2, 2]


def test_several_budgets_each_have_their_say(tmp_path: Path) -> None:
    """Pods of different budgets go in one round, each as its own allows."""
    others = [pod(f"api-{i}", "a1", owner="ReplicaSet/api", app="api") for i in range(2)]
    found = after(
        tmp_path,
        "drain a1",
        *NODES,
        workload("ReplicaSet", "web", 2),
        workload("ReplicaSet", "api", 2),
        *web(2),
        *others,
        budget("web", maxUnavailable=1),
        budget("api", maxUnavailable=2),
    )
    assert (rounds(found), found.ok) == ([3, 1], True)
    assert {(move.pod, move.round) for move in found.moves if move.owner == "ReplicaSet/api"} == {
        ("api-0", 1),
        ("api-1", 1),
    }


def test_the_status_in_a_file_that_is_applied_does_not_count(tmp_path: Path) -> None:
    """A budget that was fetched, edited and applied allows what its new numbers allow."""
    stale: Thing = {**budget("web", maxUnavailable=2), "status": counted(0, 2, 2)}
    file = written(tmp_path, "budget.yaml", stale)
    keep: Thing = {**budget("web", maxUnavailable=0), "status": counted(0, 2, 2)}
    things = [*NODES, workload("ReplicaSet", "web", 2), *web(2), keep]
    assert len(after(tmp_path, "drain a1", *things).blocked) == 2
    assert rounds(after(tmp_path, f"apply {file}; drain a1", *things)) == [2]
