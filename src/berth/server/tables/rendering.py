"""Objects as a ``Table``, the form kubectl asks for when it prints for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from berth.server.tables import cluster, custom, pods, workloads
from berth.server.tables.cells import AGE, CREATED_AT, NAME, Column

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from berth.server.registry.resources import ServedResource

_COLUMNS: dict[str, tuple[Column, ...]] = {
    "ConfigMap": cluster.CONFIG_MAP,
    "ControllerRevision": workloads.CONTROLLER_REVISION,
    "CronJob": workloads.CRON_JOB,
    "CSINode": cluster.CSI_NODE,
    "CSIStorageCapacity": cluster.CSI_STORAGE_CAPACITY,
    "ClusterRoleBinding": cluster.ROLE_BINDING,
    "DaemonSet": workloads.DAEMON_SET,
    "Deployment": workloads.DEPLOYMENT,
    "EndpointSlice": cluster.ENDPOINT_SLICE,
    "Endpoints": cluster.ENDPOINTS,
    "Event": cluster.EVENT,
    "HorizontalPodAutoscaler": workloads.HORIZONTAL_POD_AUTOSCALER,
    "Ingress": cluster.INGRESS,
    "IngressClass": cluster.INGRESS_CLASS,
    "Job": workloads.JOB,
    "Lease": cluster.LEASE,
    "MutatingWebhookConfiguration": cluster.WEBHOOKS,
    "Namespace": cluster.NAMESPACE,
    "NetworkPolicy": cluster.NETWORK_POLICY,
    "Node": cluster.NODE,
    "PersistentVolume": cluster.PERSISTENT_VOLUME,
    "PersistentVolumeClaim": cluster.PERSISTENT_VOLUME_CLAIM,
    "Pod": pods.COLUMNS,
    "PodDisruptionBudget": workloads.POD_DISRUPTION_BUDGET,
    "PodGroup": cluster.POD_GROUP,
    "PodTemplate": workloads.POD_TEMPLATE,
    "PriorityClass": cluster.PRIORITY_CLASS,
    "ReplicaSet": workloads.REPLICA_SET,
    "ReplicationController": workloads.REPLICATION_CONTROLLER,
    "ResourceQuota": cluster.RESOURCE_QUOTA,
    "RoleBinding": cluster.ROLE_BINDING,
    "RuntimeClass": cluster.RUNTIME_CLASS,
    "Secret": cluster.SECRET,
    "Service": cluster.SERVICE,
    "ServiceAccount": cluster.PLAIN,
    "StatefulSet": workloads.STATEFUL_SET,
    "StorageClass": cluster.STORAGE_CLASS,
    "ValidatingWebhookConfiguration": cluster.WEBHOOKS,
    "VolumeAttachment": cluster.VOLUME_ATTACHMENT,
    "Workload": cluster.PLAIN,
}
_DEFAULT = (NAME, CREATED_AT)
_BUILTIN_SUFFIX = ".k8s.io"


def columns_of(
    resource: ServedResource, printer_columns: Sequence[Mapping[str, Any]] | None
) -> tuple[Column, ...]:
    if printer_columns is not None:
        return custom.columns(printer_columns)
    builtin = "." not in resource.group or resource.group.endswith(_BUILTIN_SUFFIX)
    return _COLUMNS.get(resource.kind, _DEFAULT) if builtin else (NAME, AGE)


def render_table(
    resource: ServedResource,
    objects: Iterable[dict[str, Any]],
    now: float,
    include_object: str = "Metadata",
    *,
    printer_columns: Sequence[Mapping[str, Any]] | None = None,
    metadata: Mapping[str, Any] | None = None,
    headers: bool = True,
) -> dict[str, Any]:
    """The table of some objects at a moment (seconds since the epoch).

    `include_object` is ``None``, ``Metadata`` or ``Object``, as the query parameter has it;
    `printer_columns` are a custom resource's ``additionalPrinterColumns`` (None for built-in kinds),
    `metadata` is that of the list. In a watch, `headers` are wanted with the first event only.
    """
    columns = columns_of(resource, printer_columns)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": dict(metadata or {}),
        "columnDefinitions": [_header(column) for column in columns] if headers else None,
        "rows": [_row(columns, obj, now, include_object) for obj in objects],
    }


def _header(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": "",
        "priority": int(column.wide),
    }


def _row(columns: tuple[Column, ...], obj: dict[str, Any], now: float, include: str) -> dict[str, Any]:
    row: dict[str, Any] = {"cells": [column.cell(obj, now) for column in columns]}
    if include == "Object":
        row["object"] = obj
    elif include != "None":
        row["object"] = partial_metadata(obj)
    return row


def partial_metadata(obj: dict[str, Any]) -> dict[str, Any]:
    """An object cut down to its metadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj.get("metadata", {}),
    }
