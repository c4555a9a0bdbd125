"""The queue of keys: what is wrong with it is seen, and it forgets failures that are over."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from berth.kube.api_resources import PODS
from berth.kube.objects import Key
from berth.machines.cache import Cache
from berth.machines.contract import Action, Delete, Outcome
from berth.machines.controller import Controller, Queue

KEY = ("default", "web")


class Deleting(Controller):
    """Deletes a pod as long as it is wanted."""

    name = "deleting"
    wanted = True

    def sync(self, key: Key, now: float) -> Iterator[Action]:
        del now
        if self.wanted:
            yield Delete(resource=PODS, key=key)


def refused(machine: Deleting, now: float) -> None:
    """The server does not do what is asked, and nothing is wrong after any of the steps."""
    for action in machine.reconcile(now):
        machine.validate()
        machine.done(action, Outcome(at=now, code=500))
        machine.validate()


def test_failures_are_forgotten_once_there_is_nothing_to_do() -> None:
    """What is gone is not remembered for ever, and what comes again under its name begins anew."""
    machine = Deleting(Cache())
    machine.queue.add(KEY)
    for _ in range(3):
        refused(machine, machine.due() or 0.0)
    assert machine.queue.failures(KEY) == 3
    machine.wanted = False
    assert machine.reconcile(machine.due() or 0.0) == []
    machine.validate()
    assert (machine.queue.failures(KEY), machine.due()) == (0, None)


def test_a_failure_that_nobody_comes_back_to_is_seen() -> None:
    """Who failed waits for its turn or its time, or has something under way."""
    machine = Deleting(Cache())
    machine.queue.add(KEY)
    refused(machine, 0.0)
    machine.queue.take(1.0)  # and nothing is begun
    with pytest.raises(AssertionError, match="nobody comes back to what failed"):
        machine.validate()


def test_a_key_is_put_off_to_a_time_that_is_yet_to_come() -> None:
    """Whoever asks acts now unless the time is yet to come; a time that never comes wakes nobody."""
    queue: Queue[str] = Queue()
    assert not queue.put_off("web", None, 5.0)
    assert not queue.put_off("web", 5.0, 5.0)
    assert queue.put_off("web", math.inf, 5.0)
    assert queue.due() is None
    assert queue.put_off("web", 7.0, 5.0)
    assert queue.due() == 7.0
    queue.validate()


@pytest.mark.parametrize("when", [math.inf, math.nan])
def test_a_time_that_never_comes_is_seen(when: float) -> None:
    """Timers are in order, and each of them ends."""
    queue: Queue[str] = Queue()
    queue.add_at("web", when)
    with pytest.raises(AssertionError, match="a deadline never comes"):
        queue.validate()


def test_a_deadline_without_a_timer_is_seen() -> None:
    """Whoever waits is woken."""
    queue: Queue[str] = Queue()
    queue.add_at("web", 5.0)
    queue._timers.clear()
    with pytest.raises(AssertionError, match="a deadline has no timer"):
        queue.validate()


def test_what_is_done_twice_is_seen() -> None:
    """No more ends than began, and no failure outlives its round."""
    queue: Queue[str] = Queue()
    queue.started("web", 1)
    queue._busy["web"] = 0
    with pytest.raises(AssertionError, match="nothing is under way"):
        queue.validate()
    queue.finished("other", ok=False, at=1.0)
    queue._busy.clear()
    queue._failed.add("web")
    with pytest.raises(AssertionError, match="it failed in a round that is over"):
        queue.validate()
