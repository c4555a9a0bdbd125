"""The multi-cluster scheduler: bindings of Karmada onto member clusters."""

from berth.fleet.scheduler.machine import FleetScheduler
from berth.fleet.scheduler.metrics import FleetMetrics
from berth.fleet.scheduler.settings import SCHEDULER_NAME, FleetSettings

__all__ = ["SCHEDULER_NAME", "FleetMetrics", "FleetScheduler", "FleetSettings"]
