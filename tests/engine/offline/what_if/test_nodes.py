"""What becomes of pods when nodes are drained, lost, cordoned, labelled, tainted, added."""

from pathlib import Path

import pytest

from berth.engine.offline.what_if.changes import WhatIfError
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
    spread,
    together,
    workload,
    world,
)

NODES = [node("a1", "a"), node("b1", "b"), node("c1", "c")]


def web(*nodes: str) -> list[Thing]:
    return [pod(f"web-{i}", name, owner="ReplicaSet/web", app="web") for i, name in enumerate(nodes)]


# --- losing --------------------------------------------------------------------------------------------


def test_a_zone_that_can_be_lost(tmp_path: Path) -> None:
    """The answer comes first, every pod is told from where to where and why, and all is well."""
    found = after(tmp_path, "lose zone=a", *NODES, *web("a1", "a1", "b1"))
    assert found.ok
    assert found.sentence == "zone a can be lost: all 2 pods land elsewhere."
    assert {pod: source for pod, (source, _) in moves(found).items()} == {"web-0": "a1", "web-1": "a1"}
    assert all(move.why and move.source_zone == "a" for move in found.moves)


def test_a_zone_that_cannot_be_lost(tmp_path: Path) -> None:
    """Who finds no node has kube-scheduler's reason and the smallest change that would help."""
    small = [node("a1", "a", cpu="4"), node("b1", "b", cpu="2")]
    found = after(tmp_path, "lose zone=a", *small, *web("a1", "a1", "b1"))
    assert not found.ok
    assert found.sentence == "1 of 2 pods would find no node: 0/1 nodes are available: 1 Insufficient cpu."
    (stranded,) = found.unplaced
    assert (stranded.source, stranded.waited, bool(stranded.help)) == ("a1", False, True)


def test_who_had_no_node_before_is_told_apart(tmp_path: Path) -> None:
    """The answer is about the change; a pod that waited before still counts, and is said to have waited."""
    found = after(tmp_path, "lose zone=a", *NODES, *web("a1"), pod("big", cpu="9"))
    assert found.sentence == (
        "zone a can be lost: the pod lands elsewhere; 1 pod had no node before and has none now: "
        "0/2 nodes are available: 2 Insufficient cpu."
    )
    assert not found.ok
    helped = after(
        tmp_path, "taint a1:x=y:NoExecute; delete pod/big", *NODES, *web("a1"), pod("big", cpu="9")
    )
    assert helped.ok


def test_all_nodes_can_be_lost(tmp_path: Path) -> None:
    """Losing everything is an answer, too."""
    found = after(tmp_path, "lose zone=a; lose zone=b; lose node=c1", *NODES, *web("a1", "b1"))
    assert found.sentence == "2 of 2 pods would find no node: no nodes available to schedule pods."
    assert found.measures.nodes_used == 0


def test_who_belongs_to_a_node_goes_with_it(tmp_path: Path) -> None:
    """A DaemonSet's pod needs no other node; a pod that nobody makes again is lost, and that is not well."""
    things = [*NODES, workload("DaemonSet", "agent"), pod("bare", "a1")]
    found = after(tmp_path, "lose zone=a", *things)
    assert {(gone.pod, gone.lost) for gone in found.gone} == {("agent-a1", False), ("bare", True)}
    assert (found.unplaced, found.ok) == ([], False)
    assert "1 pod would be lost, since nobody makes it again" in found.sentence


def test_an_empty_cluster(tmp_path: Path) -> None:
    """A cluster without pods loses none, and one without nodes says what is missing."""
    assert after(tmp_path, "lose zone=a", *NODES).sentence == "zone a can be lost: no pod has to move."
    with pytest.raises(WhatIfError, match="no node among the files has the label"):
        after(tmp_path, "lose zone=a", *web("a1"))


# --- draining ------------------------------------------------------------------------------------------


def test_a_drain_leaves_behind_what_drain_leaves_behind(tmp_path: Path) -> None:
    """Mirror pods and those of DaemonSets stay; emptyDir volumes are lost with their pods."""
    mirror = pod("kube-proxy", "a1", owner="Node/a1")
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    with_cache = pod("web-0", "a1", owner="ReplicaSet/web", volumes=[{"name": "cache", "emptyDir": {}}])
    things = [*NODES, workload("DaemonSet", "agent"), mirror, with_cache]
    found = after(tmp_path, "drain a1", *things)
    assert found.sentence == "node a1 can be drained: the pod lands elsewhere."
    assert {stay.pod for stay in found.stays} == {"kube-proxy", "agent-a1"}
    assert [(loss.pod, loss.volumes) for loss in found.local_storage] == [("web-0", ["cache"])]
    assert found.ok


