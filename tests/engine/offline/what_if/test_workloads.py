"""What becomes of pods when workloads are scaled, rolled out, applied or deleted."""

from pathlib import Path
from typing import Any

import pytest

from berth.engine.offline.what_if.changes import WhatIfError
from berth.engine.offline.what_if.outcome import WhatIfOutcome
from tests.support.builders import ZONE
from tests.support.manifests.what_if import (
    Thing,
    after,
    apart,
    budget,
    changed,
    moves,
    node,
    places,
    pod,
    workload,
    world,
    written,
)

NODES = [node("a1", "a"), node("b1", "b")]


def test_scaling_up_and_down(tmp_path: Path) -> None:
    """More replicas are placed, fewer go: from the fullest node first, and nothing else moves."""
    made = world(tmp_path, *NODES, workload("Deployment", "web", 3))
    up = changed(made, tmp_path, "scale deploy/web=5")
    assert (len(up.moves), up.measures.placed, up.ok) == (2, 5, True)
    down = changed(made, tmp_path, "scale deploy/web=1")
    assert (len(down.gone), any(pod.lost for pod in down.gone), down.ok) == (4, False, True)
    assert len(places(made)) == 1


@pytest.mark.parametrize("cost", ["--5", "²", "9" * 20])
def test_a_deletion_cost_that_is_none_changes_nothing(tmp_path: Path, cost: str) -> None:
    """Of two pods the one with a low cost goes, whatever the other says."""
    things = [pod(name, "a1", owner="ReplicaSet/web", app="web") for name in ("web-1", "web-2")]
    for thing, given in zip(things, (cost, "-1"), strict=True):
        annotations = {"controller.kubernetes.io/pod-deletion-cost": given}
        thing["metadata"] |= {"uid": given, "annotations": annotations}  # a server has admitted it
    found = after(tmp_path, "scale rs/web=1", *NODES, workload("ReplicaSet", "web", 2), *things)
    assert [gone.pod for gone in found.gone] == ["web-2"]


@pytest.mark.parametrize("replicas", ["²", "--5", "-1", "2147483648", ""])
def test_a_number_of_replicas_that_is_none_is_told(tmp_path: Path, replicas: str) -> None:
    """A scaling needs a number that Kubernetes would take."""
    with pytest.raises(WhatIfError, match="write KIND/NAME=REPLICAS"):
        after(tmp_path, f"scale deploy/web={replicas}", *NODES, workload("Deployment", "web", 3))


def test_a_stateful_set_loses_its_last_pods(tmp_path: Path) -> None:
    """Scaled down, the highest ordinals go; scaled up, they come again."""
    made = world(tmp_path, *NODES, workload("StatefulSet", "db", 3))
    changed(made, tmp_path, "scale sts/db=1")
    assert list(places(made)) == ["db-0"]
    changed(made, tmp_path, "scale sts/db=2")
    assert sorted(places(made)) == ["db-0", "db-1"]


def test_scaling_beyond_the_room(tmp_path: Path) -> None:
    """Who does not fit is told."""
    found = after(tmp_path, "scale deploy/web=20", *NODES, workload("Deployment", "web", 3))
    assert (len(found.unplaced), len(found.moves)) == (12, 5)
    assert found.sentence.startswith("12 of 17 pods would find no node: 0/2 nodes are available")


def test_a_rollout_goes_by_surge_and_unavailable(tmp_path: Path) -> None:
    """With one of each, never more than four nor fewer than two of three pods are there."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    made = world(tmp_path, *NODES, workload("Deployment", "web", 3, strategy=strategy))
    old = set(places(made))
    found = changed(made, tmp_path, "rollout deploy/web")
    there = 3
    for step in found.rollouts:
        assert there - len(step.removed) >= 2
        there += len(step.created) - len(step.removed)
        assert there <= 4
    assert found.ok
    assert old.isdisjoint(places(made))
    assert len(places(made)) == 3


def test_a_rollout_that_cannot_surge_is_stuck(tmp_path: Path) -> None:
    """One pod a node, as many nodes as pods and none may be missing: the new pod waits for ever."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    deployment = workload("Deployment", "web", 2, strategy=strategy, affinity=apart("web"))
    found = after(tmp_path, "rollout deploy/web", *NODES, deployment)
    assert not found.ok
    assert found.rollouts[-1].stuck is not None
    assert "no old pod may go before it runs" in found.rollouts[-1].stuck
    assert len(found.unplaced) == 1


