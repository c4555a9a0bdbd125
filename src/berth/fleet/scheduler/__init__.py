"""The multi-cluster scheduler: bindings of Karmada onto member clusters."""

from berth.fleet.scheduler.machine import FleetScheduler
from berth.fleet.scheduler.settings import SCHEDULER_NAME, FleetMetrics, FleetSettings

__all__ = ["SCHEDULER_NAME", "FleetMetrics", "FleetScheduler", "FleetSettings"]