def test_a_pod_without_owner_keeps_drain_from_beginning(tmp_path: Path) -> None:
    """As kubectl refuses the node because of it, the answer is no, and says what it would take."""
    found = after(tmp_path, "drain a1", *NODES, pod("bare", "a1"), *web("a1"))
    assert found.sentence == "drain would refuse to begin without --force: 1 pod has no owner."
    assert [(stay.pod, stay.refused) for stay in found.stays] == [("bare", True)]
    assert not found.ok


def test_a_drain_goes_in_rounds(tmp_path: Path) -> None:
    """One of three may go at a time, so it takes three rounds, and each pod has its own."""
    found = after(tmp_path, "drain a1", *NODES, *web("a1", "a1", "a1"), budget("web", minAvailable=2))
    assert [drained.pods for drained in found.rounds] == [[f"default/web-{i}"] for i in range(3)]
    assert [move.round for move in found.moves] == [1, 2, 3]
    assert found.sentence.endswith("all 3 pods land elsewhere, in 3 rounds.")


def test_a_budget_blocks_a_drain(tmp_path: Path) -> None:
    """A budget that lets nobody go keeps the pods where they are, and that is not well."""
    found = after(tmp_path, "drain a1", *NODES, *web("a1", "b1"), budget("web", minAvailable=2))
    assert (found.ok, found.moves) == (False, [])
    assert found.sentence == "1 pod stays, held by budget web."
    (blocking,) = found.budgets
    assert (blocking.allowed_before, blocking.blocks) == (0, ["default/web-0"])


def test_a_budget_does_not_recover_while_a_replacement_waits(tmp_path: Path) -> None:
    """The second pod may go only when the first runs elsewhere; it never does, so it stays."""
    full = [node("a1", "a"), node("b1", "b", cpu="1")]
    other = pod("other", "b1", owner="ReplicaSet/other")
    found = after(tmp_path, "drain a1", *full, other, *web("a1", "a1"), budget("web", maxUnavailable=1))
    assert [stranded.pod for stranded in found.unplaced] == ["web-0"]
    assert [stay.pod for stay in found.blocked] == ["web-1"]


def test_nodes_are_drained_by_labels(tmp_path: Path) -> None:
    """A selector drains all its nodes at once: none takes the pods of another."""
    nodes = [node("a1", "a", tier="old"), node("a2", "a", tier="old"), node("b1", "b", tier="new")]
    found = after(tmp_path, "drain -l tier=old", *nodes, *web("a1", "a2"))
    assert {target for _, target in moves(found).values()} == {"b1"}
    for selector in ("tier!=new", "tier in (old, older)", "tier notin (new)", "tier=old,!gone"):
        assert moves(after(tmp_path, f"drain -l {selector}", *nodes, *web("a1", "a2"))) == moves(found)


def test_the_order_of_changes_matters(tmp_path: Path) -> None:
    """Between two changes the scheduler has its turn: a node that is cordoned later may be used before."""
    pair = [node("a1", "a"), node("b1", "b", cpu="1"), node("c1", "c")]
    things = [*pair, *web("a1"), pod("big", "c1", owner="ReplicaSet/big", cpu="4")]
    assert moves(after(tmp_path, "drain a1; cordon b1", *things)) == {"web-0": ("a1", "b1")}
    assert [s.pod for s in after(tmp_path, "cordon b1; drain a1", *things).unplaced] == ["web-0"]


def test_draining_twice_changes_nothing_more(tmp_path: Path) -> None:
    """The second drain of a node finds nobody to evict."""
    once, twice = (after(tmp_path, text, *NODES, *web("a1")) for text in ("drain a1", "drain a1; drain a1"))
    assert moves(once) == moves(twice)
    assert twice.ok


# --- rules ---------------------------------------------------------------------------------------------


def test_rules_that_are_newly_broken_and_healed(tmp_path: Path) -> None:
    """A label that takes a zone away breaks what relied on it, and giving it back heals it."""
    nodes = [node("a1", "a"), node("a2", "a"), node("b1", "b")]
    app = pod("app", "a1", owner="ReplicaSet/app", affinity=together("db"))
    things = [*nodes, pod("db", "a2", owner="ReplicaSet/db"), app]
    broken = after(tmp_path, "label a2:topology.kubernetes.io/zone=b", *things)
    assert [(rule.pod, rule.hard) for rule in broken.broken] == [("app", True)]
    assert not broken.ok
    made = world(tmp_path, *things)
    changed(made, tmp_path, "label a2:topology.kubernetes.io/zone=b")
    healed = changed(made, tmp_path, "label a2:topology.kubernetes.io/zone=a")
    assert [rule.pod for rule in healed.healed] == ["app"]
    assert healed.ok


