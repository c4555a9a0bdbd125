"""Counters and histograms of one thread read like prometheus_client's own."""

from __future__ import annotations

import prometheus_client
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from berth.metrics import CounterMetric, HistogramMetric

_BUCKETS = (0.00001, 0.001, 0.5, 1.0, 20.0)
_VALUES = (0.0, 0.001, 0.0010001, 0.75, 1.0, 19.9, 20.1, 1e9)


def served(counter: type, histogram: type) -> list[str]:
    """What is served after the same was counted; without the times of creation, which Go's clients lack."""
    registry = CollectorRegistry()
    attempts = counter("attempts", "Attempts.", ("result", "profile"), registry=registry)
    attempts.labels("scheduled", "berth").inc()
    attempts.labels("scheduled", "berth").inc()
    attempts.labels("error", 'a "quoted" name').inc()
    counter("plain", "Without labels.", registry=registry).inc()
    counter("never", "Never counted.", registry=registry)
    seconds = histogram("seconds", "By label.", ("attempts",), buckets=_BUCKETS, registry=registry)
    whole = histogram("whole", "Without labels.", buckets=_BUCKETS, registry=registry)
    for value in _VALUES:
        seconds.labels("1").observe(value)
        whole.observe(value)
    lines = generate_latest(registry).decode().splitlines()
    return [line for line in lines if "_created" not in line]


def test_whoever_reads_the_registry_notices_no_difference() -> None:
    """Names, labels, buckets, sums and numbers are the same, to the letter."""
    assert served(CounterMetric, HistogramMetric) == served(
        prometheus_client.Counter, prometheus_client.Histogram
    )


def test_as_many_labels_as_there_are_names() -> None:
    """A label too few or too many is a mistake of ours, and is told."""
    counter = CounterMetric("attempts", "Attempts.", ("result",), registry=CollectorRegistry())
    with pytest.raises(ValueError, match=r"the labels are \('result',\), not 2 values"):
        counter.labels("scheduled", "berth")
