"""What Karmada's kinds may hold, as `berth up` serves them."""

from __future__ import annotations

from berth.kube.karmada import CLUSTER_GROUP, WORK_GROUP
from berth.kube.schema import Schema, SchemaRegistry
from berth.server.registry.kinds.custom.karmada import definitions

CLUSTER = (f"{CLUSTER_GROUP}/v1alpha1", "Cluster")
RESOURCE_BINDING = (f"{WORK_GROUP}/v1alpha2", "ResourceBinding")


def karmada_schemas() -> dict[tuple[str, str], Schema]:
    """By apiVersion and kind."""
    registry = SchemaRegistry()
    for definition in definitions():
        registry.add_crd(definition)
    return registry.custom()
