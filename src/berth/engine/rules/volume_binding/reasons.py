"""What is said of claims that a node cannot serve; other rules about volumes meet some of it, too."""

from __future__ import annotations

from berth.engine.rules.reasons import Reason
from berth.engine.state.cluster_events import NodeAdded, NodeUpdated, StorageCapacityChanged, VolumesChanged
from berth.engine.state.volumes.index import UNBOUND_IMMEDIATE, VolumeIndex
from berth.engine.state.volumes.objects import ClaimRecord

CLAIM_NOT_FOUND = Reason(
    "ClaimNotFound",
    "",
    "claim {claim} is not there",
    waits_for="the claim {claim}",
    events=(VolumesChanged,),
)
CLAIM_NOT_READY = Reason(
    "ClaimNotReady",
    "",
    "claim {claim} is {state}",
    waits_for="the claim {claim} to be bound",
    events=(VolumesChanged,),
)
# It never will be ready.
CLAIM_UNUSABLE = Reason(
    "ClaimUnusable",
    "",
    "claim {claim} is {state}",
    waits_for="the claim {claim} to be made anew",
    events=(VolumesChanged,),
)
VOLUME_NOT_FOUND = Reason(
    "VolumeNotFound",
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
    "claim {claim} is bound to volume {volume}, which is not there",
    waits_for="the volume {volume}",
    events=(VolumesChanged,),
)
OTHER_NODE = Reason(
    "VolumeNodeMismatch",
    "node(s) didn't match PersistentVolume's node affinity",
    "volume {volume} of claim {claim} wants {wanted}{found}",
    varies=("found",),
    waits_for="a node with {wanted}, where volume {volume} is",
    events=(NodeAdded, NodeUpdated),
)
UNSERVED = Reason(
    "NoVolumeToBind",
    "node(s) didn't find available persistent volumes to bind",
    "claim {claim} finds no volume here, and none can be made",
    waits_for="a volume for claim {claim} where a node can reach it",
    events=(VolumesChanged,),
)
NO_ROOM = Reason(
    "NoStorageCapacity",
    "node(s) did not have enough free storage",
    "claim {claim} wants a new volume of {wanted}, and not so much storage of class {class} "
    "is left for the node",
    waits_for="storage of class {class} to be free for claim {claim}: {wanted}",
    events=(StorageCapacityChanged,),
)


def unready(index: VolumeIndex, claim: ClaimRecord | None, refusal: str) -> tuple[Reason, str]:
    """Why no node will do because of a claim that is there, or is being made for the pod, and its state."""
    if claim is None:
        return CLAIM_NOT_READY, "not made yet"
    if claim.lost:
        return CLAIM_UNUSABLE, f"Lost: its volume {claim.volume_name} is not there"
    if claim.deleting:
        return CLAIM_UNUSABLE, "being deleted"
    if refusal != UNBOUND_IMMEDIATE:
        return CLAIM_UNUSABLE, "not made for this pod"
    return CLAIM_NOT_READY, f"Pending: {_lacking(index, claim)}"


def _lacking(index: VolumeIndex, claim: ClaimRecord) -> str:
    if claim.volume_name:
        return f"it is not bound to volume {claim.volume_name} yet"
    if not claim.storage_class:
        return "it has no class, and no volume is bound to it"
    if claim.storage_class not in index.classes:
        return f"its StorageClass {claim.storage_class} is not there"
    return f"StorageClass {claim.storage_class} has not given it a volume yet"
