"""The zone labels of bound volumes: a node in another zone or region cannot reach them.

Nodes without any zone label can: such a cluster has just one zone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from berth.engine.rules.base import NodeRule
from berth.engine.rules.verdicts import (
    PROCEED,
    SKIPPED,
    UNRESOLVABLE,
    Cause,
    Reason,
    SharedVerdict,
    StepStatus,
)
from berth.engine.rules.volume_binding import VOLUME_NOT_FOUND, binds_volumes
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import ClusterEvent, NodeAdded, NodeUpdated, VolumesChanged
from berth.engine.state.columns import BoolArray, IndexArray, Slots
from berth.engine.state.hypothetical_removal import HypotheticalRemoval
from berth.engine.state.pod_class import PodClass
from berth.engine.state.volumes.objects import ZONE_KEYS
from berth.kube.selectors import DOES_NOT_EXIST, EXISTS, IN, Requirement

OTHER_ZONE = Reason(
    "VolumeZoneMismatch",
    "node(s) had no available volume zone",
    "volume {volume} wants {wanted}, the node has {found}",
    varies=("found",),
    waits_for="a node with {wanted}, where volume {volume} is",
    events=(NodeAdded, NodeUpdated),
)


class VolumeZone(NodeRule):
    name = "VolumeZone"
    path = "spec.volumes"
    reasons = (OTHER_ZONE, VOLUME_NOT_FOUND)
    recorded = False

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        super().__init__(cluster, pod_class)
        volumes = list(cluster.volumes.volumes_of(pod_class))
        self._zones = [
            (volume.name, key, values) for _, volume in volumes if volume for key, values in volume.zones
        ]
        self.prefilter = PROCEED if self._zones else SKIPPED
        self._refusal: Cause | None = None
        lost = next((claim for claim, volume in volumes if not volume), None)
        if lost is not None:
            refusal = f'persistentvolume "{lost.volume_name}" not found'
            self.prefilter = StepStatus(UNRESOLVABLE, (refusal,))
            if not binds_volumes(pod_class):  # else another rule says it
                told = {"claim": lost.name, "volume": lost.volume_name}
                self._refusal = Cause(VOLUME_NOT_FOUND, told, self.path, said=refusal)
        self.filters = bool(self._zones) or self._refusal is not None

    @classmethod
    def concerns(cls, cluster: Cluster, pod_class: PodClass) -> bool:
        return cluster.volumes.concerns(pod_class)

    def feasible(self, slots: Slots) -> BoolArray:
        matches = self.nodes.alive[slots] & (self._refusal is None)
        zoned = np.zeros_like(matches)
        for key in ZONE_KEYS:
            zoned |= self.nodes.matching((Requirement(key, EXISTS),), slots)
        for _, key, values in self._zones:
            within = self.nodes.matching((Requirement(key, IN, values),), slots)
            if ZONE_KEYS[key] != key:
                other = Requirement(ZONE_KEYS[key], IN, values), Requirement(key, DOES_NOT_EXIST)
                within |= self.nodes.matching(other, slots)
            matches &= within | ~zoned
        return matches

    def causes(self, slot: int) -> Iterator[Cause]:
        if self._refusal is not None:
            yield self._refusal
            return
        labels = self.nodes.labels[slot] or {}
        if ZONE_KEYS.keys().isdisjoint(labels):
            return
        for volume, key, values in self._zones:
            found = labels.get(key, labels.get(ZONE_KEYS[key]))
            if found is None or found not in values:
                has = f"no label {key}" if found is None else found
                wanted = str(Requirement(key, IN, values))
                yield Cause(OTHER_ZONE, {"volume": volume, "wanted": wanted, "found": has}, self.path)
                return  # upstream asks no further

    def verdicts(self, slots: IndexArray, gone: HypotheticalRemoval) -> Iterable[SharedVerdict]:
        said = OTHER_ZONE.sentence if self._refusal is None else self._refusal.sentence
        return [SharedVerdict(slots[~self.feasible(slots)], UNRESOLVABLE, (said,))]

    def helped_by(self, change: ClusterEvent) -> bool:
        return isinstance(change, VolumesChanged) or (isinstance(change, NodeUpdated) and change.labels)
