"""What is counted of keeping groups spread."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter


class SpreadingMetrics:
    """Written by the machine, read by whoever serves the registry."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.written = Counter(
            "berth_deletion_costs_written", "Deletion costs given to pods.", registry=self.registry
        )
        self.failed = Counter(
            "berth_deletion_costs_failed", "Deletion costs that could not be written.", registry=self.registry
        )