def test_skew_before_and_after(tmp_path: Path) -> None:
    """Every constraint says how even it was and is."""
    deployment = workload("Deployment", "web", 3, topologySpreadConstraints=spread("web"))
    found = after(tmp_path, "scale deploy/web=4", *NODES, deployment)
    (constraint,) = found.spread
    assert constraint.before is not None
    assert constraint.after is not None
    assert (constraint.before.skew, constraint.after.skew, constraint.after.ok) == (0, 1, True)


def test_utilisation_before_and_after(tmp_path: Path) -> None:
    """Nodes and zones say what was and is requested of them; one that is gone has no after."""
    found = after(tmp_path, "lose zone=a", *NODES, *web("a1"))
    by_name = {each.name: each for each in found.nodes}
    before = by_name["a1"].before
    assert before is not None
    assert (before.cpu, before.cpu_allocatable, by_name["a1"].after) == (1000, 4000, None)
    assert {zone.name for zone in found.zones} == {"a", "b", "c"}
    assert sum(zone.after.cpu for zone in found.zones if zone.after) == 1000


# --- taints and new nodes ------------------------------------------------------------------------------


def test_a_taint_keeps_out_or_drives_out(tmp_path: Path) -> None:
    """NoSchedule moves nobody, NoExecute those who do not tolerate it, whatever a budget says."""
    tolerant = pod("agent", "a1", owner="ReplicaSet/agent", tolerations=[{"operator": "Exists"}])
    things = [*NODES, *web("a1"), tolerant, budget("web", minAvailable=1)]
    assert moves(after(tmp_path, "taint a1:x=y:NoSchedule", *things)) == {}
    driven = after(tmp_path, "taint a1:x=y:NoExecute", *things)
    assert list(moves(driven)) == ["web-0"]
    again = after(tmp_path, "taint a1:x=y:NoSchedule; taint a1:x-; lose zone=b; lose zone=c", *things)
    assert again.ok


def test_added_nodes_take_what_waits_and_get_their_daemons(tmp_path: Path) -> None:
    """Nodes like another are empty, have a name of their own, and no cordon."""
    things = [
        node("a1", "a", cpu="1"),
        workload("Deployment", "web", 3),
        workload("DaemonSet", "agent", cpu="0"),
    ]
    found = after(tmp_path, "cordon a1; add 2=a1", *things)
    new = {move.pod: move.target for move in found.moves}
    assert set(new.values()) == {"a1-new-1", "a1-new-2"}
    assert {"agent-a1-new-1", "agent-a1-new-2"} <= new.keys()
    assert found.ok


def test_daemons_follow_labels(tmp_path: Path) -> None:
    """A DaemonSet's pod comes where a label calls for it and goes where it is taken away."""
    agent = workload("DaemonSet", "agent", nodeSelector={"disk": "ssd"})
    made = world(tmp_path, *NODES, agent)
    changed(made, tmp_path, "label a1:disk=ssd")
    assert places(made) == {"agent-a1": "a1"}
    found = changed(made, tmp_path, "label a1:disk-")
    assert (places(made), [gone.lost for gone in found.gone]) == ({}, [False])