def test_recreate_takes_all_off_first(tmp_path: Path) -> None:
    """The same Deployment with Recreate goes through, with nobody there in between."""
    deployment = workload("Deployment", "web", 2, strategy={"type": "Recreate"}, affinity=apart("web"))
    found = after(tmp_path, "rollout deploy/web", *NODES, deployment)
    assert [(len(step.created), len(step.removed)) for step in found.rollouts] == [(0, 2), (2, 0)]
    assert found.ok


def test_a_stateful_set_is_rolled_out_from_its_end(tmp_path: Path) -> None:
    """Pods are replaced one by one, the last first, down to the partition."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    found = after(tmp_path, "rollout sts/db", *NODES, workload("StatefulSet", "db", 3, strategy=strategy))
    assert [step.removed for step in found.rollouts] == [["default/db-2"], ["default/db-1"]]
    assert found.ok


def test_applying_lays_files_over_the_cluster(tmp_path: Path) -> None:
    """Objects of a file take the place of those in the cluster: a template is rolled out, a node changed."""
    made = world(tmp_path, *NODES, workload("Deployment", "web", 2))
    new = workload("Deployment", "web", 3, nodeSelector={ZONE: "b"})
    written(tmp_path, "new.yaml", new, node("b1", "b", cpu="8"), budget("web", minAvailable=1))
    found = changed(made, tmp_path, "apply new.yaml")
    assert found.ok
    assert set(places(made).values()) == {"b1"}
    assert len(places(made)) == 3
    assert found.rollouts
    assert [each.name for each in found.budgets] == ["web"]


def test_applying_new_objects(tmp_path: Path) -> None:
    """What was not there comes, with its pods; --add takes nodes only, and only new ones."""
    made = world(tmp_path, *NODES)
    written(
        tmp_path, "new.yaml", workload("Deployment", "web", 2), workload("DaemonSet", "agent"), pod("one")
    )
    assert changed(made, tmp_path, "apply new.yaml").ok
    assert len(places(made)) == 5
    written(tmp_path, "node.yaml", node("c1", "c"))
    changed(made, tmp_path, "add node.yaml")
    assert "agent-c1" in places(made)
    for file, words in (("node.yaml", "is there already"), ("new.yaml", "is no node")):
        with pytest.raises(WhatIfError, match=words):
            changed(made, tmp_path, f"add {file}")


def test_what_cannot_be_applied(tmp_path: Path) -> None:
    """An object that the API server would refuse is refused."""
    broken = workload("Deployment", "web", 2, topologySpreadConstraints=[{"maxSkew": 0}])
    written(tmp_path, "new.yaml", broken)
    with pytest.raises(WhatIfError, match=r"new.yaml: Deployment default/web: "):
        after(tmp_path, "apply new.yaml", *NODES)


def test_deleting(tmp_path: Path) -> None:
    """A workload goes with its pods, a pod is made again, a budget no longer blocks, a node is gone."""
    things = [*NODES, workload("Deployment", "web", 2), budget("web", minAvailable=2)]
    made = world(tmp_path, *things)
    assert not after(tmp_path, "drain a1", *things).ok
    assert after(tmp_path, "delete pdb/web; drain a1", *things).ok
    name = next(iter(places(made)))
    assert changed(made, tmp_path, f"delete pod/{name}").ok
    assert len(places(made)) == 2
    gone = changed(made, tmp_path, "delete deploy/web")
    assert (len(gone.gone), gone.ok, places(made)) == (2, True, {})
    assert after(tmp_path, "delete node/a1", *things).ok
    assert after(tmp_path, "delete ns/default", *things).gone


def test_evicting_a_pod(tmp_path: Path) -> None:
    """It is made again and placed, if its budget lets it go."""
    made = world(tmp_path, *NODES, workload("Deployment", "web", 2), budget("web", maxUnavailable=1))
    name = next(iter(places(made)))
    assert changed(made, tmp_path, f"evict {name}").ok
    assert len(places(made)) == 2
    written(tmp_path, "budget.yaml", budget("web", maxUnavailable=0))
    blocked = changed(made, tmp_path, f"apply budget.yaml; evict pod/{name}")
    assert [stay.pod for stay in blocked.blocked] == [name]


def test_placing_everything_anew(tmp_path: Path) -> None:
    """Everybody but who is tied to a node is placed as if it came now."""
    lopsided = [pod(f"web-{i}", "a1", owner="ReplicaSet/web", app="web") for i in range(4)]
    found = after(tmp_path, "replace-all", *NODES, *lopsided, workload("DaemonSet", "agent", cpu="0"))
    assert {target for _, target in moves(found).values()} == {"b1"}
    assert len(found.moves) == 2
    assert found.measures.nodes_used == 2


def test_another_configuration(tmp_path: Path) -> None:
    """From then on pods are placed as it says; those on nodes stay."""
    (tmp_path / "pack.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: "
        "{scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}}]}]\n"
    )
    things = [*NODES, pod("web-0", "a1", owner="ReplicaSet/web")]
    written(tmp_path, "new.yaml", pod("one"), pod("two"))
    assert set(moves(after(tmp_path, "apply new.yaml", *things)).values()) == {(None, "b1"), (None, "a1")}
    packed = after(tmp_path, "config pack.yaml; apply new.yaml", *things)
    assert set(moves(packed).values()) == {(None, "a1")}


def test_names_of_workloads(tmp_path: Path) -> None:
    """Kinds have short names, a namespace may lead, and near names are told."""
    things = [*NODES, workload("Deployment", "web", 1)]
    for name in ("deploy/web", "deployment/web", "Deployment/web", "default/deploy/web"):
        assert after(tmp_path, f"scale {name}=2", *things).ok
    for change, words in (
        ("scale deploy/wep=2", "Deployment default/wep is not among the files; did you mean web?"),
        ("scale shop/deploy/web=2", "Deployment shop/web is not among the files; did you mean default/web?"),
        ("scale web=2", "is not KIND/NAME of a workload"),
        ("scale deploy/web=many", "write KIND/NAME=REPLICAS"),
        ("rollout job/x", "is not KIND/NAME of a workload"),
        ("delete web", "is not KIND/NAME"),
        ("delete deployy/web", "did you mean deployment"),
    ):
        with pytest.raises(WhatIfError) as refused:
            after(tmp_path, change, *things)
        assert words in str(refused.value)


def test_nothing_is_left_behind_in_the_engine(tmp_path: Path) -> None:
    """After many changes the engine's cluster holds what the world says, and nothing else."""
    made = world(
        tmp_path, *NODES, node("c1", "c"), workload("Deployment", "web", 4), workload("DaemonSet", "agent")
    )
    changed(
        made, tmp_path, "drain a1; scale deploy/web=6; lose zone=b; add 1=c1; rollout deploy/web; replace-all"
    )
    counted = {key: name for name in made.cluster.nodes.slot_of for key, _ in made.cluster.pods_on(name)}
    assert counted == {key: entry.pod.spec.node_name for key, entry in made.on.items()}
    assert set(made.cluster.nodes.slot_of) == set(made.snapshot.nodes)


