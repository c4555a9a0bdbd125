"""The frame of a controller: a queue of keys, and events for people."""

from __future__ import annotations

import heapq
import math
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from berth.kube.api_resources import Resource
from berth.kube.objects import Key
from berth.machines.cache import Cache
from berth.machines.contract import Action, Delete, Event, Outcome, expect
from berth.machines.rates import Backoff, earliest
from berth.machines.recorder import EVENT, Recorder

K = TypeVar("K", bound=Hashable)

_BACKOFF = Backoff(first=0.05, longest=60.0)


class Queue(Generic[K]):
    """Keys are given out once; a key with actions under way is held back until they are done."""

    def __init__(self) -> None:
        self._ready: dict[K, None] = {}
        self._when: dict[K, float] = {}
        self._timers: list[tuple[float, int, K]] = []
        self._count = 0
        self._busy: dict[K, int] = {}  # actions under way
        self._failures: dict[K, int] = {}  # rounds in a row in which an action failed
        self._failed: set[K] = set()  # an action of this round failed

    def add(self, key: K) -> None:
        self._ready[key] = None

    def add_at(self, key: K, when: float) -> None:
        """Look at the key at that time at the latest."""
        known = self._when.get(key)
        if known is not None and known <= when:
            return
        self._when[key] = when
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, key))

    def put_off(self, key: K, until: float | None, now: float) -> bool:
        """Look at the key again at a time, if that is yet to come; whether it is.  It may be never."""
        if until is None or until <= now:
            return False
        if until < math.inf:
            self.add_at(key, until)
        return True

    def forget(self, key: K) -> None:
        self._ready.pop(key, None)
        self._when.pop(key, None)
        self._failures.pop(key, None)
        self._failed.discard(key)

    def take(self, now: float) -> list[K]:
        """The keys that are due and free."""
        while self._timers and self._timers[0][0] <= now:
            when, _, key = heapq.heappop(self._timers)
            if self._when.get(key) == when:
                del self._when[key]
                self._ready[key] = None
        if not self._ready:
            return []
        free = [key for key in self._ready if key not in self._busy]
        for key in free:
            del self._ready[key]
        return free

    def due(self) -> float | None:
        if any(key not in self._busy for key in self._ready):
            return 0.0
        while self._timers and self._when.get(self._timers[0][2]) != self._timers[0][0]:
            heapq.heappop(self._timers)  # outdated: the key is due earlier, or was forgotten
        return self._timers[0][0] if self._timers else None

    # --- actions under way ------------------------------------------------------------------------

    def is_busy(self, key: K) -> bool:
        """Whether actions of the key are under way."""
        return key in self._busy

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    def started(self, key: K, actions: int) -> None:
        """So many actions of the key begin; if there is nothing to do, nothing fails any more."""
        if actions:
            self._busy[key] = self._busy.get(key, 0) + actions
        else:
            self._failures.pop(key, None)

    def finished(self, key: K, *, ok: bool, at: float, wait: float | None = None) -> None:
        """One action of the key is done; if it failed the key is due again, later each time."""
        if not ok:
            self._failed.add(key)
            self.add_at(key, at + max(_BACKOFF.after(self.failures(key) + 1), wait or 0.0))
        left = self._busy.get(key, 1) - 1
        if left:
            self._busy[key] = left
            return
        self._busy.pop(key, None)
        if key in self._failed:
            self._failed.discard(key)
            self._failures[key] = self._failures.get(key, 0) + 1
        else:
            self._failures.pop(key, None)

    # --- proof ------------------------------------------------------------------------------------

    def stranded(self) -> set[K]:
        """The keys that failed, and that nobody will look at again."""
        return self._failures.keys() - (self._ready.keys() | self._when.keys() | self._busy.keys())

    def validate(self) -> None:
        """Check that deadlines are kept, and that what is said of a round is said of one under way."""
        timers = {(key, when) for when, _, key in self._timers}
        expect(self._when.items() <= timers, "a deadline has no timer", self._when)
        expect(all(map(math.isfinite, self._when.values())), "a deadline never comes", self._when)
        expect(all(number > 0 for number in self._busy.values()), "nothing is under way", self._busy)
        expect(self._failed <= self._busy.keys(), "it failed in a round that is over", self._failed)


class KeyedMachine(Generic[K]):
    """A machine that looks at one key at a time.

    A subclass says in `handle` which keys an event concerns (`self.queue.add`), in `sync` what to do about a
    key, and tells the queue in `done` what became of it.  While actions of a key are under way it is not
    looked at again; when one fails it is looked at later.
    """

    name = ""
    watches: tuple[Resource, ...] = ()

    def __init__(self) -> None:
        self.queue: Queue[K] = Queue()
        self.recorder = Recorder(self.name)

    def handle(self, event: Event) -> None:
        raise NotImplementedError

    def sync(self, key: K, now: float) -> Iterable[Action]:
        raise NotImplementedError

    def due(self) -> float | None:
        return earliest(self.recorder.due(), self.queue.due())

    def reconcile(self, now: float) -> list[Action]:
        actions: list[Action] = []
        for key in self.queue.take(now):
            made = list(self.sync(key, now))
            self.queue.started(key, len(made))
            actions += made
        actions += self.recorder.take(now)
        return actions

    def validate(self) -> None:
        """Check what holds between any two calls; for tests."""
        self.queue.validate()
        stranded = self.queue.stranded()
        expect(not stranded, "nobody comes back to what failed", stranded)


class Controller(KeyedMachine[Key]):
    """A controller of the objects in a cache, which are its keys."""

    def __init__(self, cache: Cache) -> None:
        super().__init__()
        self.cache = cache

    def done(self, action: Action, outcome: Outcome) -> None:
        if action.purpose is EVENT:
            self.recorder.done(action, outcome)
            return
        if not outcome.ok:
            self.failed(action, outcome)
        # 404 and 409 are no failures: the watch will show that the object is gone, or there already.
        settled = outcome.ok or (isinstance(action, Delete) and outcome.missing)
        self.queue.finished(action.key, ok=settled, at=outcome.at, wait=outcome.retry_after)

    def failed(self, action: Action, outcome: Outcome) -> None:
        """Take back what was expected of an action."""
