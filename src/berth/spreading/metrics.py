"""What is counted of keeping groups spread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from berth.engine.rules.verdicts import ConstraintCounts
from berth.kube.objects import Key
from berth.spreading.rebalancing import Rebalancer


class SpreadingMetrics:
    """Written by the machine, read by whoever serves the registry."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.written = Counter(
            "berth_deletion_costs_written", "Deletion costs given to pods.", registry=self.registry
        )
        self.failed = Counter(
            "berth_deletion_costs_failed", "Deletion costs that could not be written.", registry=self.registry
        )


class SpreadingStateCollector(Collector):
    """What the machine knows anyway, read when it is asked for."""

    def __init__(self, skews: Mapping[Key, Sequence[ConstraintCounts]], rebalancer: Rebalancer) -> None:
        self._skews = skews
        self._rebalancer = rebalancer

    def collect(self) -> Iterator[Metric]:
        text = "How far the fullest domain lies above the emptiest, by ReplicaSet and spread constraint."
        labels = ("namespace", "replicaset", "topology_key", "when_unsatisfiable", "max_skew")
        skew = GaugeMetricFamily("berth_spread_skew", text, labels=labels)
        for (namespace, name), counted in list(self._skews.items()):
            for key, action, most, value in dict.fromkeys(
                (each.topology_key, each.when_unsatisfiable, str(each.max_skew), each.skew)
                for each in counted
            ):
                skew.add_metric((namespace, name, key, action, most), value)
        yield skew
        standings = list(self._rebalancer.standings.values())
        planned = "Pods that would be better off elsewhere, of workloads that may be moved."
        yield GaugeMetricFamily(
            "berth_rebalance_planned_moves", planned, value=sum(each.planned for each in standings)
        )
        done = CounterMetricFamily("berth_rebalance_moves", "Moves whose replacement landed better.")
        done.add_metric((), self._rebalancer.done)
        yield done
        refused = CounterMetricFamily(
            "berth_rebalance_refusals", "Uneven groups that were not moved, by reason.", labels=("reason",)
        )
        for reason, number in sorted(self._rebalancer.refusals.items()):
            refused.add_metric((reason,), number)
        yield refused
