"""The engine's cluster, kept in step with what is watched; every change is noted for those who wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from berth.engine.state.cluster import Cluster, pod_name
from berth.engine.state.cluster_events import (
    ClusterEvent,
    NamespaceUpdated,
    NodeAdded,
    NodeDeleted,
    OwnersChanged,
    PodAdded,
    PodDeleted,
    ResourceClaimChanged,
    StorageCapacityChanged,
    VolumeDetached,
    VolumesChanged,
    node_change,
)
from berth.engine.state.identity import resizing
from berth.engine.state.options import Options
from berth.engine.state.pod_class import PodClass
from berth.engine.state.tables import NOWHERE
from berth.engine.state.volumes.needs import VolumeDecisions
from berth.kube.affinity.annotations import AnnotationError, without_annotation
from berth.kube.api_resources import (
    CLAIMS,
    CSI_CAPACITIES,
    CSI_DRIVERS,
    CSI_NODES,
    NAMESPACES,
    NODES,
    OWNERS,
    RESOURCE_CLAIMS,
    STORAGE,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    VOLUMES,
    Resource,
)
from berth.kube.objects import Key, Pod, View
from berth.kube.pods import is_terminating
from berth.kube.well_known import DELETED
from berth.machines.contract import Event


class Mirror:
    """Keeps the engine's cluster in step with the watches; nobody else changes it.

    Attributes:
        cluster: The engine's view: what was watched, and what was assumed since.
        bound: The pods that were seen on a node.
        storage: Claims, volumes and all that decides about them, as they were last seen.
        unreadable: Pods whose annotation cannot be read, and why; they count as if they had none.

    A machine whose rules count volumes watches `DRIVERS`, too; `devices`: ResourceClaims are watched as well.
    """

    watches: tuple[Resource, ...] = (NODES, NAMESPACES, *OWNERS, *STORAGE)

    def __init__(self, options: Options, profiles: Mapping[str, Options], *, devices: bool = False) -> None:
        self.cluster = Cluster(options, profiles=profiles)
        self.cluster.volumes.known = self.cluster.volumes.capacities_known = True
        self.cluster.resource_claims.known = devices
        self.bound: dict[Key, Pod] = {}
        self.storage: dict[tuple[Resource, Key], View] = {}
        self.unreadable: dict[Key, str] = {}
        self._changes: dict[object, ClusterEvent] = {}
        index = self.cluster.volumes
        self._volume_parts: dict[Resource, tuple[Callable[[Any], bool], Callable[..., bool]]] = {
            CLAIMS: (index.set_claim, index.remove_claim),
            VOLUMES: (index.set_volume, index.remove_volume),
            STORAGE_CLASSES: (index.set_class, index.remove_class),
            CSI_DRIVERS: (index.set_driver, index.remove_driver),
            CSI_NODES: (index.csi.set_node, index.csi.remove_node),
        }

    def handle(self, event: Event) -> None:
        resource = event.resource
        if resource == NODES:
            self._node(event)
        elif resource == NAMESPACES:
            self._namespace(event)
        elif resource in OWNERS:
            self._owner(event)
        elif resource == CSI_CAPACITIES:
            self._capacity(event)
        elif resource == VOLUME_ATTACHMENTS:
            self._attachment(event)
        elif resource == RESOURCE_CLAIMS:
            self._resource_claim(event)
        else:
            self._volume(event)

    # --- asking -------------------------------------------------------------------------------------

    def pod(self, name: str) -> Pod | None:
        """A pod that was seen on a node, by its name as the engine has it."""
        return self.bound.get(pod_key(name))

    def class_of(self, pod: Pod) -> PodClass | None:
        """The class of a pod; None while it has no readable rules."""
        try:
            return self.cluster.class_of(pod)
        except AnnotationError:
            return None

    # --- what changed -------------------------------------------------------------------------------

    @property
    def changed(self) -> bool:
        return bool(self._changes)

    def changes(self) -> list[ClusterEvent]:
        """What changed since the last call. Arrivals of equal pods are mentioned once."""
        found = list(self._changes.values())
        self._changes.clear()
        return found

    def _note(self, change: ClusterEvent) -> None:
        # It hardly ever matters on which node a pod arrived, so arrivals of equal pods are told once.
        same = change.pod_class if isinstance(change, PodAdded) else change
        self._changes[type(change), same] = change

    # --- pods ---------------------------------------------------------------------------------------

    def put(self, key: Key, pod: Pod) -> None:
        """A pod was seen on a node."""
        old = self.bound.get(key)
        self.bound[key] = pod
        if old is not None and _same(old, pod):
            return
        name = pod_name(pod)
        before = self.cluster.find_pod(name)
        self.unreadable.pop(key, None)
        try:
            pod_class = self.cluster.class_of(pod)
        except AnnotationError as error:
            # Even with an unreadable annotation it runs there, and counts for the rules of others.
            self.unreadable[key] = str(error)
            pod_class = self.cluster.class_of(without_annotation(pod))
        node = pod.spec.node_name or ""
        if before == (pod_class, node, is_terminating(pod)):
            # It was assumed to be here: only labels from its binding are new, and no pod waits for those.
            self.cluster.identify(name, self.cluster.identity_of(pod))
            return
        self._remove(name, stays=before is not None and before[1] == node)
        self.assume(pod, pod_class, node)

    def assume(self, pod: Pod, pod_class: PodClass, node: str) -> None:
        """Count a pod on a node, seen there or about to be."""
        cluster = self.cluster
        identity = cluster.identity_of(pod)
        cluster.assume(pod_name(pod), pod_class, node, terminating=is_terminating(pod), identity=identity)
        slot = cluster.nodes.slot_of.get(node, NOWHERE)
        if slot != NOWHERE:
            self._note(PodAdded(pod_class, slot))

    def suppose(self, pod: Pod, pod_class: PodClass, node: str, volumes: VolumeDecisions | None) -> None:
        """Count a pod on a node for a trial: no change is noted, and `assume` or `withdraw` must follow."""
        name = pod_name(pod)
        self.cluster.assume(name, pod_class, node, identity=self.cluster.identity_of(pod))
        if volumes is not None:
            self.promise_volumes(name, volumes, node)

    def withdraw(self, pod: Pod) -> None:
        """Undo `suppose`."""
        self.cluster.remove_pod(pod_name(pod))
        self.release_volumes(pod_name(pod))

    def forget(self, key: Key, pod: Pod) -> None:
        """A pod is no longer, or was never, on a node."""
        self.bound.pop(key, None)
        self.unreadable.pop(key, None)
        self._remove(pod_name(pod))

    def _remove(self, name: str, *, stays: bool = False) -> None:
        before = self.cluster.find_pod(name)
        if before is not None:
            pod_class, node, terminating = before
            self.cluster.remove_pod(name)
            slot = self.cluster.nodes.slot_of.get(node, NOWHERE)
            if slot != NOWHERE:
                self._note(PodDeleted(pod_class, slot, terminating, stays))

    # --- everything else ----------------------------------------------------------------------------

    def _node(self, event: Event) -> None:
        cluster, name = self.cluster, event.key[1]
        if event.change == DELETED:
            if name in cluster.nodes.slot_of:
                slot = cluster.nodes.slot_of[name]
                cluster.remove_node(name)
                self._note(NodeDeleted(slot, event.old or event.object))
        elif event.old is None or name not in cluster.nodes.slot_of:
            self._note(NodeAdded(cluster.add_node(event.object)))
        else:
            slot = cluster.nodes.slot_of[name]
            change = node_change(slot, event.old, event.object)
            if change is not None:
                cluster.add_node(event.object)
                self._note(change)

    def _namespace(self, event: Event) -> None:
        if event.change == DELETED:
            self.cluster.remove_namespace(event.key[1])
        elif event.old is not None and event.old.metadata.labels == event.object.metadata.labels:
            return
        else:
            self.cluster.set_namespace(event.object)
        self._note(NamespaceUpdated())

    def _owner(self, event: Event) -> None:
        kind, (namespace, name) = event.resource.kind, event.key
        if event.change == DELETED:
            self.cluster.remove_owner(kind, namespace, name)
        elif event.old is not None and event.old.spec == event.object.spec:
            return
        else:
            self.cluster.set_owner(event.object, kind)
        self._note(OwnersChanged())

    def _volume(self, event: Event) -> None:
        resource, key = event.resource, event.key
        put, remove = self._volume_parts[resource]
        if event.change == DELETED:
            self.storage.pop((resource, key), None)
            changed = remove(*key) if resource.namespaced else remove(key[1])
        else:
            self.storage[resource, key] = event.object
            changed = put(event.object)
        if changed:
            self.volumes_changed()

    def _capacity(self, event: Event) -> None:
        index, gone = self.cluster.volumes, event.change == DELETED
        for storage_class in index.remove_capacity(*event.key) if gone else index.set_capacity(event.object):
            self._note(StorageCapacityChanged(storage_class))

    def _attachment(self, event: Event) -> None:
        attachments = self.cluster.volumes.attachments
        if event.change != DELETED:
            attachments.set(event.object)  # not noted: a new attachment helps no pod, and none ever changes
            return
        node = attachments.remove(event.key[1])
        slot = self.cluster.nodes.slot_of.get(node or "")
        if slot is not None:
            self._note(VolumeDetached(slot))

    def _resource_claim(self, event: Event) -> None:
        index, key = self.cluster.resource_claims, event.key
        if index.remove_claim(*key) if event.change == DELETED else index.set_claim(event.object):
            self._note(ResourceClaimChanged(*key))

    def promise_volumes(self, pod: str, decisions: VolumeDecisions, node: str) -> None:
        self.cluster.volumes.assume(pod, decisions, node)

    def release_volumes(self, pod: str) -> None:
        self.cluster.volumes.forget(pod)

    def volumes_changed(self) -> None:
        """Note that a volume may be available now, if only because no other pod waits for it any more."""
        self._note(VolumesChanged())


def pod_key(name: str) -> Key:
    """The key of a pod that the engine knows by this name."""
    namespace, _, own = name.partition("/")
    return (namespace, own)


def _same(old: Pod, new: Pod) -> bool:
    """Whether two states of a pod on a node are the same to everyone else."""
    return (
        old.spec == new.spec
        and old.metadata.labels == new.metadata.labels
        and old.metadata.annotations == new.metadata.annotations
        and is_terminating(old) == is_terminating(new)
        and resizing(old.status) == resizing(new.status)
    )
