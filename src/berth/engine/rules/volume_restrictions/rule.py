"""Volumes that pods cannot share: claims with the access mode ReadWriteOncePod, and disks without a claim.

Such a claim serves one pod at a time, wherever it runs.  A disk is kept from a second pod of the same node,
unless both only read it and its kind allows that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from berth.engine.rules.base import TopologyRule
from berth.engine.rules.vectors import blocked_where
from berth.engine.rules.verdicts import (
    MOST_PEERS,
    PROCEED,
    SKIPPED,
    UNRESOLVABLE,
    Cause,
    Reason,
    SharedVerdict,
    StepStatus,
)
from berth.engine.rules.volume_binding import CLAIM_NOT_FOUND, binds_volumes
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import ClusterEvent, NodeAdded, NodeDeleted, PodDeleted, VolumesChanged
from berth.engine.state.columns import BLOCKED, IndexArray, Int32Array
from berth.engine.state.hypothetical_removal import HypotheticalRemoval
from berth.engine.state.pod_class import DiskUse, PodClass
from berth.engine.state.volumes.needs import not_found

IN_USE = Reason(
    "ClaimInUse",
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod",
    "claim {claim} is in use by {peers}",
    waits_for="claim {claim} to be free: {peers} to leave",
    events=(PodDeleted,),
    resolvable=True,
)
NO_DISK = Reason(
    "DiskInUse",
    "node(s) had no available disk",
    "{disk} is in use by {peers}",
    waits_for="{disk} to be free: {peers} to leave a node",
    events=(PodDeleted, NodeAdded),
    resolvable=True,
)


class VolumeRestrictions(TopologyRule):
    name = "VolumeRestrictions"
    path = "spec.volumes"
    reasons = (NO_DISK, IN_USE, CLAIM_NOT_FOUND)
    recorded = False
    helpers = (PodDeleted, NodeDeleted, VolumesChanged)

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        super().__init__(cluster, pod_class)
        self._disks = pod_class.disks
        self._claims = cluster.volumes.exclusive(pod_class)
        self.prefilter = PROCEED if self._claims or self._disks else SKIPPED
        self._refusal: Cause | None = None
        missing = cluster.volumes.missing(pod_class) if cluster.volumes.known else None
        if missing is not None:
            refusal = not_found(missing)
            self.prefilter = StepStatus(UNRESOLVABLE, (refusal,))
            if not binds_volumes(pod_class):  # else another rule says it
                self._refusal = Cause(CLAIM_NOT_FOUND, {"claim": missing}, self.path, said=refusal)
        self.filters = bool(self._claims or self._disks) or self._refusal is not None

    @classmethod
    def concerns(cls, cluster: Cluster, pod_class: PodClass) -> bool:
        return bool(pod_class.disks) or cluster.volumes.concerns(pod_class)

    # --- claims ---------------------------------------------------------------------------

    def _in_use(self) -> Iterator[tuple[str, frozenset[PodClass], IndexArray]]:
        """The claims that are in use, with the pods that use them and the classes of these."""
        for claim in self._claims:
            users = self.cluster.volumes.users_of(self.pod_class.namespace, claim)
            if users and len(pods := self.cluster.pods_of(users)):
                yield claim, users, pods

    def _blocks(self) -> bool:
        return self._refusal is not None or next(self._in_use(), None) is not None

    # --- disks ----------------------------------------------------------------------------

    def _rivals(self) -> tuple[frozenset[PodClass], IndexArray]:
        """The classes of pods with a disk that this one cannot share, and how many of them each node has."""
        classes = self.cluster.volumes.rivals_of(self.pod_class)
        slots = self.cluster.pods.node[self.cluster.pods_of(classes)]
        return classes, np.bincount(slots, minlength=self.nodes.count)

    def _clashes(self, other: PodClass) -> DiskUse | None:
        """The first disk that pods of another class keep from this one."""
        return next((disk for disk in self._disks if not set(disk.rivals).isdisjoint(other.disks)), None)

    def _disks_taken(self, slot: int) -> list[Cause]:
        found: dict[DiskUse, list[str]] = {}
        for name, other in self.cluster.pods_on(self.nodes.names[slot] or "") if self._disks else ():
            if (disk := self._clashes(other)) is not None:
                found.setdefault(disk, []).append(name)
        return [
            Cause(NO_DISK, {"disk": str(disk)}, self.path, peers=tuple(sorted(peers)[:MOST_PEERS]))
            for disk, peers in found.items()
        ]

    # --- nodes ----------------------------------------------------------------------------

    def blocked(self) -> Sequence[Int32Array]:
        if self._blocks():
            return [np.full(self.nodes.count, BLOCKED, dtype=np.int32)]
        return [blocked_where(self._rivals()[1] > 0)] if self._disks else ()

    def causes(self, slot: int) -> Iterable[Cause]:
        if self._refusal is not None:
            return (self._refusal,)
        return self._disks_taken(slot) or self._claims_taken()

    def _claims_taken(self) -> Iterator[Cause]:
        keys = self.cluster.pods.keys
        for claim, _, pods in self._in_use():
            peers = tuple(keys[pod] or "" for pod in pods[:MOST_PEERS].tolist())
            yield Cause(IN_USE, {"claim": claim}, self.path, peers=peers)

    def verdicts(self, slots: IndexArray, gone: HypotheticalRemoval) -> Iterable[SharedVerdict]:
        if self._refusal is not None:
            yield SharedVerdict(slots, UNRESOLVABLE, (self._refusal.sentence,))
            return
        if self._disks:
            rivals, there = self._rivals()
            taken = there[slots] > gone.among(rivals)[slots]
            yield SharedVerdict.of(slots[taken], NO_DISK)
            slots = slots[~taken]
        used = np.zeros(len(slots), dtype=np.bool_)
        for _, users, pods in self._in_use():
            used |= gone.among(users)[slots] < len(pods)
        yield SharedVerdict.of(slots[used], IN_USE)

    def helped_by(self, change: ClusterEvent) -> bool:
        if isinstance(change, PodDeleted | NodeDeleted):
            return not self._blocks() and (bool(self._claims) or self._frees(change))
        return isinstance(change, VolumesChanged)

    def _frees(self, change: PodDeleted | NodeDeleted) -> bool:
        """Whether the pod had a disk that this one waits for, and no other of its node has one."""
        if not isinstance(change, PodDeleted) or self._clashes(change.pod_class) is None:
            return False
        return bool(self.nodes.alive[change.slot]) and not self._disks_taken(change.slot)
