"""`berth scheduler` as a whole: connection, election, endpoints and the scheduler itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Gauge, PlatformCollector, ProcessCollector

from berth.live.client import Client
from berth.live.connection import connect
from berth.live.election import ElectionSettings, lead
from berth.live.errors import ApiError, Unauthorized
from berth.live.logs import say
from berth.live.ratelimit import Limiter
from berth.live.scheduler.desk import SchedulerSettings
from berth.live.scheduler.machine import Scheduler
from berth.live.scheduler.metrics import Metrics
from berth.live.scheduler.shell import Shell
from berth.live.serving import ServingSettings, serve

_log = logging.getLogger(__name__)
_RETRY = 2.0


class StartError(Exception):
    """The scheduler cannot run; the message is a sentence for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentSettings:
    """Attributes:
    qps, burst: Requests a second, 0 for no limit of our own, and how many may come at once.
    election: None to run without one.
    serving: None to serve nothing.
    """

    scheduler: SchedulerSettings
    kubeconfig: str | None = None
    context: str | None = None
    qps: float = 0.0
    burst: int = 100
    election: ElectionSettings | None = None
    serving: ServingSettings | None = None


async def run(settings: ComponentSettings) -> None:
    """Schedule until cancelled; then finish what was begun, and give up the lease.

    Raises:
        StartError: the API server does not accept us.
        berth.live.election.LeadershipLost: somebody else leads now, or nobody could be told that we do.
    """
    async with await connect(settings.kubeconfig, settings.context) as client:
        if settings.qps > 0:
            client.limiter = Limiter(settings.qps, settings.burst)
        await _reach(client)
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        metrics = Metrics(time.perf_counter, registry)
        shell = Shell(client, Scheduler(settings.scheduler, metrics=metrics))
        names = ", ".join(settings.scheduler.profiles)
        async with _endpoints(settings, client, shell, registry), asyncio.TaskGroup() as group:
            following = group.create_task(shell.follow())
            say(_log, logging.INFO, "Starting", profiles=names)
            try:
                await _schedule(settings, client, shell, registry)
            finally:
                following.cancel()


async def _schedule(
    settings: ComponentSettings, client: Client, shell: Shell, registry: CollectorRegistry
) -> None:
    election = settings.election
    if election is None:
        await shell.schedule()
        return
    leads = Gauge(
        "leader_election_master_status",
        "Whether this process leads: 1 if it does.",
        ("name",),
        registry=registry,
    ).labels(election.name)
    leads.set(0)

    async def work() -> None:
        leads.set(1)
        await shell.schedule()

    # A lease that cannot be renewed because bindings are waiting would be lost for nothing.
    await lead(client.unlimited(), election, work)


@contextlib.asynccontextmanager
async def _endpoints(
    settings: ComponentSettings, client: Client, shell: Shell, registry: CollectorRegistry
) -> AsyncIterator[None]:
    if settings.serving is None:
        yield
        return
    checks = {"ping": lambda: None, "informers": shell.unsynced}
    async with serve(settings.serving, checks, registry, client.unlimited()) as port:
        say(_log, logging.INFO, "Serving securely", address=settings.serving.host, port=port)
        yield


async def _reach(client: Client) -> None:
    """Wait for the API server. Credentials that it does not take will not get better by waiting."""
    while True:
        try:
            await client.request("GET", "/api")
        except Unauthorized as error:
            raise StartError(f"the API server does not accept these credentials: {error}") from None
        except ApiError as error:
            if error.code == 403:
                return
            say(_log, logging.WARNING, "Cannot reach the API server, trying again", err=str(error))
            await asyncio.sleep(_RETRY)
        else:
            return
