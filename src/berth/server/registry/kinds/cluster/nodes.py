"""Nodes, and what pods are told about the node they run on."""

from __future__ import annotations

from berth.kube.objects import RawObject
from berth.server.registry.fields import spec_of, spell_amounts
from berth.server.registry.resources import served
from berth.server.registry.strategy import Registry, Strategy
from berth.server.storage.selectors import paths
from berth.server.tables import cluster as tables

_TOPOLOGY_LABELS = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")


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
        served("v1", "nodes", "Node", namespaced=False, short="no", subresources="status"),
        columns=tables.NODE,
        fields=paths("spec.unschedulable", default="false"),
        generation=False,
        status_on_create=True,
    ),
)


def topology_labels(registry: Registry, node: str) -> dict[str, str]:
    """What a pod is told about where it runs (upstream: plugin/pkg/admission/podtopologylabels)."""
    record = registry.builtin("", "nodes").bucket.newest(("", node))
    if record is None:
        return {}
    return {key: record.labels[key] for key in _TOPOLOGY_LABELS if key in record.labels}
