"""A node takes only so many volumes of a CSI driver, and none of a driver it lacks, if that one says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from berth.engine.rules.base import TopologyRule, shared
from berth.engine.rules.vectors import blocked_where
from berth.engine.rules.verdicts import PROCEED, Cause, Reason, RuleVerdict, SharedVerdict
from berth.engine.rules.volume_binding import CLAIM_NOT_FOUND, binds_volumes
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import (
    ClusterEvent,
    PodAdded,
    PodDeleted,
    VolumeDetached,
    VolumesChanged,
)
from berth.engine.state.columns import BoolArray, IndexArray, Int32Array
from berth.engine.state.hypothetical_removal import HypotheticalRemoval
from berth.engine.state.pod_class import PodClass
from berth.engine.state.volumes.csi import CsiVolume
from berth.engine.state.volumes.needs import not_found
from berth.engine.state.volumes.objects import ClaimKey

TOO_MANY = Reason(
    "VolumeLimitExceeded",
    "node(s) exceed max volume count",
    "{attached} volumes of {driver} are attached, {new} more would exceed {limit}",
    varies=("attached", "new", "limit"),
    waits_for="a volume of {driver} to be detached from a node: pods to leave it",
    events=(PodDeleted, VolumeDetached),
    resolvable=True,
)
NO_DRIVER = Reason(
    "DriverNotInstalled",
    "",
    "its CSINode does not list {driver}, which wants no pods where it is missing",
    waits_for="the driver {driver} on a node",
    events=(VolumesChanged,),
    resolvable=True,
)


class NodeVolumeLimits(TopologyRule):
    name = "NodeVolumeLimits"
    path = "spec.volumes"
    reasons = (TOO_MANY, NO_DRIVER, CLAIM_NOT_FOUND)
    recorded = False
    skips = True
    helpers = (PodDeleted, PodAdded, VolumesChanged, VolumeDetached)
    prefilter = PROCEED

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        super().__init__(cluster, pod_class)
        self._csi = cluster.volumes.csi
        self._refusal: Cause | None = None
        missing = cluster.volumes.missing(pod_class)
        if missing is not None and not binds_volumes(pod_class):  # else another rule says it
            said = f"looking up PVC {pod_class.namespace}/{missing}: {not_found(missing)}"
            self._refusal = Cause(CLAIM_NOT_FOUND, {"claim": missing}, self.path, said=said)

    @classmethod
    def concerns(cls, cluster: Cluster, pod_class: PodClass) -> bool:
        return cluster.volumes.known and bool(pod_class.volume_keys)

    def _wanted(self) -> dict[str, set[CsiVolume]]:
        """The pod's own volumes by driver, as they are now."""
        wanted: dict[str, set[CsiVolume]] = {}
        for _, volume in self.cluster.volumes.csi_volumes(self.pod_class):
            if volume is not None:
                wanted.setdefault(volume.driver, set()).add(volume)
        return wanted

    def _is_needed(self, driver: str) -> bool:
        """Whether nodes without the driver are refused."""
        return self.pod_class.options.version.missing_drivers_refuse and self._csi.is_needed(driver)

    # --- many nodes -----------------------------------------------------------------------

    def blocked(self) -> Sequence[Int32Array]:
        return [blocked_where(self._refused(self.nodes.count))]

    def _refused(self, count: int) -> BoolArray:
        refused = np.full(count, self._refusal is not None, dtype=np.bool_)
        for driver, volumes in self._wanted().items():
            installed, limit = self._csi.limits(driver)
            if self._is_needed(driver):
                refused |= ~installed[:count]
            new = np.full(count, len(volumes), dtype=np.int64)
            for volume in volumes:
                new[self._csi.places(volume)] -= 1
            there = self._csi.attached(driver)[:count] + self._csi.unmounted(driver)[:count]
            refused |= (new > 0) & (there + new > limit[:count])
        return refused

    def verdicts(self, slots: IndexArray, gone: HypotheticalRemoval) -> Iterable[SharedVerdict]:
        going = gone.claims()
        refused = self._refused(self.nodes.count)
        asked = (slot for slot in slots.tolist() if refused[slot] or slot in going)
        return shared(
            (slot, RuleVerdict.of(self.name, self._causes(slot, going.get(slot)))) for slot in asked
        )

    # --- one node -------------------------------------------------------------------------

    def causes(self, slot: int) -> Iterator[Cause]:
        # What a running pod mounts is attached: it must not count against itself.
        return self._causes(slot, attachments=False)

    def first_causes(self, slot: int) -> Iterator[Cause]:
        return self._causes(slot)

    def _causes(
        self, slot: int, gone: Mapping[ClaimKey, int] | None = None, *, attachments: bool = True
    ) -> Iterator[Cause]:
        if self._refusal is not None:
            yield self._refusal
            return
        wanted = self._wanted()
        for driver in wanted:
            if self._is_needed(driver) and not self._csi.limits(driver)[0][slot]:
                said = f"{driver} CSI driver is not installed on the node"
                yield Cause(NO_DRIVER, {"driver": driver}, self.path, said=said)
                return
        mounted = self._csi.attached_at(slot, gone)
        # As upstream: what is attached and not mounted takes a place, even if it is the pod's own.
        attached = mounted.union(self._csi.attachments_at(slot)) if attachments else mounted
        for driver, volumes in wanted.items():
            new, limit = len(volumes - mounted), int(self._csi.limits(driver)[1][slot])
            there = sum(volume.driver == driver for volume in attached)
            if new and there + new > limit:
                values = {"driver": driver, "attached": f"{there}", "new": f"{new}", "limit": f"{limit}"}
                yield Cause(TOO_MANY, values, self.path)

    def bars(self, slot: int) -> bool:
        return any(True for _ in self._causes(slot))

    def helped_by(self, change: ClusterEvent) -> bool:
        if isinstance(change, PodDeleted):
            return bool(change.pod_class.volume_keys) and change.slot >= 0 and not self.bars(change.slot)
        if isinstance(change, VolumeDetached):
            return not self.bars(change.slot)
        if isinstance(change, PodAdded):
            # A volume that is attached already needs no room.
            return not set(self.pod_class.volume_keys).isdisjoint(change.pod_class.volume_keys)
        return isinstance(change, VolumesChanged)
