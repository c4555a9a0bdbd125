"""What is counted of evictions for affinity."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from berth.eviction.records import NODE_KIND, POD_KIND, SPREAD_KIND
from berth.eviction.safety import EvictionHalts
from berth.eviction.state import EvictionState

_SECONDS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
# For each kind the names of its counters, and what pods of it are evicted for.
_BY_KIND = (
    (NODE_KIND, "evictions_node_affinity", "pod_failed_eviction_node_affinity", "a node rule"),
    (POD_KIND, "evictions_pod_affinity", "pod_failed_eviction_pod_affinity", "a rule about other pods"),
    (SPREAD_KIND, "evictions_rebalancing", "pod_failed_eviction_rebalancing", "a better place"),
)
# Pods that are told apart by failures; beyond that the one that failed longest ago is left out.
MOST_PODS = 1000


class Failures:
    """A counter by pod that does not grow for ever."""

    def __init__(self, name: str, text: str, registry: CollectorRegistry) -> None:
        self._counter = Counter(name, text, ("pod", "namespace"), registry=registry)
        self._pods: OrderedDict[tuple[str, str], None] = OrderedDict()

    def inc(self, pod: str, namespace: str) -> None:
        labels = (pod, namespace)
        self._pods[labels] = None
        self._pods.move_to_end(labels)
        self._counter.labels(*labels).inc()
        if len(self._pods) > MOST_PODS:
            self._counter.remove(*self._pods.popitem(last=False)[0])


class EvictionMetrics:
    """Written by the controller, read by whoever serves the registry."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.evictions: dict[str, Counter] = {}
        self.failures: dict[str, Failures] = {}
        for kind, evicted, failed, what in _BY_KIND:
            self.evictions[kind] = self._counter(evicted, f"Pods evicted for {what}.")
            text = f"Evictions for {what} that were refused or failed, by pod."
            self.failures[kind] = Failures(failed, text, self.registry)
        self.seconds = Histogram(
            "affinity_violation_eviction_duration_seconds",
            "From the time a rule was seen broken to the eviction.",
            ("kind",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.would = Counter(
            "affinity_evictions_dry_run",
            "Pods that would have been evicted, in a dry run.",
            ("kind",),
            registry=self.registry,
        )
        self.returns = self._counter(
            "affinity_eviction_returns", "Replacements that came back to a place where they break a rule."
        )

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(name, text, registry=self.registry)


class EvictionStateCollector(Collector):
    """What the controller knows anyway, read when it is asked for.

    Args:
        state: What is known of every pod.
        halts: Where nobody goes for now.
        waiting: How many wait, by what for.
        controllers: Which controllers run.
    """

    def __init__(
        self,
        state: EvictionState,
        halts: EvictionHalts,
        waiting: Callable[[], Mapping[str, int]],
        controllers: Mapping[str, bool],
    ) -> None:
        self._state = state
        self._halts = halts
        self._waiting = waiting
        self._controllers = controllers

    def collect(self) -> Iterator[GaugeMetricFamily]:
        running = "Whether a controller runs, under kube-controller-manager's name for this."
        yield _gauge("running_managed_controllers", running, "name", self._controllers)
        broken = "Execution-time rules that are broken now, by kind."
        yield _gauge("affinity_violations", broken, "kind", self._state.violations.counts)
        halted = "Domains where too many pods would go at once, and their share; * is the cluster."
        halts = self._halts.halts
        shares = {domain: halt.share for domain, halt in halts.items()}
        yield _gauge("affinity_evictions_halted", halted, "domain", shares)
        moving = "Pods of a halted domain that have a place and go one by one."
        numbers = {domain: halt.moving for domain, halt in halts.items()}
        yield _gauge("affinity_evictions_one_by_one", moving, "domain", numbers)
        staying = (
            "Pods of a halted domain that stay: no node would take their replacement, or nobody makes one."
        )
        numbers = {domain: halt.staying for domain, halt in halts.items()}
        yield _gauge("affinity_evictions_without_place", staying, "domain", numbers)
        waiting = "Pods that have to go and wait, by what for."
        yield _gauge("affinity_evictions_waiting", waiting, "reason", self._waiting())
        invalid = "Running pods whose annotation is not valid, so that its rules are not enforced."
        number = sum(bool(record.invalid) for record in self._state.records.values())
        yield GaugeMetricFamily("affinity_invalid_annotations", invalid, value=number)


def _gauge(name: str, text: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=(label,))
    for value, number in sorted(values.items()):
        family.add_metric((value,), number)
    return family
