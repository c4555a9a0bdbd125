"""The multi-cluster scheduler: bindings of Karmada onto member clusters."""

from berth.controllers.fleet.machine import FleetScheduler
from berth.controllers.fleet.metrics import Metrics
from berth.controllers.fleet.settings import SCHEDULER_NAME, FleetSettings

__all__ = ["SCHEDULER_NAME", "FleetScheduler", "FleetSettings", "Metrics"]
