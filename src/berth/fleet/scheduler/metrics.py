"""What `berth fleet` counts, under the names that dashboards for Karmada's scheduler know."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_BUCKETS = [0.001 * 2**step for step in range(15)]


class FleetMetrics:
    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.attempts = Counter(
            "karmada_scheduler_schedule_attempts_total",
            "Attempts to schedule a binding, by result and kind.",
            ("result", "schedule_type"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "karmada_scheduler_scheduling_algorithm_duration_seconds",
            "How long deciding about a binding took.",
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.end_to_end = Histogram(
            "karmada_scheduler_e2e_scheduling_duration_seconds",
            "From the moment a binding was looked at to the answer of the server.",
            ("result", "schedule_type"),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.incoming = Counter(
            "karmada_scheduler_queue_incoming_bindings_total",
            "Bindings queued, by what happened.",
            ("event",),
            registry=self.registry,
        )
        self.blocked = Gauge(
            "berth_fleet_blocked_bindings", "Bindings that fit nowhere for now.", registry=self.registry
        )
        self.index = Gauge(
            "berth_fleet_indexed_bindings", "Bindings in the workload affinity index.", registry=self.registry
        )
