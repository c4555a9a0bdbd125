"""Nodes, and what pods are told of theirs."""

from __future__ import annotations

from berth.kube.objects import RawObject
from berth.kube.well_known import REGION, ZONE
from berth.kube.workloads.stored_templates import spell_amounts
from berth.server.registry.checks import spec_of
from berth.server.registry.strategy import Registry, Strategy, served
from berth.server.storage.selectors import paths
from berth.server.tables import cluster as tables

_TOPOLOGY_LABELS = (REGION, ZONE)


class NodeStrategy(Strategy):
    """A node brings its status along; what it has is what pods may use, unless it says otherwise."""

    def default(self, obj: RawObject) -> None:
        status = obj.get("status")
        if isinstance(status, dict):
            spell_amounts(status.get("capacity"))
            spell_amounts(status.get("allocatable"))
            if status.get("capacity") and not status.get("allocatable"):
                status["allocatable"] = dict(status["capacity"])
        spec_of(obj)


STRATEGIES = (
    NodeStrategy(
        served("v1", "Node", namespaced=False, short="no", subresources="status"),
        columns=tables.NODE,
        fields=paths("spec.unschedulable", default="false"),
        generation=False,
        status_on_create=True,
    ),
)


def topology_labels(registry: Registry, node: str) -> dict[str, str]:
    """What a pod is told about where it runs (upstream: plugin/pkg/admission/podtopologylabels)."""
    record = registry.bucket("nodes").newest(("", node))
    if record is None:
        return {}
    return {key: record.labels[key] for key in _TOPOLOGY_LABELS if key in record.labels}
