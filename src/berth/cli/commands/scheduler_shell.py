"""Runs the scheduler against an API server: feeds it what is watched, performs what it asks for.

Bindings go first.  Events are for people, who read slowly: while bindings are under way they trickle,
and afterwards they are written as fast as the server takes them.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections import deque

from berth.kube.api_resources import EVENTS
from berth.live.client import Client
from berth.live.informer import Informer
from berth.live.logs import say
from berth.live.performing import perform
from berth.machines.contract import Action, Bind, Event, Get, Outcome
from berth.scheduler.machine import Scheduler
from berth.scheduler.views import OPTIONAL, VIEWS
from berth.scheduler.waiting import SchedulerPurpose

_log = logging.getLogger(__name__)

# Events written at a time, once no binding is under way.
WRITERS = 12
# Events kept while the server is busy or away; the oldest are dropped beyond that.
MOST_EVENTS = 20_000
# The machine is asked once for what arrives together.
_GATHER = 0.0005
_YIELD = 0.02
# While bindings are under way one event is written every so often, more when they pile up.
_TRICKLE, MANY_EVENTS = 0.05, 5_000
DRAIN_SECONDS = 15.0


class Shell:
    """Attributes:
    dropped: Events that were given up for want of room.
    abandoned: Somebody else decides by now: when told to stop, do so at once.
    """

    def __init__(self, client: Client, scheduler: Scheduler, *, writers: int = WRITERS) -> None:
        self._client = client
        self._scheduler = scheduler
        self._clock = scheduler.clock
        self._writers = writers
        self._wake = asyncio.Event()
        self._urgent: asyncio.PriorityQueue[tuple[int, int, Action]] = asyncio.PriorityQueue()
        self._numbers = itertools.count()
        self._background: deque[Action] = deque()
        self._written = asyncio.Event()
        self._sending = 0
        self.dropped = 0
        self.abandoned = False
        self.informers = {
            resource: Informer(
                client, resource, VIEWS[resource], self._deliver, optional=resource in OPTIONAL
            )
            for resource in scheduler.watches
        }

    def abandon(self) -> None:
        self.abandoned = True

    async def follow(self) -> None:
        """Keep in step until cancelled; a standby does this, too."""
        async with asyncio.TaskGroup() as group:
            for informer in self.informers.values():
                group.create_task(informer.run(), name=f"inform {informer.resource.name}")

    async def synced(self) -> None:
        for informer in self.informers.values():
            await informer.synced.wait()

    def unsynced(self) -> str | None:
        """Which resources were not listed yet, for a health check."""
        waiting = [r.name for r, informer in self.informers.items() if not informer.synced.is_set()]
        return f"not listed yet: {', '.join(waiting)}" if waiting else None

    def _deliver(self, event: Event) -> None:
        self._scheduler.handle(event)
        self._wake.set()

    # --- deciding -----------------------------------------------------------------------------------

    async def schedule(self) -> None:
        """Decide and act until cancelled; then finish what was begun."""
        await self.synced()
        limit = self._scheduler.desk.settings.in_flight
        workers = [asyncio.create_task(self._work()) for _ in range(limit)]
        workers += [asyncio.create_task(self._write(first=n == 0)) for n in range(self._writers)]
        deciding = asyncio.create_task(self._decide())
        try:
            await asyncio.wait((deciding, *workers), return_when=asyncio.FIRST_COMPLETED)
            for task in (deciding, *workers):
                if task.done():
                    task.result()
        except asyncio.CancelledError:
            self._scheduler.draining = True
            if self.abandoned:
                raise
            self._wake.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_SECONDS):
                    await self._drained()
            raise
        finally:
            for task in (deciding, *workers):
                task.cancel()
            await asyncio.gather(deciding, *workers, return_exceptions=True)

    async def _decide(self) -> None:
        while True:
            await self._until_due()
            await asyncio.sleep(_GATHER)
            self._wake.clear()
            for action in self._scheduler.reconcile(self._clock()):
                self._dispatch(action)

    async def _until_due(self) -> None:
        due = self._scheduler.due()
        if due is not None and due <= self._clock():
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if due is None else due - self._clock()):
                await self._wake.wait()

    async def _drained(self) -> None:
        while self._busy():  # noqa: ASYNC110 - for a second or two, once in a lifetime
            await asyncio.sleep(_YIELD)

    def _busy(self) -> bool:
        waiting = self._background or self._urgent.qsize()
        return bool(self._sending or waiting or not self._scheduler.at_rest)

    # --- acting -------------------------------------------------------------------------------------

    def _dispatch(self, action: Action) -> None:
        if action.resource != EVENTS:
            self._urgent.put_nowait((_rank(action), next(self._numbers), action))
            return
        self._background.append(action)
        if len(self._background) > MOST_EVENTS:
            self._background.popleft()
            self.dropped += 1
        self._written.set()

    async def _work(self) -> None:
        while True:
            await self._send((await self._urgent.get())[2])

    async def _write(self, *, first: bool) -> None:
        """Write events; only the first writer does while bindings are under way."""
        while True:
            while not self._background:
                self._written.clear()
                await self._written.wait()
            if self._scheduler.in_flight and len(self._background) < MANY_EVENTS:
                await asyncio.sleep(_TRICKLE if first else _YIELD)
                if not first or not self._background:
                    continue
            await self._send(self._background.popleft())

    async def _send(self, action: Action) -> None:
        self._sending += 1
        try:
            outcome = await perform(self._client, action, self._clock)
        finally:
            self._sending -= 1
        self._tell(action, outcome)
        self._scheduler.done(action, outcome)
        self._wake.set()

    def _tell(self, action: Action, outcome: Outcome) -> None:
        pod = f"{action.namespace}/{action.name}"
        if isinstance(action, Bind):
            if outcome.ok:
                if _log.isEnabledFor(logging.DEBUG):
                    say(_log, logging.DEBUG, "Successfully bound pod to node", pod=pod, node=action.node)
            else:
                say(
                    _log,
                    logging.WARNING,
                    "Failed to bind pod",
                    pod=pod,
                    node=action.node,
                    code=outcome.code,
                    err=outcome.message,
                )
        elif not outcome.ok and not outcome.missing:
            what = f"{type(action).__name__} {action.resource.name}"
            level = logging.DEBUG if action.resource == EVENTS else logging.WARNING
            say(_log, level, "Request failed", what=what, object=pod, code=outcome.code, err=outcome.message)


def _rank(action: Action) -> int:
    """Bindings and what they depend on go before what is said about pods that cannot be bound."""
    if isinstance(action, Bind | Get):
        return 0
    return 2 if action.purpose is SchedulerPurpose.STATEMENT else 1
