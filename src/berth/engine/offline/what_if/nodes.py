"""Changes of nodes: they are drained, lost, cordoned, labelled, tainted, added."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from berth.engine.offline.budgets import AllowedDisruptions, DisruptionBudget
from berth.engine.offline.scheduling.making_room import comes_again
from berth.engine.offline.snapshot import Entry
from berth.engine.offline.what_if.changes import (
    AddNodes,
    CordonNode,
    DrainNodes,
    LabelNode,
    LoseNodes,
    TaintNode,
    WhatIfError,
)
from berth.engine.offline.what_if.outcome import EvictionRound
from berth.engine.offline.what_if.selecting import node_of, nodes_with, selected_nodes
from berth.engine.offline.what_if.workloads import follow_nodes
from berth.engine.offline.what_if.world import ChangingWorld
from berth.kube.objects import Node, NodeSpec, NodeStatus, Taint
from berth.kube.pods import is_terminating
from berth.kube.taints import NO_EXECUTE, PREFIX, tolerates
from berth.kube.well_known import HOSTNAME

MOST_ADDED = 10_000
NO_OWNER = "it has no owner, so drain refuses to touch it without --force"


def drain(world: ChangingWorld, change: DrainNodes) -> None:
    """Cordon the nodes, then evict in rounds: as many at once as the budgets allow."""
    snapshot = world.snapshot
    names = [change.node] if change.node else selected_nodes(snapshot, change.selector)
    for name in names:
        cordon(world, CordonNode(name))
    leaving = []
    for entry in world.pods_on(names):
        if entry.is_mirror:
            world.leave_behind(entry, "mirror pod: its kubelet runs it")
        elif entry.is_daemon:
            world.leave_behind(entry, f"{entry.owner} has a pod on every node")
        elif is_terminating(entry.pod):
            world.leave_behind(entry, "it is being deleted already")
        elif not comes_again(entry):
            world.leave_behind(entry, NO_OWNER, refused=True)
        else:
            leaving.append(entry)
    evict_in_rounds(world, leaving)


def evict_in_rounds(world: ChangingWorld, leaving: Sequence[Entry]) -> None:
    """Evict pods, each round as many as budgets allow, and place what is made for them in between."""
    number, left = 0, list(leaving)
    while left:
        allowed = AllowedDisruptions(world.budgets())
        stopped = {entry.key: allowed.evict(entry) for entry in left}
        going = [entry for entry in left if not stopped[entry.key]]
        if not going:
            break
        number += 1
        pods = [entry.key for entry in going]
        world.log.rounds.append(EvictionRound(change=world.log.change, round=number, pods=pods))
        for entry in going:
            world.displace(entry, keeps_node=True, why="evicted")
        world.schedule()
        # Whoever was preempted meanwhile is not there any more.
        left = [entry for entry in left if stopped[entry.key] and world.on.get(entry.key) is entry]
    else:
        return
    for entry in left:
        world.leave_behind(entry, _held(stopped[entry.key]), stopped[entry.key])


def _held(budgets: Sequence[DisruptionBudget]) -> str:
    if len(budgets) > 1:
        names = ", ".join(budget.name for budget in budgets)
        return f"{names}: two budgets at once, so it is never evicted"
    fault = f" ever: {budgets[0].fault}" if budgets[0].fault else ""
    return f"budget {budgets[0].name} allows no eviction{fault}"


def lose(world: ChangingWorld, change: LoseNodes) -> None:
    names = nodes_with(world.snapshot, change.key, change.value)
    world.remove_nodes(names, "its node is lost")


def cordon(world: ChangingWorld, change: CordonNode) -> None:
    node = node_of(world.snapshot, change.node)
    world.set_node(structs.replace(node, spec=structs.replace(node.spec or NodeSpec(), unschedulable=True)))


def label(world: ChangingWorld, change: LabelNode) -> None:
    node = node_of(world.snapshot, change.node)
    labels = dict(node.metadata.labels or {})
    if change.value is None:
        if change.key not in labels:
            raise WhatIfError(f"node {change.node} has no label {change.key} that could be removed")
        del labels[change.key]
    else:
        labels[change.key] = change.value
    world.set_node(structs.replace(node, metadata=structs.replace(node.metadata, labels=labels)))
    follow_nodes(world, [change.node])


def taint(world: ChangingWorld, change: TaintNode) -> None:
    """Taint a node; NoExecute also drives out whoever does not tolerate it, whatever the budgets say."""
    node = node_of(world.snapshot, change.node)
    spec = node.spec or NodeSpec()
    same = [
        each for each in spec.taints or () if each.key == change.key and change.effect in ("", each.effect)
    ]
    if change.removed and not same:
        raise WhatIfError(f"node {change.node} has no taint {change.key} that could be removed")
    kept = [each for each in spec.taints or () if each not in same]
    added = Taint(key=change.key, value=change.value or None, effect=change.effect)
    taints = kept if change.removed else [*kept, added]
    world.set_node(structs.replace(node, spec=structs.replace(spec, taints=taints or None)))
    if not change.removed and change.effect == NO_EXECUTE:
        driven_out(world, change.node)
    follow_nodes(world, [change.node])


def driven_out(world: ChangingWorld, name: str) -> None:
    """Delete the pods of a node that do not tolerate its NoExecute taints for good."""
    spec = world.snapshot.nodes[name].spec
    taints = [each for each in (spec.taints if spec else None) or () if each.effect == NO_EXECUTE]
    going = [
        entry
        for entry in world.pods_on([name])
        if not entry.is_mirror and not all(_stays_with(entry, each) for each in taints)
    ]
    for entry in going:
        world.displace(entry, keeps_node=False, why="driven out by a taint")


def _stays_with(entry: Entry, taint: Taint) -> bool:
    lasting = [t for t in entry.pod.spec.tolerations or () if t.toleration_seconds is None]
    return tolerates(lasting, taint)


def add(world: ChangingWorld, change: AddNodes) -> None:
    """Nodes like another, as they are when they come: empty, ready, with no image and a name of their own."""
    if not 0 < change.count <= MOST_ADDED:
        raise WhatIfError(f"--add {change.count}={change.like}: add between 1 and {MOST_ADDED} nodes")
    like = node_of(world.snapshot, change.like)
    added: list[str] = []
    number = 0
    while len(added) < change.count:
        number += 1
        name = f"{change.like}-new-{number}"
        if name not in world.snapshot.nodes:
            world.set_node(_copy(like, name))
            added.append(name)
    follow_nodes(world, added)


def _copy(node: Node, name: str) -> Node:
    labels = dict(node.metadata.labels or {})
    if HOSTNAME in labels:
        labels[HOSTNAME] = name
    spec = node.spec or NodeSpec()
    taints = [each for each in spec.taints or () if not (each.key or "").startswith(PREFIX)]
    metadata = structs.replace(node.metadata, name=name, uid=None, labels=labels, creation_timestamp=None)
    status = structs.replace(node.status or NodeStatus(), images=None, conditions=None)
    spec = structs.replace(spec, unschedulable=None, taints=taints or None, pod_cidr=None)
    return structs.replace(node, metadata=metadata, spec=spec, status=status)