def test_daemons_leave_only_for_taints_that_drive_them_out(tmp_path: Path) -> None:
    """A NoSchedule taint keeps a DaemonSet from starting a pod, and takes none away that is there."""
    made = world(
        tmp_path, *NODES[:2], workload("DaemonSet", "agent"), pod("agent-a1", "a1", owner="DaemonSet/agent")
    )
    changed(made, tmp_path, "taint b1:x=y:NoSchedule; taint a1:x=y:NoSchedule")
    assert places(made) == {"agent-a1": "a1", "agent-b1": "b1"}
    changed(made, tmp_path, "taint a1:x=y:NoExecute")
    assert places(made) == {"agent-b1": "b1"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            "drain a9",
            "node a9 is not among the files; there is nothing with a name like that, only a1, b1, c1",
        ),
        ("drain node-a", "node node-a is not"),
        ("lose zone=d", "no node among the files has the label topology.kubernetes.io/zone=d"),
        ("lose zone", "write KEY=VALUE"),
        ("lose rack=1", "no node among the files has the label rack;"),
        ("lose zone=a; drain a1", "node a1 is not among the files"),
        ("label a1:nope-", "has no label nope"),
        ("label a1", "write NODE:KEY=VALUE"),
        ("taint a1:x=y:Never", "there is no effect Never, only NoSchedule"),
        ("taint a1:x-", "has no taint x"),
        ("add 0=a1", "between 1 and"),
        ("add a1", "write N=NODE"),
        ("drain -l tier=x", "no node among the files has the labels tier=x"),
        ("drain -l ((", "is no selector"),
        ("evict nope", "pod default/nope is not among the files"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(tmp_path: Path, change: str, words: str) -> None:
    """Nodes, zones and labels that are not there are told with near names, and bad input with its form."""
    with pytest.raises(WhatIfError) as refused:
        after(tmp_path, change, *NODES, *web("a1"))
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_preemption_is_part_of_it(tmp_path: Path) -> None:
    """A drained pod of higher priority takes the room of a lesser one, which is told."""
    nodes = [node("a1", "a", cpu="1"), node("b1", "b", cpu="1")]
    important = pod("db", "a1", owner="ReplicaSet/db", priority=100)
    found = after(tmp_path, "drain a1", *nodes, important, *web("b1"))
    assert moves(found) == {"db": ("a1", "b1")}
    assert [(victim.pod, victim.by, victim.lands_on) for victim in found.preempted] == [
        ("web-0", "default/db", None)
    ]
    assert not found.ok


def test_groups_are_placed_as_groups(tmp_path: Path) -> None:
    """Of a group that no longer fits as a whole nobody is placed."""
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"minMember": 3},
    }
    members = [pod(f"m{i}", "a1", owner="Job/train") for i in range(3)]
    for member in members:
        member["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = "train"
    things = [node("a1", "a"), node("b1", "b", cpu="2"), group, *members]
    found = after(tmp_path, "lose zone=a", *things)
    assert {stranded.pod for stranded in found.unplaced} == {"m0", "m1", "m2"}
    assert all("needs 3 of 3 pods placed together" in stranded.message for stranded in found.unplaced)


def test_apart_stays_apart(tmp_path: Path) -> None:
    """Rules hold for whoever moves: two that must not share a node do not."""
    deployment = workload("Deployment", "web", 3, affinity=apart("web"))
    found = after(tmp_path, "lose zone=a", *NODES, deployment)
    assert len(found.unplaced) == 1
    assert "anti-affinity" in found.unplaced[0].message


def test_local_storage_is_lost_with_every_eviction_and_rollout(tmp_path: Path) -> None:
    """Whoever leaves a node loses what it has there, whyever it leaves."""
    scratch = [{"name": "scratch", "emptyDir": {}}]
    web = workload("Deployment", "web", 1, volumes=scratch)
    for change in ("evict web", "rollout deploy/web", "drain a1", "lose zone=a", "delete pod/web"):
        made = world(tmp_path, node("a1", "a"), web)
        (name,) = places(made)
        found = changed(made, tmp_path, change.replace("web", name) if "deploy" not in change else change)
        assert [(lost.pod, lost.volumes) for lost in found.local_storage] == [(name, ["scratch"])], change


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ("drain -l zone=a", "did you mean topology.kubernetes.io/zone?"),
        ("drain -l disc=ssd", "did you mean disk?"),
        ("evict web-0", "did you mean web-"),
        ("rollout dploy/web", "did you mean deployment?"),
        ("scale deploymnt/web=2", "did you mean deployment?"),
    ],
)
def test_what_was_probably_meant(tmp_path: Path, change: str, hint: str) -> None:
    """A short key, a misspelled kind, and a pod whose name nobody can know are told with the near one."""
    made = world(tmp_path, node("a1", "a", disk="ssd"), workload("Deployment", "web", 1))
    with pytest.raises(WhatIfError) as refused:
        changed(made, tmp_path, change)
    assert hint in str(refused.value)


def test_the_round_of_several_drains(tmp_path: Path) -> None:
    """Each move says of which drain its round is."""
    things = [*(node(n, n[0]) for n in ("a1", "b1", "c1")), workload("Deployment", "web", 6)]
    found = after(tmp_path, "drain a1; drain b1", *things, budget("web", maxUnavailable=1))
    assert {move.change for move in found.moves} <= {1, 2}
    assert [move.change for move in found.moves] == sorted(move.change or 0 for move in found.moves)
