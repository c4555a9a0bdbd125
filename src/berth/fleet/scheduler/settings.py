"""The settings and metrics of the fleet's scheduler."""

from __future__ import annotations

from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from berth.fleet.state.options import COMPATIBLE, FleetOptions
from berth.kube.well_known import DEFAULT_SCHEDULER_NAME

SCHEDULER_NAME = "berth"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSettings:
    """How bindings are scheduled; `compatible` gives Karmada's ways.

    Attributes:
        scheduler_names: Whose bindings are scheduled. One without a name belongs to ``default-scheduler``.
        retry_blocked: A binding that fits nowhere is tried again when a peer leaves or moves.
        claim_groups: The first member of a group claims it with a Lease: two schedulers cannot split it.
        claimed_only: Ignore bindings that no policy has made.
    """

    options: FleetOptions = field(default_factory=FleetOptions)
    scheduler_names: frozenset[str] = frozenset((SCHEDULER_NAME,))
    retry_blocked: bool = True
    claim_groups: bool = True
    claimed_only: bool = False

    @classmethod
    def compatible(
        cls, scheduler_names: frozenset[str] = frozenset((DEFAULT_SCHEDULER_NAME,))
    ) -> FleetSettings:
        return cls(
            options=COMPATIBLE,
            scheduler_names=scheduler_names,
            retry_blocked=False,
            claim_groups=False,
            claimed_only=True,
        )


# --- what is counted ------------------------------------------------------------------------------

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
