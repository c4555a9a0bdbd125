"""ResourceClaims: a pod runs where the devices are that its claims were allocated.

Upstream's plugin allocates devices, too.  This one never does: a pod with a claim that is not allocated fits
nowhere, and says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from berth.engine.rules.base import NodeRule
from berth.engine.rules.changes import Question
from berth.engine.rules.verdicts import PROCEED, UNRESOLVABLE, Cause, Reason, StepStatus
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import ClusterEvent, NodeUpdated, ResourceClaimChanged
from berth.engine.state.columns import BoolArray, Slots
from berth.engine.state.pod_class import PodClass
from berth.engine.state.resource_claims import DeviceNeeds, keys_of

NOT_AVAILABLE = Reason(
    "DevicesNotAvailable",
    "resourceclaim not available on the node",
    "claim {claim} is allocated for {wanted}",
    waits_for="the devices of claim {claim} on a node",
    events=(ResourceClaimChanged, NodeUpdated),
)
CLAIM_UNUSABLE = Reason(
    "ResourceClaimNotUsable",
    "",
    waits_for="its resource claims to be usable",
    events=(ResourceClaimChanged,),
)
_NOT_MADE_READY = "the devices of claim {claim} are not made ready: {failure}"
_FEATURE_LACKING = "claim {claim} needs the feature {feature}, which is not declared"
# What a kubelet declares that can leave out some operations of devices.
_OPTIONAL_OPERATIONS = "DRAOptionalNodeOperations"


class DynamicResources(NodeRule):
    name = "DynamicResources"
    path = "spec.resourceClaims"
    reasons = (NOT_AVAILABLE, CLAIM_UNUSABLE)
    recorded = False
    audited = False
    skips = True

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        super().__init__(cluster, pod_class)
        self._needs: DeviceNeeds = cluster.resource_claims.needs_of(pod_class)
        refusal = self._needs.refusal
        self.prefilter = PROCEED if refusal is None else StepStatus(UNRESOLVABLE, (refusal,))

    @classmethod
    def concerns(cls, cluster: Cluster, pod_class: PodClass) -> bool:
        return cluster.resource_claims.concerns(pod_class)

    def clues(self, question: Question) -> Iterable[str]:
        for claim in self._needs.unallocated:
            yield f"claim {claim.name} has no devices yet: kube-scheduler allocates them, Berth does not"

    def feasible(self, slots: Slots) -> BoolArray:
        needs = self._needs
        if needs.refusal is not None or any(claim.failure is not None for claim in needs.claims):
            return np.zeros_like(self.nodes.alive[slots])
        fits = self.nodes.alive[slots].copy()
        for claim in needs.claims:
            if claim.nodes is not None:
                fits &= self.nodes.matching_terms(claim.nodes, slots)
        if any(claim.skips_operations for claim in needs.claims):
            features = self.nodes.features
            able = [_OPTIONAL_OPERATIONS in declared for declared in features.values]
            fits &= np.array(able, dtype=np.bool_)[features.ids[slots]]
        return fits

    def causes(self, slot: int) -> Iterator[Cause]:
        if self._needs.refusal is not None:
            yield Cause(CLAIM_UNUSABLE, path=self.path, said=self._needs.refusal)
            return
        labels, node = self.nodes.labels[slot] or {}, self.nodes.names[slot] or ""
        for claim in self._needs.claims:
            if claim.nodes is not None and not claim.nodes.matches(labels, node):
                yield Cause(NOT_AVAILABLE, {"claim": claim.name, "wanted": str(claim.nodes)}, self.path)
            elif claim.failure is not None:
                values = {"claim": claim.name, "failure": claim.failure}
                yield Cause(NOT_AVAILABLE, values, self.path, worded=_NOT_MADE_READY)
            elif claim.skips_operations and _OPTIONAL_OPERATIONS not in self.nodes.features.at(slot):
                values = {"claim": claim.name, "feature": _OPTIONAL_OPERATIONS}
                yield Cause(NOT_AVAILABLE, values, self.path, worded=_FEATURE_LACKING)

    def admits(self, slot: int) -> bool:
        return self.verdict(slot) is None

    def helped_by(self, change: ClusterEvent) -> bool:
        if isinstance(change, ResourceClaimChanged):
            return (change.namespace, change.name) in keys_of(self.pod_class)
        return isinstance(change, NodeUpdated) and (change.labels or change.features)


def reserves_claims(pod_class: PodClass) -> bool:
    """Whether the pod has claims to devices, and its profile leaves them to this rule."""
    return bool(pod_class.device_claims) and DynamicResources.name not in pod_class.options.idle