def pairs(found: WhatIfOutcome) -> list[tuple[str, str | None, str]]:
    return sorted((move.replaces or "", move.source, move.target) for move in found.moves)


@pytest.mark.parametrize("change", ["rollout deploy/web", "apply new.yaml"])
def test_who_is_replaced_by_whom(tmp_path: Path, change: str) -> None:
    """Every new pod takes the place of an old one, that of its node if there is one; nobody is new."""
    made = world(tmp_path, *NODES, workload("Deployment", "web", 2))
    written(tmp_path, "new.yaml", workload("Deployment", "web", 2, cpu="2"))
    old = places(made)
    found = changed(made, tmp_path, change)
    assert sorted(move.replaces or "" for move in found.moves) == sorted(old)
    assert all(move.source == old[move.replaces or ""] for move in found.moves)
    there = set(old.values()) & set(places(made).values())
    assert {move.target for move in found.moves if move.source == move.target} == there
    assert {pod.pod: pod.replaced_by for pod in found.gone} == {m.replaces: m.pod for m in found.moves}
    assert found.sentence == "all is well: all 2 pods have a node (2 replaced)."


def test_replaced_elsewhere(tmp_path: Path) -> None:
    """A template for another zone moves its pods there, and only the replica that is more is new."""
    made = world(tmp_path, *NODES, workload("Deployment", "web", 2, nodeSelector={ZONE: "a"}))
    written(tmp_path, "new.yaml", workload("Deployment", "web", 3, nodeSelector={ZONE: "b"}))
    old = places(made)
    found = changed(made, tmp_path, "apply new.yaml")
    assert [(source, target) for _, source, target in pairs(found)] == [
        (None, "b1"),
        *((old[name], "b1") for name in sorted(old)),
    ]
    assert "(2 replaced, 1 new)" in found.sentence


