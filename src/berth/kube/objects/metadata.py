"""Metadata, conditions and references, as all kinds have them."""

from __future__ import annotations

from berth.kube.objects.base import Int64, Key, Labels, Struct


class OwnerReference(Struct, frozen=True):
    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Struct, frozen=True):
    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    labels: Labels | None = None
    annotations: Labels | None = None
    owner_references: list[OwnerReference] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: Int64 | None = None
    generation: Int64 | None = None
    finalizers: list[str] | None = None


def key_of(metadata: ObjectMeta) -> Key:
    return (metadata.namespace or "", metadata.name or "")


class UntimedCondition(Struct, frozen=True):
    """A condition without its times, of which a pod has many."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None


class Condition(UntimedCondition, frozen=True):
    last_transition_time: str | None = None
    last_update_time: str | None = None
    last_heartbeat_time: str | None = None
    last_probe_time: str | None = None
    observed_generation: Int64 | None = None


class ObjectReference(Struct, frozen=True):
    api_version: str | None = None
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    resource_version: str | None = None


class TypedObject(Struct, frozen=True):
    """The base of every kind: what all objects have."""

    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta = ObjectMeta()


class PartialObjectMetadata(TypedObject, frozen=True):
    """An object of any kind, as far as it is like all others."""
