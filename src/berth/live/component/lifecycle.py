"""A component as a whole: connection, election, endpoints, and the work itself."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, Metric
from prometheus_client.registry import Collector

from berth.kube.versions import NEWEST, KubernetesVersion, ServerVersion
from berth.live.client import Client
from berth.live.component.election import Election, ElectionSettings, LeaderFence, lead
from berth.live.component.endpoint import ServingSettings, given_certificate
from berth.live.component.memory import give_back, keep_many_objects
from berth.live.connection import connect
from berth.live.discovery import ask_version
from berth.live.errors import ApiError, Unauthorized
from berth.live.logs import say
from berth.live.rate_limit import Limiter
from berth.machines.rates import boottime, steady
from berth.metrics import process_registry
from berth.sockets import listen

_log = logging.getLogger(__name__)
_RETRY = 2.0  # seconds between two attempts to reach the server
_LOOK = 0.05  # seconds between two checks whether everything was listed
_UNANSWERED = 2.0  # longest time in seconds until a health check is answered
_WITHOUT_COLLECTOR = 30.0  # longest time in seconds that garbage collection is off while kinds are listed


class StartError(Exception):
    """The component cannot run; the message is a sentence for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentSettings:
    """How a component reaches its server, and is reached.

    Attributes:
        qps, burst: Requests a second, 0 for no limit of our own, and how many may come at once.
        election: None to run without one.
        serving: None to serve nothing.
    """

    kubeconfig: str | None = None
    context: str | None = None
    qps: float = 0.0
    burst: int = 100
    election: ElectionSettings | None = None
    serving: ServingSettings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a component does.

    Attributes:
        follow: Keep in step with the server until cancelled; a standby does this, too.
        act: What only the leader does, until cancelled.
        unsynced: What was not listed yet, for a health check; None if all was.
        abandon: Called when leadership is lost, before the work is cancelled: it must end at once then.
    """

    follow: Callable[[], Coroutine[Any, Any, None]]
    act: Callable[[], Coroutine[Any, Any, None]]
    unsynced: Callable[[], str | None]
    abandon: Callable[[], None] | None = None


async def run_component(
    settings: ComponentSettings,
    make: Callable[[Client, CollectorRegistry], Work],
    *,
    version: FollowedVersion | None = None,
    check: Callable[[Client], Coroutine[Any, Any, None]] | None = None,
    **starting: object,
) -> None:
    """Work until cancelled; then finish what was begun, and give up the lease.

    Args:
        settings: How to reach the server, and who else to be reached by.
        make: What to do; called before the server was reached.
        version: The version that the server is followed as. When it changes, what was begun is
            finished, `make` is called once more, and everything begins anew.
        check: Asked once the server is reached whether it has what is needed; raises StartError if not.
        starting: What to log then.

    Raises:
        StartError: the API server does not accept us.
        LeadershipLost: somebody else leads now, or the lease could not be renewed.
    """
    keep_many_objects()
    async with await connect(settings.kubeconfig, settings.context, compressed=False) as client:
        if settings.qps > 0:
            client.limiter = Limiter(settings.qps, settings.burst)
        rounds = _Rounds(settings, client, make)
        registry = process_registry()
        registry.register(rounds)
        async with _endpoints(settings, client, rounds, registry):
            await _reach(client)
            if check is not None:
                await check(client)
            if version is not None and await version.learn(client):
                rounds.begin()
            say(_log, logging.INFO, "Starting", **starting)
            while await rounds.run(version):
                say(_log, logging.INFO, "The server is of another version: beginning anew")
                rounds.begin()
                gc.unfreeze()
                gc.collect()  # everything that the round before knew


class _Rounds(Collector):
    """The work of a component, which may begin anew: as if the process had been started once more."""

    def __init__(
        self, settings: ComponentSettings, client: Client, make: Callable[[Client, CollectorRegistry], Work]
    ) -> None:
        self._settings = settings
        self._client = client
        self._make = make
        self.begin()

    def begin(self) -> None:
        self._registry = CollectorRegistry()
        self._work = self._make(self._client, self._registry)
        elects = self._settings.election
        self._fence = self._client.fence = None if elects is None else LeaderFence(Election(elects))

    async def run(self, version: FollowedVersion | None) -> bool:
        """Work until cancelled, or until the server is followed as another version: then True."""
        async with asyncio.TaskGroup() as group:
            following = group.create_task(self._work.follow())
            collecting = group.create_task(self._collect_garbage())
            giving_back = group.create_task(give_back())
            acting = group.create_task(self._act())
            changing = group.create_task(_never() if version is None else version.change(self._client))
            try:
                await asyncio.wait((acting, changing), return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed = changing.done()
                acting.cancel()
                await asyncio.wait((acting,))
                following.cancel()
                changing.cancel()
                collecting.cancel()
                giving_back.cancel()
        return changed

    async def _collect_garbage(self) -> None:
        """Collect garbage once everything was listed, and leave those objects out of later collections."""
        gc.disable()
        try:
            await self.listed(_WITHOUT_COLLECTOR)
        finally:
            gc.freeze()
            gc.enable()

    async def listed(self, longest: float) -> None:
        """Wait until everything was listed, or so many seconds."""
        until = steady() + longest
        while self.unsynced() is not None and steady() < until:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(_LOOK)

    async def _act(self) -> None:
        fence, work = self._fence, self._work
        if fence is None:
            await work.act()
            return
        election = fence.election
        leads = Gauge(
            "leader_election_master_status",
            "Whether this process leads: 1 if it does.",
            ("name",),
            registry=self._registry,
        ).labels(election.settings.name)
        leads.set(0)
        leading = False

        def changed(leader: str) -> None:
            nonlocal leading
            lost = leading and leader != election.settings.identity
            leading = leader == election.settings.identity
            leads.set(int(leading))
            if lost and work.abandon is not None:
                work.abandon()

        await lead(self._client, election.settings, work.act, on_change=changed, fence=fence)

    # --- what can be asked --------------------------------------------------------------------------

    def collect(self) -> Iterable[Metric]:
        """The metrics of the present round."""
        return self._registry.collect()

    def unsynced(self) -> str | None:
        return self._work.unsynced()

    def failing(self) -> str | None:
        """What is wrong with the election; None if nothing is."""
        return None if self._fence is None else self._fence.election.failing(boottime())


async def _never() -> None:
    await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def _endpoints(
    settings: ComponentSettings, client: Client, rounds: _Rounds, registry: CollectorRegistry
) -> AsyncIterator[None]:
    if settings.serving is None:
        yield
        return
    serving = settings.serving
    given_certificate(serving)
    listener = listen(serving.host, serving.port)
    checks = {"ping": lambda: None, "informers": rounds.unsynced}
    live_checks = {} if settings.election is None else {"leaderElection": rounds.failing}

    async def answer() -> None:
        # Importing takes long: it waits for the first lists, and then runs in a thread.
        await rounds.listed(_UNANSWERED)
        module = await asyncio.to_thread(importlib.import_module, "berth.live.component.serving")
        async with module.serve(
            serving, checks, registry, client.unlimited(), live_checks=live_checks, listener=listener
        ) as port:
            say(_log, logging.INFO, "Serving securely", address=serving.host, port=port)
            await _never()

    with contextlib.closing(listener):
        async with asyncio.TaskGroup() as group:
            answering = group.create_task(answer())
            try:
                yield
            finally:
                answering.cancel()


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
            what = "Cannot reach the API server, trying again"
            say(_log, logging.WARNING, what, server=client.url, err=str(error))
            await asyncio.sleep(_RETRY)
        else:
            return


# --- the version of the server --------------------------------------------------------------------

# How often a server is asked again, in seconds: upgrades are rare, and the question is cheap.
AGAIN = 10.0


class FollowedVersion:
    """As which version of Kubernetes the server is followed, by its last answer.

    Attributes:
        version: The one to follow; the newest until the server was asked.
    """

    def __init__(self, again: float = AGAIN) -> None:
        self.version: KubernetesVersion = NEWEST
        self._server: ServerVersion | None = None
        self._again = again

    async def learn(self, client: Client) -> bool:
        """Ask the server for its version; True if it is to be followed as another one than before.

        If it does not answer, nothing changes.
        """
        try:
            found = await ask_version(client)
        except ApiError as error:
            _log.info("/version: %s", error)
            return False
        before = self._server
        if before is not None and (not found.said or found.said == before.said):
            return False
        self._server = found
        if found.note is not None:
            say(_log, logging.WARNING, found.note)
        else:
            say(_log, logging.INFO, "Kubernetes version", server=found.said, followed=found.followed.name)
        changed = found.followed != self.version
        self.version = found.followed
        return changed

    async def change(self, client: Client) -> None:
        """Wait until the server is to be followed as another version."""
        while True:
            await asyncio.sleep(self._again)
            if await self.learn(client):
                return
