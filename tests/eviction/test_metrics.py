"""Counters by pod stay within bounds."""

from __future__ import annotations

from berth.eviction import EvictionMetrics
from berth.eviction.metrics import MOST_PODS
from berth.eviction.records import NODE_KIND


def test_the_pods_that_failed_last_are_told_apart() -> None:
    """The one that failed longest ago is left out when there are too many."""
    metrics = EvictionMetrics()
    failures = metrics.failures[NODE_KIND]
    for number in range(MOST_PODS):
        failures.inc(f"p{number}", "default")
    failures.inc("p0", "default")
    failures.inc("new", "default")

    def value(pod: str) -> float | None:
        labels = {"pod": pod, "namespace": "default"}
        return metrics.registry.get_sample_value("pod_failed_eviction_node_affinity_total", labels)

    assert (value("p0"), value("p1"), value("p2"), value("new")) == (2, None, 1, 1)
