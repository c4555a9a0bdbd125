"""Claims with the access mode ReadWriteOncePod: one pod at a time, wherever it runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from berth.engine.rules.base import TopologyRule
from berth.engine.rules.reasons import MOST_PEERS, Cause, Reason
from berth.engine.rules.verdicts import (
    PROCEED,
    SKIPPED,
    UNRESOLVABLE,
    RuleVerdict,
    SharedVerdict,
    StepStatus,
)
from berth.engine.rules.volume_binding import CLAIM_NOT_FOUND, binds_volumes
from berth.engine.state.arrays import BLOCKED, IndexArray, Int32Array
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import ClusterEvent, NodeDeleted, PodDeleted, VolumesChanged
from berth.engine.state.hypothetical_removal import HypotheticalRemoval
from berth.engine.state.pod_class import PodClass
from berth.engine.state.volumes.needs import not_found
from berth.kube.well_known import UNSCHEDULABLE

IN_USE = Reason(
    "ClaimInUse",
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod",
    "claim {claim} is in use by {peers}",
    waits_for="claim {claim} to be free: {peers} to leave",
    events=(PodDeleted,),
)


class VolumeRestrictions(TopologyRule):
    name = "VolumeRestrictions"
    path = "spec.volumes"
    reasons = (IN_USE, CLAIM_NOT_FOUND)
    recorded = False
    helpers = (PodDeleted, NodeDeleted, VolumesChanged)

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        super().__init__(cluster, pod_class)
        self._claims = cluster.volumes.exclusive(pod_class)
        self.prefilter = PROCEED if self._claims else SKIPPED
        missing = cluster.volumes.missing(pod_class)
        if missing is not None:
            self.prefilter = StepStatus(UNRESOLVABLE, (not_found(missing),))
        # Nodes are refused once for a claim that is not there.
        self._missing = None if binds_volumes(pod_class) else missing
        self._refusal = None if self._missing is None else not_found(self._missing)
        self.filters = bool(self._claims) or self._refusal is not None

    @classmethod
    def concerns(cls, cluster: Cluster, pod_class: PodClass) -> bool:
        return cluster.volumes.concerns(pod_class)

    def _in_use(self) -> Iterator[tuple[str, frozenset[PodClass], IndexArray]]:
        """The claims that are in use, with the pods that use them and the classes of these."""
        for claim in self._claims:
            users = self.cluster.volumes.users_of(self.pod_class.namespace, claim)
            if users and len(pods := self.cluster.pods_of(users)):
                yield claim, users, pods

    def _blocks(self) -> bool:
        return self._refusal is not None or next(self._in_use(), None) is not None

    def blocked(self) -> Sequence[Int32Array]:
        return [np.full(self.nodes.count, BLOCKED, dtype=np.int32)] if self._blocks() else ()

    def weighted(self, blocked: Int32Array, weight: int) -> None:
        del blocked, weight

    def verdict(self, slot: int) -> RuleVerdict | None:
        del slot
        if self._refusal is not None:
            cause = Cause(CLAIM_NOT_FOUND, {"claim": self._missing or ""}, self.path, said=self._refusal)
            return RuleVerdict.of(self.name, UNRESOLVABLE, (cause,))
        keys = self.cluster.pods.keys
        causes = [
            Cause(
                IN_USE,
                {"claim": claim},
                self.path,
                peers=tuple(keys[pod] or "" for pod in pods[:MOST_PEERS].tolist()),
            )
            for claim, _, pods in self._in_use()
        ]
        return RuleVerdict.of(self.name, UNSCHEDULABLE, causes) if causes else None

    def verdicts(self, slots: IndexArray, gone: HypotheticalRemoval) -> Iterable[SharedVerdict]:
        if self._refusal is not None:
            yield SharedVerdict(slots, UNRESOLVABLE, (self._refusal,))
            return
        used = np.zeros(len(slots), dtype=np.bool_)
        for _, users, pods in self._in_use():
            used |= gone.among(users)[slots] < len(pods)
        yield SharedVerdict(slots[used], UNSCHEDULABLE, (IN_USE.sentence,))

    def helped_by(self, change: ClusterEvent) -> bool:
        if isinstance(change, PodDeleted | NodeDeleted):
            return not self._blocks()
        return isinstance(change, VolumesChanged)
