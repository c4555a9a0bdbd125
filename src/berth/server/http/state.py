"""What every handler needs: the registry, the settings, the metrics, threads, and whether the server is up.

Metrics have the names kube-apiserver gives them where it has such a figure.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector

from berth.kube.quota.exclusive import ExclusiveDomains, Neighbours
from berth.kube.schema import budget
from berth.metrics import CounterMetric, HistogramMetric
from berth.server import errors
from berth.server.registry.kinds import strategies_of, strategy_of_custom
from berth.server.registry.strategy import Credentials, Registry
from berth.server.registry.writes import OvertakenError, Write
from berth.server.settings import ServerSettings
from berth.server.storage.store import Store

_T = TypeVar("_T")

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_LIGHT = 32 * 1024  # bytes that are looked at in no time
_THREADS = 2
_AT_ONCE = 0.05  # seconds of work that others are kept waiting for
_LARGE = 1.0  # seconds of work that only those of large requests are
_PATIENCE = 34.0  # seconds until a request is given up; upstream: requestTimeoutUpperBound
_TRIES = 5


class ServerMetrics:
    """Requests, open watches and the size of the store."""

    def __init__(self, store: Store) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        text = "Requests by verb, resource and status code."
        labels = ("verb", "resource", "code")
        self._requests = CounterMetric("apiserver_request", text, labels, registry=registry)
        self._seconds = HistogramMetric(
            "apiserver_request_duration_seconds",
            "Time to answer, watches excluded.",
            ("verb",),
            buckets=_BUCKETS,
            registry=registry,
        )
        self.watchers = Gauge("apiserver_longrunning_requests", "Watches that are open.", registry=registry)
        version = Gauge("berth_store_resource_version", "The newest committed version.", registry=registry)
        version.set_function(lambda: store.rv)
        objects = Gauge("berth_store_objects", "Objects that are stored.", registry=registry)
        objects.set_function(lambda: sum(len(bucket.records) for bucket in store.buckets.values()))

    def observe(self, verb: str, resource: str, code: int, seconds: float | None) -> None:
        self._requests.labels(verb, resource, str(code)).inc()
        if seconds is not None:
            self._seconds.labels(verb).observe(seconds)


class Workers:
    """The threads for what would keep the event loop: requests that are large, or hard to judge.

    Everything between reading a body and proposing the write is synchronous.  For most requests that takes
    less than a millisecond and is done at once.  What may take longer is done in one of a few threads, with
    the loop answering others meanwhile; only the proposal itself is made in the loop (`Store.in_turn`), where
    it is refused if another write came first, and then everything is done again.

    How long it takes cannot always be told from the size.  So what is done at once, or in the threads for
    what is large, is given up after a while (:mod:`berth.kube.schema.budget`) and done again where it keeps
    nobody else waiting; and there until kube-apiserver would have given it up.
    """

    def __init__(self) -> None:
        self._large = ThreadPoolExecutor(_THREADS, thread_name_prefix="berth-worker")
        self._endless = ThreadPoolExecutor(1, thread_name_prefix="berth-patient-worker")

    async def run(self, size: int, work: Callable[[], _T]) -> _T:
        """Do what takes time by `size` bytes, perhaps several times; 504 if it takes too long."""
        end = time.monotonic() + _PATIENCE
        with contextlib.suppress(budget.BudgetError):
            if size < _LIGHT:
                return _within(_AT_ONCE, work)
        with contextlib.suppress(budget.BudgetError):
            return await _by(end, self._large, lambda: _within(_LARGE, work))
        with contextlib.suppress(budget.BudgetError):
            return await _by(end, self._endless, lambda: _until(end, work))
        raise errors.timeout()

    async def write(self, size: int, propose: Callable[[], Write]) -> Write:
        """The same for what proposes a write, called again if another came first; 409 if always one does."""
        for _ in range(_TRIES):
            try:
                return await self.run(size, propose)
            except OvertakenError:
                continue
        raise errors.StatusError(409, "Conflict", errors.MODIFIED)

    def close(self) -> None:
        for pool in (self._large, self._endless):
            pool.shutdown(wait=False, cancel_futures=True)


async def _by(end: float, pool: ThreadPoolExecutor, work: Callable[[], _T]) -> _T:
    """What a thread finds out until then, or 504: nobody waits longer, though work may go on without them."""
    later = asyncio.get_running_loop().run_in_executor(pool, work)
    try:
        return await asyncio.wait_for(later, max(0, end - time.monotonic()))
    except TimeoutError:
        raise errors.timeout() from None


def _within(seconds: float, work: Callable[[], _T]) -> _T:
    """Do something that may keep a processor so long.

    The clock of a thread costs a call of the system. It is not read before somebody asks: no more was spent
    until then than has passed by the other clock.
    """
    started, end = time.perf_counter(), 0.0

    def spent() -> bool:
        nonlocal end
        end = end or time.thread_time() + seconds - (time.perf_counter() - started)
        return time.thread_time() > end

    with budget.limited(spent):
        return work()


def _until(end: float, work: Callable[[], _T]) -> _T:
    with budget.limited(lambda: time.monotonic() > end):
        return work()


@dataclass(slots=True)
class ServerState:
    """One running server."""

    settings: ServerSettings
    registry: Registry
    metrics: ServerMetrics
    workers: Workers
    ready: bool = False
    stopping: bool = False


def open_store(settings: ServerSettings) -> Store:
    """The data directory's store; from here on no other server can have it."""
    kept = [each for each in strategies_of(settings.version) if each.stored_as is None]
    return Store(
        settings.data_dir,
        event_limit=settings.event_limit,
        fields={each.resource.name: each.fields for each in kept},
        converted={each.resource.name: each.converted for each in kept if each.converted is not None},
    )


def make_state(settings: ServerSettings, store: Store, credentials: Credentials) -> ServerState:
    strategies = strategies_of(settings.version)
    registry = Registry(
        store,
        strategies,
        strategy_of_custom,
        gates=settings.gates,
        credentials=credentials,
        policy=settings.policy,
        exclusive=ExclusiveDomains(settings.exclusive_charge, Neighbours(settings.daemon_namespaces)),
    )
    return ServerState(settings, registry, ServerMetrics(store), Workers())
