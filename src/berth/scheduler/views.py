"""What the scheduler decodes of each resource."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berth.kube.api_resources import (
    BUDGETS,
    CLAIMS,
    LABELLED_POD_GROUPS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VOLUMES,
    Resource,
)
from berth.kube.objects import (
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    ReplicationController,
    Service,
    StorageClass,
    Workload,
)

VIEWS: Mapping[Resource, type[Any]] = {
    PODS: Pod,
    NODES: Node,
    NAMESPACES: Namespace,
    SERVICES: Service,
    REPLICATION_CONTROLLERS: ReplicationController,
    REPLICA_SETS: Workload,
    STATEFUL_SETS: Workload,
    BUDGETS: PodDisruptionBudget,
    PRIORITY_CLASSES: PriorityClass,
    CLAIMS: PersistentVolumeClaim,
    VOLUMES: PersistentVolume,
    STORAGE_CLASSES: StorageClass,
    POD_GROUPS: PodGroup,
    LABELLED_POD_GROUPS: PodGroup,
}
# Not every API server has them; one that has none of a kind is like one that has no objects of it.
OPTIONAL = frozenset({POD_GROUPS, LABELLED_POD_GROUPS})
