"""Counters and histograms of one thread, for what happens at every placement or request.

prometheus_client's own take a lock a bucket, and longer to find a child by its labels than to count; these
add to a number.  They are collectors of its registry, so whoever reads it notices no difference.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

_T = TypeVar("_T")


def process_registry() -> CollectorRegistry:
    """A registry of metrics that tells of this process already."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return registry


class Count:
    """How often something happened."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def inc(self) -> None:
        self.value += 1


class Distribution:
    """How many observations there were up to each bound, and their sum."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)  # the last is what is beyond all bounds
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value


class LabelledMetric(Generic[_T]):
    """One number, or one for every combination of labels that was asked for."""

    def __init__(self, name: str, label_names: tuple[str, ...], make: Callable[[], _T]) -> None:
        self.name = name
        self.label_names = label_names
        self._make = make
        self._children: dict[tuple[str, ...], _T] = {} if label_names else {(): make()}

    def labels(self, *values: str) -> _T:
        found = self._children.get(values)
        if found is None:
            if len(values) != len(self.label_names):
                raise ValueError(f"the labels are {self.label_names}, not {len(values)} values")
            found = self._children[values] = self._make()
        return found


class CounterMetric(LabelledMetric[Count], Collector):
    def __init__(
        self, name: str, text: str, labels: tuple[str, ...] = (), *, registry: CollectorRegistry
    ) -> None:
        super().__init__(name, labels, Count)
        self._text = text
        registry.register(self)

    def inc(self) -> None:
        """Count one more, where there are no labels."""
        self._children[()].value += 1

    def collect(self) -> Iterator[CounterMetricFamily]:
        family = CounterMetricFamily(self.name, self._text, labels=self.label_names)
        for values, count in self._children.items():
            family.add_metric(values, count.value)
        yield family


class HistogramMetric(LabelledMetric[Distribution], Collector):
    def __init__(
        self,
        name: str,
        text: str,
        labels: tuple[str, ...] = (),
        *,
        buckets: tuple[float, ...],
        registry: CollectorRegistry,
    ) -> None:
        super().__init__(name, labels, lambda: Distribution(buckets))
        self._text = text
        self._bounds = [*map(floatToGoString, buckets), "+Inf"]
        registry.register(self)

    def observe(self, value: float) -> None:
        """Take a value in, where there are no labels."""
        self._children[()].observe(value)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        family = HistogramMetricFamily(self.name, self._text, labels=self.label_names)
        for values, found in self._children.items():
            buckets = list(zip(self._bounds, accumulate(found.counts), strict=True))
            family.add_metric(values, buckets, found.total)
        yield family
