"""Objects that are applied or deleted: whatever kind, with what their controllers would make of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NoReturn

from msgspec import structs

from berth.engine.offline.lookup import KINDS, by_alias
from berth.engine.offline.snapshot import Entry, SnapshotError, SnapshotReader, add_context, group_of_manifest
from berth.engine.offline.what_if.changes import ApplyObjects, DeleteObject, WhatIfError
from berth.engine.offline.what_if.nodes import driven_out
from berth.engine.offline.what_if.selecting import near, node_of, object_of, pod_of
from berth.engine.offline.what_if.workloads import (
    SCALABLE,
    fit_replicas,
    follow,
    follow_nodes,
    is_paused,
    living,
    missing,
    roll_out,
)
from berth.engine.offline.what_if.world import ChangingWorld, bound
from berth.engine.offline.workloads import DAEMON_SET
from berth.kube.affinity.annotations import AnnotationError
from berth.kube.manifests.kinds import group_of
from berth.kube.manifests.manifest import Manifest
from berth.kube.objects import (
    CronJob,
    Job,
    KubeObject,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    StorageClass,
    Workload,
)

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
_OWNING = (*SCALABLE, DAEMON_SET, "Job", "CronJob")
_Key = tuple[str, str, str | None, str]


# --- applying ------------------------------------------------------------------------------------------


def apply(world: ChangingWorld, change: ApplyObjects) -> None:
    """Take objects over: those that are there already change, the others come."""
    snapshot = world.snapshot
    known = {_key(manifest): manifest for manifest in snapshot.manifests}
    if change.new:
        for manifest in change.manifests:
            if _key(manifest) in known:
                raise WhatIfError(f"{manifest.title} is there already; --apply {change.file} would change it")
    fresh = {_key(manifest): _without_status(manifest) for manifest in change.manifests}
    snapshot.manifests = [fresh.get(_key(manifest), manifest) for manifest in snapshot.manifests]
    snapshot.manifests += [manifest for key, manifest in fresh.items() if key not in known]
    reader = snapshot.reader
    try:
        for manifest in change.manifests:
            reader.check(manifest)
        for manifest in change.manifests:
            add_context(snapshot, manifest)
        reader.take_in_volumes()
        _Apply(world, reader, known).all(change.manifests)
    except (SnapshotError, AnnotationError) as error:
        raise WhatIfError(str(error)) from None


def _without_status(manifest: Manifest) -> Manifest:
    """What a budget allows is counted: a server takes no status from a file."""
    view = manifest.object
    if not isinstance(view, PodDisruptionBudget):
        return manifest
    return replace(manifest, object=structs.replace(view, status=None))


def _key(manifest: Manifest) -> _Key:
    return (group_of(manifest.api_version), manifest.kind, manifest.namespace, manifest.name)


class _Apply:
    def __init__(self, world: ChangingWorld, reader: SnapshotReader, known: dict[_Key, Manifest]) -> None:
        self._world = world
        self._reader = reader
        self._known = known

    def all(self, manifests: Iterable[Manifest]) -> None:
        manifests = list(manifests)
        nodes = [manifest for manifest in manifests if isinstance(manifest.object, Node)]
        for manifest in nodes:
            if isinstance(manifest.object, Node):
                self._world.set_node(self._reader.node(manifest.object))
        for manifest in nodes:
            driven_out(self._world, manifest.name)
        follow_nodes(self._world, [manifest.name for manifest in nodes])
        for manifest in manifests:
            view = manifest.object
            if isinstance(view, Pod):
                self._pod(self._reader.entry(manifest, view))
            elif isinstance(view, Workload | Job | CronJob) or manifest.kind in SCALABLE:
                self._workload(manifest)

    def _pod(self, entry: Entry) -> None:
        """A pod comes, or changes where it is: to a node it goes by the scheduler only."""
        world = self._world
        there = world.on.get(entry.key)
        if there is not None:
            changed = bound(entry, there.pod.spec.node_name)
            world.on[entry.key] = world.entries[entry.key] = changed
            world.cluster.add_pod(changed.pod)
            return
        before = len(world.snapshot.running)
        self._reader.sort_in(world.snapshot, entry)
        if len(world.snapshot.running) > before:
            world.on[entry.key] = world.entries[entry.key] = entry
        elif world.snapshot.pending and world.snapshot.pending[-1] is entry:
            world.add([entry])

    def _workload(self, manifest: Manifest) -> None:
        world, old = self._world, self._known.get(_key(manifest))
        view = manifest.object
        was = old.object if old is not None else None
        if isinstance(view, Job | CronJob):
            world.add(missing(world, manifest))
        elif manifest.kind == DAEMON_SET:
            if _is_rolled_out(view, was):
                roll_out(world, manifest)
            follow(world, manifest, list(world.snapshot.nodes))
        elif _is_rolled_out(view, was) and living(world, manifest):
            fit_replicas(world, _like(manifest, was))
            world.schedule()
            if not is_paused(manifest):
                roll_out(world, manifest)
        else:
            fit_replicas(world, manifest)


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


def delete(world: ChangingWorld, change: DeleteObject) -> None:
    """An object goes, and its controllers draw the consequences."""
    kind, name, space = _target(change.target, world.namespace)
    if kind == "Pod":
        entry = pod_of(world.on | world.waiting, world.snapshot, change.target, world.namespace)
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
    if kind in _OWNING:
        for entry in world.pods_of(f"{kind}/{name}", manifest.namespace or "default"):
            world.remove(entry, f"{kind}/{name} is deleted")
    _forget(world, manifest)
    world.snapshot.manifests = [each for each in world.snapshot.manifests if each is not manifest]


def _target(text: str, namespace: str | None) -> tuple[str, str, str | None]:
    parts = text.split("/")
    kind = _KINDS.get(parts[-2].lower().partition(".")[0]) if 2 <= len(parts) <= 3 else None
    if kind is None or not parts[-1]:
        _refuse(text, parts)
    return kind, parts[-1], parts[0] if len(parts) > 2 else namespace


def _refuse(text: str, parts: list[str]) -> NoReturn:
    hint = near(parts[-2], map(str.lower, _KINDS.values())) if len(parts) > 1 else "write KIND/NAME"
    raise WhatIfError(f"'{text}' is not KIND/NAME of something that can be deleted here; {hint}")


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
    """Tell the cluster of an object that nobody but rules looks at."""
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
