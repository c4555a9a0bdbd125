"""Runs state machines against an API server: one informer a resource, shared by all of them.

Events go to every machine that watches the resource; when a machine has something to do it is
asked once for all of it, and its actions are performed with bounded concurrency.  Machines decide
what to do about failures; this shell only tells them.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from berth.kube.api_resources import Resource
from berth.live.client import EVERYTHING, Client, Selection
from berth.live.informer import Informer
from berth.live.performing import perform
from berth.machines.contract import Action, Confirming, Event, Evict, Machine, Outcome

_log = logging.getLogger(__name__)

CONCURRENCY = 16  # actions of one machine
REQUESTS = 64  # of all machines together
# Machines are given a moment to hear of more before they are asked, so that a burst is one question.
GATHER = 0.002
# When told to end: as long the answer to an eviction is waited for, and for what is to be said about it.
LAST_WORDS = 3.0


class Listener(Protocol):
    def handle(self, event: Event) -> None: ...


@runtime_checkable
class Leaving(Protocol):
    """A machine that has something to say when it ends."""

    def farewell(self, now: float) -> list[Action]: ...


class Runner:
    """The shell around some machines; what is in `first` hears every event before they do.

    Attributes:
        informers: By resource, made from what the machines watch.
        leaving: Nothing is begun any more.
    """

    def __init__(
        self,
        client: Client,
        controllers: Sequence[Machine],
        views: Mapping[Resource, type[Any]],
        *,
        first: Sequence[Listener] = (),
        concurrency: int = CONCURRENCY,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
    ) -> None:
        self._client = client
        self._first = first
        self._shells = [_Shell(self, controller, concurrency) for controller in controllers]
        self._listeners: dict[Resource, list[_Shell]] = defaultdict(list)
        self.clock = clock
        self._requests = asyncio.Semaphore(REQUESTS)
        self.leaving = False
        for shell in self._shells:
            for resource in shell.controller.watches:
                self._listeners[resource].append(shell)
        self.informers = {
            resource: Informer(client, resource, views[resource], self._deliver, rng=rng)
            for resource in self._listeners
        }

    async def run(self) -> None:
        """Run until cancelled or until a machine breaks."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.follow())
            group.create_task(self.act())

    async def follow(self) -> None:
        """Tell the machines what happens; a standby does this, too."""
        async with asyncio.TaskGroup() as group:
            for informer in self.informers.values():
                group.create_task(informer.run(), name=f"inform {informer.resource.name}")

    async def act(self) -> None:
        """Do what the machines ask for, once everything was listed.

        When cancelled, evictions that were sent are waited for, and what machines have to say about them is
        written: nothing new is begun.
        """
        try:
            async with asyncio.TaskGroup() as group:
                for shell in self._shells:
                    group.create_task(shell.run(group), name=f"run {shell.controller.name}")
        except asyncio.CancelledError:
            last = [action for shell in self._shells for action in shell.farewell()]
            requests = [asyncio.ensure_future(perform(self._client, a, self.clock)) for a in last]
            if requests:
                await asyncio.wait(requests, timeout=LAST_WORDS)
            for request in requests:
                request.cancel()
            raise

    async def synced(self) -> None:
        """Wait until everything was listed once."""
        for informer in self.informers.values():
            await informer.synced.wait()

    def unsynced(self) -> str | None:
        """Which resources were not listed yet, for a health check."""
        waiting = [r.name for r, informer in self.informers.items() if not informer.synced.is_set()]
        return f"not listed yet: {', '.join(waiting)}" if waiting else None

    def add(
        self,
        resource: Resource,
        view: type[Any],
        controllers: Sequence[Machine],
        selection: Selection = EVERYTHING,
    ) -> Informer[Any]:
        """Watch one more resource for some of the machines; the caller runs the informer."""
        listeners = [shell for shell in self._shells if shell.controller in controllers]
        self._listeners[resource] = listeners
        informer = self.informers[resource] = Informer(
            self._client, resource, view, self._deliver, selection=selection
        )
        return informer

    def remove(self, resource: Resource) -> None:
        del self._listeners[resource], self.informers[resource]

    def _deliver(self, event: Event) -> None:
        for listener in self._first:
            listener.handle(event)
        for shell in self._listeners[event.resource]:
            shell.controller.handle(event)
            shell.consider()

    async def perform(self, action: Action, confirms: Callable[[Action], bool] | None) -> Outcome:
        async with self._requests:
            if self.leaving:
                raise asyncio.CancelledError
            return await perform(self._client, action, self.clock, confirms)


class _Shell:
    """One machine: asks it, performs what it says, tells it the outcome."""

    def __init__(self, runner: Runner, controller: Machine, concurrency: int) -> None:
        self.controller = controller
        self.wake = asyncio.Event()
        self._runner = runner
        self._confirms = controller.confirms if isinstance(controller, Confirming) else None
        self._slots = asyncio.Semaphore(concurrency)
        self._sleeps_until = -math.inf  # awake

    def consider(self) -> None:
        """Wake up if there is something to do sooner than was planned: most events change nothing."""
        if not self.wake.is_set():
            due = self.controller.due()
            if due is not None and due < self._sleeps_until:
                self.wake.set()

    async def run(self, group: asyncio.TaskGroup) -> None:
        for resource in self.controller.watches:
            await self._runner.informers[resource].synced.wait()
        self.wake.set()
        while True:
            await self._until_due()
            await asyncio.sleep(GATHER)
            self.wake.clear()
            for action in self.controller.reconcile(self._runner.clock()):
                await self._slots.acquire()
                group.create_task(self._perform(action))

    async def _until_due(self) -> None:
        due = self.controller.due()
        delay = None if due is None else max(due - self._runner.clock(), 0.0)
        if delay == 0.0 or self.wake.is_set():
            return
        self._sleeps_until = math.inf if due is None else due
        try:
            async with asyncio.timeout(delay):
                await self.wake.wait()
        except TimeoutError:
            pass
        finally:
            self._sleeps_until = -math.inf

    def farewell(self) -> list[Action]:
        if isinstance(self.controller, Leaving):
            return self.controller.farewell(self._runner.clock())
        return []

    async def _to_the_end(self, action: Evict) -> Outcome:
        """Whether a pod was evicted has to be known, also by those who are told to end."""
        request = asyncio.ensure_future(self._runner.perform(action, self._confirms))
        try:
            await asyncio.wait({request})
        except asyncio.CancelledError:
            self._runner.leaving = True
            await asyncio.wait({request}, timeout=LAST_WORDS)
            if request.done():
                self.controller.done(action, request.result())
            request.cancel()
            raise
        return request.result()

    async def _perform(self, action: Action) -> None:
        try:
            if isinstance(action, Evict):
                outcome = await self._to_the_end(action)
            else:
                outcome = await self._runner.perform(action, self._confirms)
        finally:
            self._slots.release()
        if not outcome.ok:
            _log.debug("%s: %s: %s %s", self.controller.name, action, outcome.code, outcome.message)
        self.controller.done(action, outcome)
        self.consider()
