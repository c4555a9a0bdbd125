"""What is said of claims that a node cannot serve; other rules about volumes meet some of it, too."""

from __future__ import annotations

from berth.engine.rules.reasons import Reason
from berth.engine.state.cluster_events import NodeAdded, NodeUpdated, StorageCapacityChanged, VolumesChanged

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
    waits_for="the claim {claim} to be ready",
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
