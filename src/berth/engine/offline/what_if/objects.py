"""Objects that change: nodes are drained, lost, labelled, tainted, added; any kind is applied or deleted.

What the controllers would make of it is made at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count, islice

from msgspec import structs

from berth.engine.offline.budgets import AllowedDisruptions, DisruptionBudget
from berth.engine.offline.lookup import KINDS, by_alias, near, object_of
from berth.engine.offline.scheduling.preemption import comes_again
from berth.engine.offline.snapshot import Entry, SnapshotError, SnapshotReader, add_context, group_of_manifest
from berth.engine.offline.what_if import changes, workloads
from berth.engine.offline.what_if.changes import WhatIfError
from berth.engine.offline.what_if.lookup import node_of, nodes_with, pod_of, selected_nodes
from berth.engine.offline.what_if.outcome import EvictionRound
from berth.engine.offline.what_if.world import ChangingWorld, bound
from berth.engine.offline.workloads import DAEMON_SET
from berth.kube.affinity.annotations import AnnotationError
from berth.kube.manifests.manifest import Manifest
from berth.kube.objects import (
    CronJob,
    Job,
    KubeObject,
    Node,
    NodeSpec,
    NodeStatus,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    StorageClass,
    Taint,
    Workload,
)
from berth.kube.pods import is_terminating
from berth.kube.taints import NO_EXECUTE, PREFIX, evicted_at
from berth.kube.well_known import HOSTNAME

MOST_ADDED = 10_000
_KINDS = KINDS | by_alias(
    {
        "Node": ("no", "nodes"),
        "Namespace": ("ns", "namespaces"),
        "Service": ("svc", "services"),
        "PodDisruptionBudget": ("pdb", "poddisruptionbudgets"),
        "PriorityClass": ("pc", "priorityclasses"),
        "PodGroup": ("podgroups",),
        "PersistentVolumeClaim": ("pvc", "persistentvolumeclaims"),
        "PersistentVolume": ("pv", "persistentvolumes"),
        "StorageClass": ("sc", "storageclasses"),
    }
)
NO_OWNER = "it has no owner, so drain refuses to touch it without --force"


def drain(world: ChangingWorld, change: changes.NodeDrain) -> None:
    """Cordon the nodes, then evict in rounds: as many at once as the budgets allow."""
    snapshot = world.snapshot
    names = [change.node] if change.node else selected_nodes(snapshot, change.selector)
    for name in names:
        cordon(world, changes.NodeCordon(name))
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
        # Pods may have been preempted meanwhile.
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


def lose(world: ChangingWorld, change: changes.NodeLoss) -> None:
    names = nodes_with(world.snapshot, change.key, change.value)
    world.remove_nodes(names, "its node is lost")


def cordon(world: ChangingWorld, change: changes.NodeCordon) -> None:
    node = node_of(world.snapshot, change.node)
    world.set_node(structs.replace(node, spec=structs.replace(node.spec or NodeSpec(), unschedulable=True)))


def label(world: ChangingWorld, change: changes.NodeLabelChange) -> None:
    node = node_of(world.snapshot, change.node)
    labels = dict(node.metadata.labels or {})
    if change.value is not None:
        labels[change.key] = change.value
    elif labels.pop(change.key, None) is None:
        raise WhatIfError(f"node {change.node} has no label {change.key} that could be removed")
    world.set_node(structs.replace(node, metadata=structs.replace(node.metadata, labels=labels)))
    workloads.follow_nodes(world, [change.node])


def taint(world: ChangingWorld, change: changes.NodeTaintChange) -> None:
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
    workloads.follow_nodes(world, [change.node])


def driven_out(world: ChangingWorld, name: str) -> None:
    """Delete the pods of a node that do not tolerate its NoExecute taints for good."""
    node = world.snapshot.nodes[name]
    for entry in world.pods_on([name]):
        if not entry.is_mirror and evicted_at(entry.pod, node) is not None:
            world.displace(entry, keeps_node=False, why="driven out by a taint")


def add(world: ChangingWorld, change: changes.NodeAddition) -> None:
    """Nodes like another, as they are when they come: empty, ready, with no image and a name of their own."""
    if not 0 < change.count <= MOST_ADDED:
        raise WhatIfError(f"--add {change.count}={change.like}: add between 1 and {MOST_ADDED} nodes")
    like = node_of(world.snapshot, change.like)
    names = (f"{change.like}-new-{number}" for number in count(1))
    added = list(islice((name for name in names if name not in world.snapshot.nodes), change.count))
    for name in added:
        world.set_node(_copy(like, name))
    workloads.follow_nodes(world, added)


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


# --- applying ------------------------------------------------------------------------------------------


def apply(world: ChangingWorld, change: changes.ObjectApplication) -> None:
    """Take objects over: those that are there already change, the others come."""
    snapshot = world.snapshot
    known = {manifest.key: manifest for manifest in snapshot.manifests}
    if change.new:
        for manifest in change.manifests:
            if manifest.key in known:
                raise WhatIfError(f"{manifest.title} is there already; --apply {change.file} would change it")
    fresh = {manifest.key: _without_status(manifest) for manifest in change.manifests}
    snapshot.manifests = [fresh.get(manifest.key, manifest) for manifest in snapshot.manifests]
    snapshot.manifests += [manifest for key, manifest in fresh.items() if key not in known]
    reader = snapshot.reader
    try:
        for manifest in change.manifests:
            reader.check(manifest)
        for manifest in change.manifests:
            add_context(snapshot, manifest)
        reader.volumes.take_in()
        _apply_nodes(world, reader, change.manifests)
        for manifest in change.manifests:
            view = manifest.object
            if isinstance(view, Pod):
                _apply_pod(world, reader, reader.entry(manifest, view))
            elif isinstance(view, Workload | Job | CronJob) or manifest.kind in workloads.SCALABLE:
                _apply_workload(world, manifest, known.get(manifest.key))
    except (SnapshotError, AnnotationError) as error:
        raise WhatIfError(str(error)) from None


def _without_status(manifest: Manifest) -> Manifest:
    """What a budget allows is counted: a server takes no status from a file."""
    view = manifest.object
    if not isinstance(view, PodDisruptionBudget):
        return manifest
    return replace(manifest, object=structs.replace(view, status=None))


def _apply_nodes(world: ChangingWorld, reader: SnapshotReader, manifests: Iterable[Manifest]) -> None:
    nodes = {manifest.name: manifest.object for manifest in manifests if isinstance(manifest.object, Node)}
    for node in nodes.values():
        world.set_node(reader.node(node))
    for name in nodes:
        driven_out(world, name)
    workloads.follow_nodes(world, nodes)


def _apply_pod(world: ChangingWorld, reader: SnapshotReader, entry: Entry) -> None:
    """A pod comes, or changes where it is: to a node it goes by the scheduler only."""
    there = world.on.get(entry.key)
    if there is not None:
        changed = bound(entry, there.pod.spec.node_name)
        world.on[entry.key] = world.entries[entry.key] = changed
        world.cluster.add_pod(changed.pod)
        return
    reader.sort_in(world.snapshot, entry)
    if entry in world.snapshot.running[-1:]:
        world.on[entry.key] = world.entries[entry.key] = entry
    elif entry in world.snapshot.pending[-1:]:
        world.add([entry])


def _apply_workload(world: ChangingWorld, manifest: Manifest, old: Manifest | None) -> None:
    view, was = manifest.object, old.object if old is not None else None
    if isinstance(view, Job | CronJob):
        world.add(workloads.missing(world, manifest))
    elif manifest.kind == DAEMON_SET:
        if _is_rolled_out(view, was):
            workloads.roll_out(world, manifest)
        workloads.follow(world, manifest, list(world.snapshot.nodes))
    elif _is_rolled_out(view, was) and workloads.living(world, manifest):
        workloads.fit_replicas(world, _like(manifest, was))
        world.schedule()
        if not workloads.is_paused(manifest):
            workloads.roll_out(world, manifest)
    else:
        workloads.fit_replicas(world, manifest)


def _is_rolled_out(view: KubeObject | None, was: KubeObject | None) -> bool:
    """Whether new pods of a workload would be others than those there are."""
    if not isinstance(view, Workload) or not isinstance(was, Workload):
        return False
    return view.spec.template != was.spec.template


def _like(manifest: Manifest, was: KubeObject | None) -> Manifest:
    """The workload with its new number of replicas and its old template."""
    view = manifest.object
    if not isinstance(view, Workload) or not isinstance(was, Workload):
        return manifest
    spec = structs.replace(view.spec, template=was.spec.template)
    return replace(manifest, object=structs.replace(view, spec=spec))


# --- deleting ------------------------------------------------------------------------------------------


def delete(world: ChangingWorld, change: changes.ObjectDeletion) -> None:
    """An object goes, and its controllers draw the consequences."""
    kind, name, space = _target(change.target, world.namespace)
    if kind == "Pod":
        entry = pod_of(world, change.target, world.on | world.waiting)
        _delete_pod(world, entry)
        return
    if kind == "Node":
        node_of(world.snapshot, name)
        world.remove_nodes([name], "its node is deleted")
        return
    if kind == "Namespace" and any(each.namespace == name for each in world.snapshot.manifests):
        _delete_namespace(world, name)
        return
    manifest = object_of(world.snapshot, kind, name, space)
    if kind in workloads.MAKING_PODS:
        for entry in world.pods_of(f"{kind}/{name}", manifest.namespace or "default"):
            world.remove(entry, f"{kind}/{name} is deleted")
    _forget(world, manifest)
    world.snapshot.manifests = [each for each in world.snapshot.manifests if each is not manifest]


def _target(text: str, namespace: str | None) -> tuple[str, str, str | None]:
    parts = text.split("/")
    kind = _KINDS.get(parts[-2].lower().partition(".")[0]) if 2 <= len(parts) <= 3 else None
    if kind is None or not parts[-1]:
        hint = near(parts[-2], map(str.lower, _KINDS.values())) if len(parts) > 1 else "write KIND/NAME"
        raise WhatIfError(f"'{text}' is not KIND/NAME of something that can be deleted here; {hint}")
    return kind, parts[-1], parts[0] if len(parts) > 2 else namespace


def _delete_pod(world: ChangingWorld, entry: Entry) -> None:
    if entry.key in world.on:
        node_stays = entry.pod.spec.node_name in world.snapshot.nodes
        world.displace(entry, keeps_node=node_stays, why="deleted")
        if entry.key in world.log.lost:  # that is what was asked for
            world.log.gone[entry.key] = world.log.lost.pop(entry.key)
    elif entry.owner is None:
        world.remove(entry, "deleted")


def _delete_namespace(world: ChangingWorld, name: str) -> None:
    for entry in [*world.on.values(), *world.waiting.values()]:
        if entry.namespace == name:
            world.remove(entry, f"namespace {name} is deleted")
    world.snapshot.manifests = [
        each
        for each in world.snapshot.manifests
        if each.namespace != name and (each.kind, each.name) != ("Namespace", name)
    ]
    world.cluster.remove_namespace(name)


def _forget(world: ChangingWorld, manifest: Manifest) -> None:
    """Remove an object of which only rules take note."""
    cluster, view, space = world.cluster, manifest.object, manifest.namespace or "default"
    if isinstance(view, PersistentVolumeClaim):
        cluster.volumes.remove_claim(space, manifest.name)
    elif isinstance(view, PersistentVolume):
        cluster.volumes.remove_volume(manifest.name)
    elif isinstance(view, StorageClass):
        cluster.volumes.remove_class(manifest.name)
    elif isinstance(view, PodGroup):
        world.snapshot.group_minimums.pop(group_of_manifest(manifest, view), None)
    elif manifest.kind in ("Service", "ReplicationController", "ReplicaSet", "StatefulSet"):
        cluster.remove_owner(manifest.kind, space, manifest.name)
