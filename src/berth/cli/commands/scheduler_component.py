"""`berth scheduler` as a whole."""

from __future__ import annotations

import time
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from berth.cli.commands.scheduler_shell import Shell
from berth.live import component
from berth.live.client import Client
from berth.live.component import Work, run_component
from berth.scheduler.desk import SchedulerSettings
from berth.scheduler.machine import Scheduler
from berth.scheduler.metrics import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentSettings(component.ComponentSettings):
    scheduler: SchedulerSettings


async def run(settings: ComponentSettings) -> None:
    """Schedule until cancelled; see `berth.live.component.run_component`."""

    def make(client: Client, registry: CollectorRegistry) -> Work:
        metrics = Metrics(time.perf_counter, registry)
        shell = Shell(client, Scheduler(settings.scheduler, metrics=metrics))
        return Work(follow=shell.follow, act=shell.schedule, unsynced=shell.unsynced, abandon=shell.abandon)

    await run_component(settings, make, profiles=", ".join(settings.scheduler.profiles))
