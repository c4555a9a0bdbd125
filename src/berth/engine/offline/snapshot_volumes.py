"""The claims, volumes, storage classes and drivers of a set of manifests.

What an API server has stored is taken as it is.  What was only written down has seen no controller yet,
so it is taken as it soon would be: a volume becomes available, a claim gets the default class, and the
claims of a pod's ephemeral volumes and of its StatefulSet are made.  A claim that is said to be Pending was
seen, and left so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from berth.engine.state.cluster import Cluster
from berth.engine.state.volumes.index import VolumeIndex
from berth.kube import objects
from berth.kube.defaults import default_storage_class
from berth.kube.manifests.manifest import Manifest
from berth.kube.objects import Pod, Workload
from berth.kube.ownership import controller_of
from berth.kube.workloads.pod_templates import assumed_owner, stateful_claims


class SnapshotVolumes:
    """Puts the storage objects of manifests into a cluster; if there are none, it knows of none.

    `whole` says that every storage class is among the manifests.
    """

    def __init__(self, cluster: Cluster, manifests: Sequence[Manifest], *, whole: bool = False) -> None:
        self._index = cluster.volumes
        self._whole = whole
        self._views = [manifest.object for manifest in manifests]
        classes = [view for view in self._views if isinstance(view, objects.StorageClass)]
        self._default = default_storage_class(each.metadata for each in classes)
        self._classes = {each.metadata.name for each in classes}
        self._classes |= {
            view.spec.storage_class_name for view in self._views if isinstance(view, objects.PersistentVolume)
        }
        self._stateful_sets = {
            (manifest.namespace or "default", manifest.name): manifest.object
            for manifest in manifests
            if manifest.kind == "StatefulSet" and isinstance(manifest.object, Workload)
        }
        self._missing: dict[str, bool] = {}

    def take_in(self) -> None:
        """Tell the cluster of all of them; what it knows already is no change."""
        for view in sorted(self._views, key=lambda view: not isinstance(view, objects.StorageClass)):
            if isinstance(view, objects.StorageClass):
                self._index.set_class(view)
            elif isinstance(view, objects.PersistentVolume):
                self._index.set_volume(_settled(view))
            elif isinstance(view, objects.PersistentVolumeClaim):
                self._set_claim(view)
            elif isinstance(view, objects.CSIDriver):
                self._index.set_driver(view)
            elif isinstance(view, objects.CSINode):
                self._index.csi.set_node(view)
            elif isinstance(view, objects.VolumeAttachment):
                self._index.attachments.set(view)
            elif isinstance(view, objects.CSIStorageCapacity):
                self._index.set_capacity(view)
                self._index.capacities_known = True
            if isinstance(
                view, objects.StorageClass | objects.PersistentVolume | objects.PersistentVolumeClaim
            ):
                self._index.known = True

    def make_claims(self, pod: Pod) -> list[objects.PersistentVolumeClaim]:
        """Make the claims of a pending pod that controllers make for it, and that are not there."""
        if not self._index.known or pod.metadata.uid:
            return []
        made = []
        for claim in (*_own_claims(pod), *self._stateful_claims(pod)):
            meta = claim.metadata
            if self._index.claim(meta.namespace or "default", meta.name or "") is None:
                self._set_claim(claim)
                made.append(claim)
        return made

    def stateful_set_of(self, pod: Pod) -> Workload | None:
        """The StatefulSet that made a pod; None if another one did, or it is not there."""
        owner = controller_of(pod.metadata)
        if owner is None or owner.kind != "StatefulSet":
            return None
        return self._stateful_sets.get((pod.metadata.namespace or "default", owner.name or ""))

    def _stateful_claims(self, pod: Pod) -> Iterable[objects.PersistentVolumeClaim]:
        view = self.stateful_set_of(pod)
        return () if view is None else stateful_claims(view, pod.metadata.name or "").values()

    def notes(self, place: str) -> Iterator[str]:
        """Of the storage classes that unbound claims name and that are neither there nor had by a volume."""
        for name, left in sorted(self._missing.items()):
            then = "its claims stay Pending" if left else "its claims are taken to find a volume on any node"
            yield f"there is no StorageClass {name} {place}: {then}"

    def unknown(self, place: str, pods: Iterable[Pod]) -> Iterator[str]:
        """A note of the claims of pods that are not there, and so not judged; not of those yet to be made."""
        if self._index.known:
            return
        found: dict[str, str] = {}
        for pod in pods:
            namespace = pod.metadata.namespace or "default"
            made = set() if pod.metadata.uid else {c.metadata.name for c in self._stateful_claims(pod)}
            for claim in _mounted(pod):
                if claim not in made:
                    found.setdefault(f"{namespace}/{claim}", f"{namespace}/{pod.metadata.name}")
        for claim, pod_key in list(found.items())[:1]:
            more = len(found) - 1
            they, volumes = (f"and {more} more are", "their volumes are") if more else ("is", "its volume is")
            yield f"claim {claim} of {pod_key} {they} not {place}: nothing is known of where {volumes}"

    def _set_claim(self, claim: objects.PersistentVolumeClaim) -> None:
        written = not claim.metadata.uid
        left = claim.status is not None and claim.status.phase == "Pending"
        if written and claim.spec.storage_class_name is None and self._default is not None:
            claim = replace(claim, spec=replace(claim.spec, storage_class_name=self._default))
        if self._whole and (claim.spec.storage_class_name or "") not in self._classes:
            left = True  # no controller will ever bind it
        self._index.set_claim(claim, unseen=written and not left)
        held = self._index.claim(claim.metadata.namespace or "default", claim.metadata.name or "")
        wanted = held.storage_class if written and held is not None and not held.volume_name else None
        if wanted and wanted not in self._classes:
            self._missing[wanted] = self._missing.get(wanted, True) and left


def _settled(volume: objects.PersistentVolume) -> objects.PersistentVolume:
    if volume.status is not None and volume.status.phase is not None:
        return volume
    return replace(volume, status=objects.PersistentVolumeStatus(phase="Available"))


def lacks_claims(volumes: VolumeIndex, pod: Pod) -> bool:
    """Whether a claim is not there that the controllers make for the pod."""
    if not volumes.known or pod.metadata.uid or not pod.spec.volumes:
        return False
    owner = controller_of(pod.metadata)
    names = _mounted(pod) if owner is not None and owner.kind == "StatefulSet" else []
    names += [claim.metadata.name or "" for claim in _own_claims(pod)]
    return any(volumes.claim(pod.metadata.namespace or "default", name) is None for name in names)


def _mounted(pod: Pod) -> list[str]:
    """The claims that the pod names."""
    volumes = [volume.persistent_volume_claim for volume in pod.spec.volumes or ()]
    return [each.claim_name or "" for each in volumes if each]


def _own_claims(pod: Pod) -> Iterator[objects.PersistentVolumeClaim]:
    owner = assumed_owner("v1", "Pod", pod.metadata)
    for volume in pod.spec.volumes or ():
        if volume.ephemeral is not None:
            template = volume.ephemeral.volume_claim_template or objects.PersistentVolumeClaimTemplate()
            metadata = replace(
                template.metadata or objects.ObjectMeta(),
                name=f"{pod.metadata.name}-{volume.name}",
                namespace=pod.metadata.namespace or "default",
                owner_references=[owner],
            )
            yield objects.PersistentVolumeClaim(
                metadata=metadata, spec=template.spec or objects.PersistentVolumeClaimSpec()
            )
