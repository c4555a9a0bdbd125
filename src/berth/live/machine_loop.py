"""One machine at work: it is asked what to do, its requests are made, and it is told the answers.

Requests wait in a queue, the urgent before the rest, and are made side by side.  Events are for people, who
read slowly: they are written in the background, one every so often while other requests are under way, and
afterwards as fast as the server takes them.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import logging
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from berth.kube.api_resources import Resource
from berth.kube.well_known import ADDED, DELETED
from berth.live.client import Client, delete_options
from berth.live.errors import ApiError, NotSent
from berth.live.logs import say, v
from berth.machines.contract import (
    Action,
    Bind,
    ConfirmingMachine,
    Create,
    Delete,
    DeleteAll,
    DrainingMachine,
    Event,
    Evict,
    Get,
    Machine,
    Outcome,
    Patch,
    Update,
)
from berth.machines.recorder import EVENT

# --- actions as requests --------------------------------------------------------------------------

Clock = Callable[[], float]


async def perform(
    client: Client, action: Action, clock: Clock, confirms: Callable[[Action], bool] | None = None
) -> Outcome:
    """Carry an action out; every error becomes an outcome, too.

    A write waits while the client's fence is closed. Right before the request is sent `confirms` is
    asked: if it says no, nothing is sent.
    """
    while True:
        ready = client if confirms is None and client.fence is None else await client.turn(action.resource)
        free = client.fence is None or isinstance(action, Get) or await client.fence.opened()
        if confirms is not None and not confirms(action):
            return Outcome(at=clock(), code=409, reason="Conflict", message="no longer meant")
        try:
            body = await _request(ready, action)
        except ApiError as error:
            if not (free and isinstance(error, NotSent)):
                said = (error.code, error.reason, error.message)
                return Outcome(clock(), *said, retry_after=error.retry_after, details=error.details)
        else:
            return Outcome(at=clock(), body=body)


def _request(client: Client, action: Action) -> Awaitable[bytes]:  # noqa: PLR0911 - one line an action
    resource, namespace, name = action.resource, action.namespace, action.name
    match action:
        case Bind():
            return client.bind(name, namespace, action.node, uid=action.uid)
        case Create():
            return client.create(resource, action.body, namespace, name, action.subresource)
        case Update():
            return client.update(resource, action.body, namespace, action.subresource)
        case Patch(body=body, subresource=part, form=form):
            return client.patch(resource, name, body, namespace=namespace, subresource=part, form=form)
        case Delete():
            options = delete_options(action.uid, None, action.grace, action.propagation)
            return client.delete(resource, name, namespace=namespace, options=options)
        case DeleteAll():
            return client.delete_all(resource, namespace)
        case Evict():
            options = delete_options(action.uid, action.resource_version)
            return client.evict(name, namespace, options)
        case Get():
            return client.get(resource, name, namespace)
    raise TypeError(action)


# --- the loop -------------------------------------------------------------------------------------

_log = logging.getLogger(__name__)

# Events kept while the server is busy or away; the oldest are dropped beyond that.
MOST_EVENTS = 20_000
# While other requests are under way one event is written every so often, more when they pile up.
_TRICKLE, MANY_EVENTS = 0.05, 5_000
LATEST = 3.0  # seconds that an event waits at most while there are other requests
_TURNS = 3  # turns of the event loop from the arrival of bytes until machines have handled them
_YIELD = 0.02  # seconds between looks at whether everything is finished


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSettings:
    """How a machine is run.

    Attributes:
        concurrency: So many of its requests are made at a time, besides Events.
        writers: So many Events are written at a time.
        rank: Which requests go first: those with the lowest number.
        apart: Its requests do not count against those that all machines may have under way.
        gather: Seconds to hear of more before it is asked, so that a burst is one question.
        rests: Seconds to sleep instead while requests are under way: fewer than half of `concurrency`, and
            half or more; for machines that have their process for themselves.
        drain: Seconds to finish what was begun when told to end, for a machine that can.
        failures: The level at which requests that failed are logged, Events aside.
        clock: The time it is told.
        lenses: By resource, how this machine converts the objects that other machines see as decoded.
    """

    concurrency: int = 16
    writers: int = 4
    rank: Callable[[Action], int] = field(default=lambda _: 0)
    apart: bool = False
    gather: float = 0.002
    rests: tuple[float, float] | None = None
    drain: float = 6.0
    failures: int = logging.DEBUG
    clock: Callable[[], float] = time.time
    lenses: Mapping[Resource, Callable[[Any], Any]] = field(default_factory=dict)


class MachineLoop:
    """A machine, and its requests that wait or are under way.

    Attributes:
        dropped: Events that were given up for want of room.
        wakes: Loops to wake after this machine has decided something.
    """

    def __init__(
        self, client: Client, machine: Machine, settings: MachineSettings, slots: asyncio.Semaphore
    ) -> None:
        self.machine = machine
        self.dropped = 0
        self.wakes: list[MachineLoop] = []
        self._client = client
        self._settings = settings
        self._clock = settings.clock
        self._slots = contextlib.nullcontext() if settings.apart else slots
        self._confirms = machine.confirms if isinstance(machine, ConfirmingMachine) else None
        self._wake = asyncio.Event()
        self._sleeps_until = -math.inf  # not asleep
        self._numbers = itertools.count()
        self._queue: list[tuple[int, int, Action]] = []  # a heap
        self._idle: list[asyncio.Future[None]] = []  # workers that wait for a request
        self._workers = self._under_way = 0
        self._events: deque[tuple[float, Action]] = deque()  # since when each waits
        self._noted = asyncio.Event()
        self._quiet = asyncio.Event()
        self._writers = self._writing = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._broken: asyncio.Future[None] | None = None

    # --- hearing ------------------------------------------------------------------------------------

    def deliver(self, event: Event) -> None:
        lens = self._settings.lenses.get(event.resource) if self._settings.lenses else None
        seen = event if lens is None else _seen_through(lens, event)
        if seen is not None:
            self.machine.handle(seen)
            self.consider()

    def consider(self) -> None:
        """Wake up if the machine has something to do sooner than planned; most events change nothing."""
        if self._sleeps_until > -math.inf and not self._wake.is_set():
            due = self.machine.due()
            if due is not None and due < self._sleeps_until:
                self._wake.set()

    # --- deciding -----------------------------------------------------------------------------------

    async def run(self, abandoned: Callable[[], bool]) -> None:
        """Work until cancelled; then finish what was begun, unless that was `abandoned`."""
        self._broken = asyncio.get_running_loop().create_future()
        self._wake.set()
        self._spawn(self._decide())
        try:
            await self._broken
        except asyncio.CancelledError:
            if isinstance(self.machine, DrainingMachine):
                self.machine.drain()
                if not abandoned():
                    await self._finish()
            raise
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and self._broken is not None and not self._broken.done():
            self._broken.set_exception(error)

    async def _decide(self) -> None:
        while True:
            await self._until_due()
            await self._gather()
            self._wake.clear()
            for action in self.machine.reconcile(self._clock()):
                self._dispatch(action)
            for loop in self.wakes:
                loop.consider()

    async def _gather(self) -> None:
        """Wait for further events before the machine is asked.

        While answers are to come the whole process sleeps, and then reads them together: that takes less
        processor time than waking up for each, and leaves more to a server on the same machine.  With many
        under way the sleep is short, so that the server does not run out of requests.
        """
        if self._settings.rests is None or not (self._under_way or self._writing):
            await asyncio.sleep(self._settings.gather)
            return
        many = self._under_way >= self._settings.concurrency // 2
        time.sleep(self._settings.rests[many])  # noqa: ASYNC251 - nothing is to happen meanwhile
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    async def _until_due(self) -> None:
        due = self.machine.due()
        delay = None if due is None else due - self._clock()
        if self._wake.is_set() or (delay is not None and delay <= 0):
            return
        self._sleeps_until = math.inf if due is None else due
        try:
            async with asyncio.timeout(delay):
                await self._wake.wait()
        except TimeoutError:
            pass
        finally:
            self._sleeps_until = -math.inf

    async def _finish(self) -> None:
        self._wake.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.drain):
                while self._busy():  # noqa: ASYNC110 - for a second or two, once in a lifetime
                    await asyncio.sleep(_YIELD)

    def _busy(self) -> bool:
        if self._under_way or self._writing or self._events or self._queue:
            return True
        due = self.machine.due()
        return due is not None and due <= self._clock()

    # --- asking -------------------------------------------------------------------------------------

    def _dispatch(self, action: Action) -> None:
        if action.purpose is EVENT:
            self._note(action)
            return
        heapq.heappush(self._queue, (self._settings.rank(action), next(self._numbers), action))
        if self._idle:
            self._idle.pop().set_result(None)
        elif self._workers < self._settings.concurrency:
            self._workers += 1
            self._spawn(self._work())

    def _note(self, action: Action) -> None:
        now = self._clock()
        self._events.append((now, action))
        if len(self._events) > MOST_EVENTS:
            _, lost = self._events.popleft()
            self.dropped += 1
            self.machine.done(lost, Outcome(at=now, code=400, reason="Dropped"))
        self._noted.set()
        if self._must_write():
            self._quiet.set()
        if self._writers < min(self._settings.writers, len(self._events)):
            self._writers += 1
            self._spawn(self._write(first=self._writers == 1))

    async def _work(self) -> None:
        while True:
            while not self._queue:
                if not self._under_way:
                    self._quiet.set()
                waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._idle.append(waiting)
                await waiting
            _, _, action = heapq.heappop(self._queue)
            self._under_way += 1
            try:
                await self._carry_out(action)
            finally:
                self._under_way -= 1

    def _must_write(self) -> bool:
        """Whether events are written though other requests are under way: many wait, or one for long."""
        waits = self._events[0][0] if self._events else math.inf
        return len(self._events) >= MANY_EVENTS or self._clock() - waits > LATEST

    async def _write(self, *, first: bool) -> None:
        """Write events; while other requests are under way only the first writer does, one now and then."""
        while True:
            while not self._events:
                self._noted.clear()
                await self._noted.wait()
            if (self._under_way or self._queue) and not self._must_write():
                if first:
                    await asyncio.sleep(_TRICKLE)
                else:
                    self._quiet.clear()
                    await self._quiet.wait()
                if not first or not self._events:
                    continue
            _, action = self._events.popleft()
            self._writing += 1
            try:
                await self._carry_out(action)
            finally:
                self._writing -= 1

    async def _carry_out(self, action: Action) -> None:
        async with self._slots:
            outcome = await perform(self._client, action, self._clock, self._confirms)
        self._tell(action, outcome)
        self.machine.done(action, outcome)
        self.consider()

    def _tell(self, action: Action, outcome: Outcome) -> None:
        if outcome.ok:
            if isinstance(action, Bind) and _log.isEnabledFor(v(2)):
                pod = f"{action.namespace}/{action.name}"
                say(_log, v(2), "Successfully bound pod to node", pod=pod, node=action.node)
            elif action.why and _log.isEnabledFor(v(4)):
                name, what = _names_of(action)
                say(_log, v(4), "Request made", what=what, object=name, why=action.why)
            return
        (name, what), failure = _names_of(action), {"code": outcome.code, "err": outcome.message}
        if isinstance(action, Bind):
            say(_log, logging.WARNING, "Failed to bind pod", pod=name, node=action.node, **failure)
        elif not outcome.missing:
            level = logging.DEBUG if action.purpose is EVENT else self._settings.failures
            say(_log, level, "Request failed", what=what, object=name, **failure)


def _names_of(action: Action) -> tuple[str, str]:
    """The object it is about, and what is asked for."""
    return f"{action.namespace}/{action.name}", f"{type(action).__name__} {action.resource.name}"


def _seen_through(lens: Callable[[Any], Any], event: Event) -> Event | None:
    """The event through a machine's lens; an object that cannot be decoded counts as not there."""
    try:
        old = None if event.old is None else lens(event.old)
    except msgspec.ValidationError:
        old = None
    try:
        seen = lens(event.object)
    except msgspec.ValidationError as error:
        _log.warning("%s: %s/%s is left out: %s", event.resource.name, *event.key, error)
        return None if old is None else Event(event.resource, DELETED, old, old)
    if event.change == DELETED:
        return Event(event.resource, DELETED, seen, old)
    return Event(event.resource, ADDED if old is None else event.change, seen, old)
