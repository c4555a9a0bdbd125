"""The frame of a controller: a queue of keys, a story, and events for people."""

from __future__ import annotations

from collections.abc import Iterable

from berth.kube.api_resources import Resource
from berth.kube.objects import Key
from berth.machines.cache import Cache
from berth.machines.contract import Action, Create, Delete, Event, Outcome
from berth.machines.queue import Queue
from berth.machines.recorder import EVENT, Recorder, Story


class Controller:
    """A controller that looks at one key at a time.

    A subclass says in `handle` which keys an event concerns (`self.queue.add`) and in `sync` what
    to do about a key.  While actions of a key are under way it is not looked at again; when one fails
    it is looked at later.
    """

    name = ""
    watches: tuple[Resource, ...] = ()

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.queue: Queue[Key] = Queue()
        self.story = Story()
        self.recorder = Recorder(self.name)

    def handle(self, event: Event) -> None:
        raise NotImplementedError

    def sync(self, key: Key, now: float) -> Iterable[Action]:
        raise NotImplementedError

    def due(self) -> float | None:
        events, keys = self.recorder.due(), self.queue.due()
        return keys if events is None else events if keys is None else min(events, keys)

    def reconcile(self, now: float) -> list[Action]:
        actions: list[Action] = []
        for key in self.queue.take(now):
            made = list(self.sync(key, now))
            for action in made:
                self.story.tell(now, key, describe(action), action.why)
            self.queue.started(key, len(made))
            actions += made
        actions += self.recorder.take(now)
        return actions

    def done(self, action: Action, outcome: Outcome) -> None:
        if action.purpose is EVENT:
            self.recorder.done(action, outcome)
            return
        if not outcome.ok:
            self.story.tell(
                outcome.at, action.key, f"failed to {describe(action)}", outcome.message or outcome.reason
            )
            self.failed(action, outcome)
        # What is already gone, or already there, will show in the watch; that is no failure.
        settled = outcome.ok or (isinstance(action, Delete) and outcome.missing)
        wait = outcome.retry_after
        self.queue.finished(action.key, ok=settled, at=outcome.at, wait=wait)

    def failed(self, action: Action, outcome: Outcome) -> None:
        """Take back what was expected of an action."""


def describe(action: Action) -> str:
    verb = type(action).__name__.lower()
    kind = action.resource.kind
    name = action.name
    if isinstance(action, Create) and not name:
        metadata = action.body.get("metadata", {})
        name = metadata.get("name") or f"{metadata.get('generateName', '')}*"
    subresource = getattr(action, "subresource", "")
    return f"{verb} {kind} {name}" + (f" {subresource}" if subresource else "")
