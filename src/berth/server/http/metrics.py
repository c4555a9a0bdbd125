"""Prometheus metrics, under the names kube-apiserver gives them where it has such a figure."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from berth.server.storage.store import Store

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class ServerMetrics:
    """Requests, open watches and the size of the store."""

    def __init__(self, store: Store) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = Counter(
            "apiserver_request",
            "Requests by verb, resource and status code.",
            ("verb", "resource", "code"),
            registry=self.registry,
        )
        self._duration = Histogram(
            "apiserver_request_duration_seconds",
            "Time to answer, watches excluded.",
            ("verb",),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.watchers = Gauge(
            "apiserver_longrunning_requests", "Watches that are open.", registry=self.registry
        )
        version = Gauge(
            "berth_store_resource_version", "The newest committed version.", registry=self.registry
        )
        version.set_function(lambda: store.rv)
        objects = Gauge("berth_store_objects", "Objects that are stored.", registry=self.registry)
        objects.set_function(lambda: sum(len(bucket.records) for bucket in store.buckets.values()))
        self._children: dict[tuple[str, str, int], Counter] = {}
        self._durations: dict[str, Histogram] = {}

    def observe(self, verb: str, resource: str, code: int, seconds: float | None) -> None:
        key = (verb, resource, code)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = self._requests.labels(verb, resource, str(code))
        child.inc()
        if seconds is not None:
            duration = self._durations.get(verb)
            if duration is None:
                duration = self._durations[verb] = self._duration.labels(verb)
            duration.observe(seconds)

    def render(self) -> bytes:
        return generate_latest(self.registry)
