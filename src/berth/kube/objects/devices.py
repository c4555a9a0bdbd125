"""Claims to devices (`resource.k8s.io`), as far as who places their pods looks at them."""

from __future__ import annotations

from berth.kube.objects.base import Struct
from berth.kube.objects.metadata import TypedObject, UntimedCondition
from berth.kube.objects.selectors import NodeSelector


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