def test_two_rollouts_replace_the_pods_of_before(tmp_path: Path) -> None:
    """Pods that come and go in between are not told of."""
    made = world(tmp_path, *NODES, workload("Deployment", "web", 2))
    old = set(places(made))
    found = changed(made, tmp_path, "cordon a1; rollout deploy/web; rollout deploy/web")
    assert {move.replaces for move in found.moves} == old
    assert {pod.pod for pod in found.gone} == old


def test_pods_that_keep_their_names_replace_nobody(tmp_path: Path) -> None:
    """A StatefulSet's pod moves from its own node, also to one where another pod of the set was."""
    made = world(tmp_path, *NODES, workload("StatefulSet", "db", 2))
    old = places(made)
    written(tmp_path, "db.yaml", workload("StatefulSet", "db", 2, nodeSelector={ZONE: "b"}))
    found = changed(made, tmp_path, "apply db.yaml")
    away = next(name for name, where in old.items() if where == "a1")
    assert pairs(found) == [("", "a1", "b1")]
    assert moves(found) == {away: ("a1", "b1")}
    assert found.sentence.endswith("(1 moved).")


def agents(strategy: Thing, **spec: Any) -> list[Thing]:
    """A DaemonSet on two nodes of 4 cpus, as it runs."""
    pods = [pod(f"agent-{name}", name, owner="DaemonSet/agent", app="agent") for name in ("a1", "b1")]
    return [*NODES[:2], workload("DaemonSet", "agent", strategy=strategy, **spec), *pods]


def test_a_daemon_set_surges(tmp_path: Path) -> None:
    """Where it may surge, the new pod of a node runs before the old one goes."""
    made = agents({"rollingUpdate": {"maxSurge": "50%", "maxUnavailable": 0}})
    found = after(tmp_path, "rollout ds/agent", *made)
    assert found.ok
    assert [(step.created, step.removed) for step in found.rollouts] == [
        ([f"default/agent-{name}-new"], [f"default/agent-{name}"]) for name in ("a1", "b1")
    ]
    assert {(move.pod, move.source, move.target) for move in found.moves} == {
        ("agent-a1-new", "a1", "a1"),
        ("agent-b1-new", "b1", "b1"),
    }


def test_a_daemon_set_that_cannot_surge_is_stuck(tmp_path: Path) -> None:
    """Without room for two at once the old pod stays, and the rollout says so; otherwise it would go."""
    fill = [pod(f"fill-{name}", name, cpu="3", owner="ReplicaSet/fill") for name in ("a1", "b1")]
    made = agents({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})
    found = after(tmp_path, "rollout ds/agent", *made, *fill)
    assert (found.ok, [each.pod for each in found.unplaced]) == (False, ["agent-a1-new"])
    assert "finds no node" in (found.rollouts[-1].stuck or "")
    assert not found.rollouts[-1].removed
    assert after(tmp_path, "rollout ds/agent", *agents({"rollingUpdate": {"maxUnavailable": 1}}), *fill).ok


def test_rollouts_that_somebody_holds(tmp_path: Path) -> None:
    """A paused Deployment cannot be rolled out, and OnDelete says what it waits for."""
    paused = workload("Deployment", "web", 1)
    paused["spec"]["paused"] = True
    with pytest.raises(WhatIfError, match="Deployment default/web is paused"):
        after(tmp_path, "rollout deploy/web", *NODES, paused)
    found = after(tmp_path, "rollout ds/agent", *agents({"type": "OnDelete"}))
    assert (found.ok, found.rollouts[0].stuck) == (True, "OnDelete: a pod is replaced once it is deleted")


def test_applying_a_paused_deployment(tmp_path: Path) -> None:
    """It is scaled with pods as they were; the new template waits."""
    was = workload("Deployment", "web", 1)
    new = workload("Deployment", "web", 2, cpu="4")
    new["spec"]["paused"] = True
    file = written(tmp_path, "new.yaml", new)
    found = after(tmp_path, f"apply {file}", *NODES[:1], was)
    assert (found.ok, len(found.moves), found.gone) == (True, 1, [])
