"""Claims, volumes, storage classes, what drivers say of themselves and of nodes; and claims to devices."""

from __future__ import annotations

import msgspec

from berth.kube.objects.affinity import LabelSelector, NodeSelector
from berth.kube.objects.base import Int32, RawQuantity, ResourceList, Struct
from berth.kube.objects.metadata import ObjectMeta, ObjectReference, TypedObject, UntimedCondition


class ClaimResources(Struct, frozen=True):
    requests: ResourceList | None = None


class PersistentVolumeClaimSpec(Struct, frozen=True):
    volume_name: str | None = None
    storage_class_name: str | None = None
    access_modes: list[str] | None = None
    volume_mode: str | None = None
    resources: ClaimResources | None = None
    selector: LabelSelector | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimStatus(Struct, frozen=True):
    phase: str | None = None


class PersistentVolumeClaim(TypedObject, frozen=True):
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus | None = None


class PersistentVolumeClaimTemplate(Struct, frozen=True):
    metadata: ObjectMeta | None = None
    spec: PersistentVolumeClaimSpec | None = None


class VolumeNodeAffinity(Struct, frozen=True):
    required: NodeSelector | None = None


class CSIPersistentVolumeSource(Struct, frozen=True):
    driver: str | None = None
    volume_handle: str | None = None


class GCEPersistentDiskVolumeSource(Struct, frozen=True):
    pd_name: str | None = None
    read_only: bool | None = None


class CloudVolumeSource(Struct, frozen=True):
    """Of awsElasticBlockStore, cinder and portworxVolume."""

    volume_id: str | None = msgspec.field(default=None, name="volumeID")


class AzureDiskVolumeSource(Struct, frozen=True):
    disk_uri: str | None = msgspec.field(default=None, name="diskURI")
    kind: str | None = None


class PersistentVolumeSpec(Struct, frozen=True):
    capacity: ResourceList | None = None
    access_modes: list[str] | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    claim_ref: ObjectReference | None = None
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str | None = None
    csi: CSIPersistentVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: CloudVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    cinder: CloudVolumeSource | None = None
    portworx_volume: CloudVolumeSource | None = None


class PersistentVolumeStatus(Struct, frozen=True):
    phase: str | None = None


class PersistentVolume(TypedObject, frozen=True):
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus | None = None


class TopologySelectorLabelRequirement(Struct, frozen=True):
    key: str | None = None
    values: list[str] | None = None


class TopologySelectorTerm(Struct, frozen=True):
    match_label_expressions: list[TopologySelectorLabelRequirement] | None = None


class StorageClass(TypedObject, frozen=True):
    provisioner: str | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologySelectorTerm] | None = None


class CSIDriverSpec(Struct, frozen=True):
    prevent_pod_scheduling_if_missing: bool | None = None
    storage_capacity: bool | None = None


class CSIDriver(TypedObject, frozen=True):
    spec: CSIDriverSpec = CSIDriverSpec()


class VolumeNodeResources(Struct, frozen=True):
    count: Int32 | None = None


class CSINodeDriver(Struct, frozen=True):
    name: str | None = None
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Struct, frozen=True):
    drivers: list[CSINodeDriver] | None = None


class CSINode(TypedObject, frozen=True):
    """What drivers said of a node; it has the node's name."""

    spec: CSINodeSpec = CSINodeSpec()


class VolumeAttachmentSource(Struct, frozen=True):
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Struct, frozen=True):
    attacher: str | None = None
    node_name: str | None = None
    source: VolumeAttachmentSource | None = None


class VolumeAttachment(TypedObject, frozen=True):
    """A volume that is, or is to be, attached to a node."""

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()


class CSIStorageCapacity(TypedObject, frozen=True):
    """How much storage of a class is left for the nodes of a topology."""

    node_topology: LabelSelector | None = None
    storage_class_name: str | None = None
    capacity: RawQuantity | None = None
    maximum_volume_size: RawQuantity | None = None


# --- claims to devices (resource.k8s.io) ----------------------------------------------------------


class DeviceRequestAllocationResult(Struct, frozen=True):
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    skip_node_operations: list[str] | None = None


class DeviceAllocationResult(Struct, frozen=True):
    results: list[DeviceRequestAllocationResult] | None = None


class AllocationResult(Struct, frozen=True):
    devices: DeviceAllocationResult | None = None
    node_selector: NodeSelector | None = None


class ResourceClaimConsumerReference(Struct, frozen=True):
    resource: str | None = None
    name: str | None = None
    uid: str | None = None


class AllocatedDeviceStatus(Struct, frozen=True):
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    conditions: list[UntimedCondition] | None = None


class ResourceClaimStatus(Struct, frozen=True):
    allocation: AllocationResult | None = None
    reserved_for: list[ResourceClaimConsumerReference] | None = None
    devices: list[AllocatedDeviceStatus] | None = None


class ResourceClaim(TypedObject, frozen=True):
    status: ResourceClaimStatus | None = None


CSIObject = CSIDriver | CSINode | CSIStorageCapacity | VolumeAttachment
StorageObject = PersistentVolumeClaim | PersistentVolume | StorageClass | CSIObject | ResourceClaim
