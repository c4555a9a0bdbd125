"""Claims, volumes and storage classes."""

from __future__ import annotations

from berth.kube.objects.base import ResourceList, Struct
from berth.kube.objects.metadata import ObjectMeta, ObjectReference, TypedObject
from berth.kube.objects.selectors import LabelSelector, NodeSelector


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


class PersistentVolumeSpec(Struct, frozen=True):
    capacity: ResourceList | None = None
    access_modes: list[str] | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    claim_ref: ObjectReference | None = None
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str | None = None


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
