"""Runs state machines against an API server: one informer a resource, shared by all of them.

Events go to every machine that watches the resource.  Machines decide what to do about failures; the runner
only tells them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from berth.kube.api_resources import Resource
from berth.kube.well_known import ADDED
from berth.live.client import EVERYTHING, Client, Selection
from berth.live.errors import ApiError
from berth.live.informer import Informer
from berth.live.machine_loop import MachineLoop, MachineSettings
from berth.machines.contract import Event, Machine, WakingMachine

REQUESTS = 64  # of all machines together


class Listener(Protocol):
    def handle(self, event: Event) -> None: ...


@runtime_checkable
class TroubleListener(Protocol):
    def troubled(self, resource: Resource, error: ApiError | None) -> None:
        """A resource is not up to date because of an error; None: it is again."""


class Runner:
    """Some machines on one API server.

    Args:
        client: The server.
        machines: All run in the same way; those that do not are added with `add`.
        views: What each resource is decoded to.
        first: Who hears every event before the machines do, and of troubles, if it cares.
        optional: Resources that the server may not have.
        settings: How the machines are run.

    Attributes:
        informers: By resource, made from what the machines watch.
    """

    def __init__(
        self,
        client: Client,
        machines: Sequence[Machine],
        views: Mapping[Resource, type[Any]],
        *,
        first: Sequence[Listener] = (),
        optional: frozenset[Resource] = frozenset(),
        settings: MachineSettings | None = None,
    ) -> None:
        self.informers: dict[Resource, Informer[Any]] = {}
        self._client = client
        self._views = views
        self._first = first
        self._optional = optional
        self._loops: list[MachineLoop] = []
        self._listeners: dict[Resource, list[MachineLoop]] = {}
        self._slots = asyncio.Semaphore(REQUESTS)
        self._following: asyncio.TaskGroup | None = None
        self._tasks: dict[Resource, asyncio.Task[None]] = {}
        self._abandoned = False
        for machine in machines:
            self.add(machine, settings or MachineSettings())

    def add(self, machine: Machine, settings: MachineSettings) -> None:
        """One more machine, before any of them runs."""
        loop = MachineLoop(self._client, machine, settings, self._slots)
        if isinstance(machine, WakingMachine):
            loop.wakes = [other for other in self._loops if other.machine in machine.wakes]
        self._loops.append(loop)
        for resource in machine.watches:
            if resource not in self.informers:
                self._inform(resource, self._views[resource])
            self._listeners[resource].append(loop)

    # --- running ------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until cancelled or until a machine breaks."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.follow())
            group.create_task(self.act())

    async def follow(self) -> None:
        """Tell the machines what happens; a standby does this, too."""
        async with asyncio.TaskGroup() as self._following:
            for resource in self.informers:
                self._start(resource)

    async def act(self) -> None:
        """Make the requests of the machines, each as soon as everything that it watches was listed.

        When cancelled, machines that have a `drain` finish what they began.
        """
        async with asyncio.TaskGroup() as group:
            for loop in self._loops:
                group.create_task(self._run(loop), name=f"run {loop.machine.name}")

    async def _run(self, loop: MachineLoop) -> None:
        for resource in loop.machine.watches:
            await self.informers[resource].synced.wait()
        await loop.run(lambda: self._abandoned)

    def abandon(self) -> None:
        """Another process leads now: machines that are told to end do so at once, without finishing."""
        self._abandoned = True

    async def synced(self) -> None:
        """Wait until everything was listed once."""
        for informer in list(self.informers.values()):
            await informer.synced.wait()

    def unsynced(self) -> str | None:
        """Which resources were not listed yet, for a health check."""
        waiting = [r.name for r, informer in self.informers.items() if not informer.synced.is_set()]
        return f"not listed yet: {', '.join(waiting)}" if waiting else None

    # --- resources that come and go -----------------------------------------------------------------

    def watch(
        self,
        resource: Resource,
        view: type[Any],
        machines: Sequence[Machine],
        selection: Selection = EVERYTHING,
    ) -> Informer[Any]:
        """Watch a resource for some of the machines; they are told of the objects known already."""
        informer = self.informers.get(resource) or self._inform(resource, view, selection)
        listeners = self._listeners[resource]
        new = [loop for loop in self._loops if loop.machine in machines and loop not in listeners]
        for item in informer.objects.values():
            for loop in new:
                loop.deliver(Event(resource, ADDED, item))
        listeners += new
        return informer

    def tell(self, event: Event, machines: Sequence[Machine]) -> None:
        """Give machines an event that comes from no informer."""
        for loop in self._loops:
            if loop.machine in machines:
                loop.deliver(event)

    def unwatch(self, resource: Resource, machines: Sequence[Machine]) -> None:
        """Tell machines no more of a resource; it is watched no longer if no other machine wants it."""
        self._listeners[resource] = [
            loop for loop in self._listeners[resource] if loop.machine not in machines
        ]
        if not self._listeners[resource]:
            del self._listeners[resource], self.informers[resource]
            if (task := self._tasks.pop(resource, None)) is not None:
                task.cancel()

    def _inform(
        self, resource: Resource, view: type[Any], selection: Selection = EVERYTHING
    ) -> Informer[Any]:
        informer = self.informers[resource] = Informer(
            self._client,
            resource,
            view,
            self._deliver,
            selection=selection,
            optional=resource in self._optional,
            trouble=self._troubled,
        )
        self._listeners[resource] = []
        if self._following is not None:
            self._start(resource)
        return informer

    def _start(self, resource: Resource) -> None:
        if self._following is not None:
            work = self.informers[resource].run()
            self._tasks[resource] = self._following.create_task(work, name=f"inform {resource.name}")

    def _deliver(self, event: Event) -> None:
        for listener in self._first:
            listener.handle(event)
        for loop in self._listeners[event.resource]:
            loop.deliver(event)

    def _troubled(self, resource: Resource, error: ApiError | None) -> None:
        for listener in self._first:
            if isinstance(listener, TroubleListener):
                listener.troubled(resource, error)
