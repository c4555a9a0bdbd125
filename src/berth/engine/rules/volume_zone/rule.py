"""The zone labels of bound volumes: a node in another zone or region cannot reach them.

Nodes without any zone label can: such a cluster has just one zone.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from berth.engine.rules.base import NodeRule
from berth.engine.rules.verdicts import (
    PROCEED,
    SKIPPED,
    UNRESOLVABLE,
    RuleVerdict,
    SharedVerdict,
    StepStatus,
)
from berth.engine.rules.volume_binding import binds_volumes
from berth.engine.state.arrays import BoolArray, IndexArray, Slots
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import ClusterEvent, NodeUpdated, VolumesChanged
from berth.engine.state.hypothetical_removal import HypotheticalRemoval
from berth.engine.state.pod_class import PodClass
from berth.engine.state.volumes.objects import ZONE_KEYS
from berth.kube.selectors import EXISTS, IN, Requirement

REASON = "node(s) had no available volume zone"


class VolumeZone(NodeRule):
    name = "VolumeZone"
    path = "spec.volumes"
    recorded = False

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        super().__init__(cluster, pod_class)
        volumes = list(cluster.volumes.volumes_of(pod_class))
        self._zones = [
            (volume.name, key, values) for _, volume in volumes if volume for key, values in volume.zones
        ]
        self.prefilter = PROCEED if self._zones else SKIPPED
        lost = [
            f'persistentvolume "{claim.volume_name}" not found' for claim, volume in volumes if not volume
        ]
        if lost:
            self.prefilter = StepStatus(UNRESOLVABLE, (lost[0],))
        # Nodes are refused once for a volume that is not there.
        self._refusal = None if not lost or binds_volumes(pod_class) else lost[0]
        self.filters = bool(self._zones) or self._refusal is not None

    @classmethod
    def concerns(cls, cluster: Cluster, pod_class: PodClass) -> bool:
        return cluster.volumes.concerns(pod_class)

    def feasible(self, slots: Slots) -> BoolArray:
        matches = self.nodes.alive[slots] & (self._refusal is None)
        zoned = np.zeros_like(matches)
        for key in ZONE_KEYS:
            zoned |= self._matching(Requirement(key, EXISTS), slots)
        for _, key, values in self._zones:
            within = self._matching(Requirement(key, IN, values), slots)
            if ZONE_KEYS[key] != key:
                other = self._matching(Requirement(ZONE_KEYS[key], IN, values), slots)
                within |= other & ~self._matching(Requirement(key, EXISTS), slots)
            matches &= within | ~zoned
        return matches

    def _matching(self, requirement: Requirement, slots: Slots) -> BoolArray:
        column = self.nodes.column(requirement.key)
        matching: BoolArray = column.table(requirement)[column.ids[slots]]
        return matching

    def verdict(self, slot: int) -> RuleVerdict | None:
        if self._refusal is not None:
            return RuleVerdict(self.name, UNRESOLVABLE, (self._refusal,))
        labels = self.nodes.labels[slot] or {}
        if ZONE_KEYS.keys().isdisjoint(labels):
            return None
        for volume, key, values in self._zones:
            found = labels.get(key, labels.get(ZONE_KEYS[key]))
            if found is None or found not in values:
                has = f"no label {key}" if found is None else found
                cause = f"volume {volume} wants {Requirement(key, IN, values)}, the node has {has}"
                return RuleVerdict(self.name, UNRESOLVABLE, (REASON,), (cause,))
        return None

    def verdicts(self, slots: IndexArray, gone: HypotheticalRemoval) -> Iterable[SharedVerdict]:
        del gone
        return [SharedVerdict(slots[~self.feasible(slots)], UNRESOLVABLE, (self._refusal or REASON,))]

    def helped_by(self, change: ClusterEvent) -> bool:
        return isinstance(change, VolumesChanged) or (isinstance(change, NodeUpdated) and change.labels)
