"""What every handler needs: the registry, the settings, the metrics, and whether the server is up.

Metrics have the names kube-apiserver gives them where it has such a figure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from berth.kube.quota.exclusive import ExclusiveDomains, Neighbours
from berth.server.http.workers import Workers
from berth.server.registry.kinds import strategies_of, strategy_of_custom
from berth.server.registry.strategy import Credentials, Registry
from berth.server.settings import ServerSettings
from berth.server.storage.store import Store

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class _Requests(Collector):
    """Answered requests. All are counted in one thread: the library's own counters, with locks, are dear."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, int]] = Counter()
        self._spans: dict[str, list[int]] = defaultdict(lambda: [0] * (len(_BUCKETS) + 1))
        self._seconds: dict[str, float] = defaultdict(float)

    def observe(self, verb: str, resource: str, code: int, seconds: float | None) -> None:
        self._counts[verb, resource, code] += 1
        if seconds is not None:
            self._spans[verb][bisect_left(_BUCKETS, seconds)] += 1
            self._seconds[verb] += seconds

    def collect(self) -> Iterator[Metric]:
        text = "Requests by verb, resource and status code."
        counts = CounterMetricFamily("apiserver_request", text, labels=("verb", "resource", "code"))
        for (verb, resource, code), count in self._counts.items():
            counts.add_metric((verb, resource, str(code)), count)
        yield counts
        text = "Time to answer, watches excluded."
        spans = HistogramMetricFamily("apiserver_request_duration_seconds", text, labels=("verb",))
        for verb, found in self._spans.items():
            totals = zip((*map(str, _BUCKETS), "+Inf"), accumulate(found), strict=True)
            spans.add_metric((verb,), list(totals), self._seconds[verb])
        yield spans


class ServerMetrics:
    """Requests, open watches and the size of the store."""

    def __init__(self, store: Store) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        requests = _Requests()
        self.registry.register(requests)
        self.observe = requests.observe
        self.watchers = Gauge(
            "apiserver_longrunning_requests", "Watches that are open.", registry=self.registry
        )
        version = Gauge(
            "berth_store_resource_version", "The newest committed version.", registry=self.registry
        )
        version.set_function(lambda: store.rv)
        objects = Gauge("berth_store_objects", "Objects that are stored.", registry=self.registry)
        objects.set_function(lambda: sum(len(bucket.records) for bucket in store.buckets.values()))

    def render(self) -> bytes:
        return generate_latest(self.registry)


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
        converted={each.resource.name: each.converted for each in kept if each.converts},
        history_bytes=settings.history_bytes,
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
