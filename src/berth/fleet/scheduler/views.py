"""What the fleet scheduler looks at in objects: Karmada's as placing sees them, others by their metadata."""

from __future__ import annotations

from typing import Any

from berth.kube.api_resources import (
    CLUSTER_BINDINGS,
    CLUSTER_POLICIES,
    CLUSTERS,
    NAMESPACES,
    POLICIES,
    RESOURCE_BINDINGS,
    Resource,
)
from berth.kube.karmada import Binding, Cluster
from berth.kube.objects import Namespace, PartialObjectMetadata

VIEWS: dict[Resource, type[Any]] = {
    CLUSTERS: Cluster,
    RESOURCE_BINDINGS: Binding,
    CLUSTER_BINDINGS: Binding,
    POLICIES: PartialObjectMetadata,
    CLUSTER_POLICIES: PartialObjectMetadata,
    NAMESPACES: Namespace,
}
