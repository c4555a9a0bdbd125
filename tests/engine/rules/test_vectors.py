"""Vectors over nodes made of counts per domain."""

import random

import numpy as np
import pytest

from berth.engine.rules.vectors import OccupiedDomains
from berth.engine.state.classes import Counter
from berth.engine.state.cluster import Cluster
from berth.engine.state.columns import BLOCKED
from berth.kube.defaults import default_node
from tests.support.builders import HOSTNAME, ZONE, make_node

NODES = 8


def add_node(cluster: Cluster, number: int) -> None:
    labels = {HOSTNAME: f"n{number}", ZONE: f"z{number % 3}"}
    cluster.add_node(default_node(make_node(f"n{number}").labels(labels).build()))


def make_cluster() -> Cluster:
    cluster = Cluster(expected_nodes=2)
    for number in range(NODES):
        add_node(cluster, number)
    return cluster


def counters_of(cluster: Cluster, topology: str) -> list[Counter]:
    column = cluster.nodes.column(topology)
    return [Counter(column, column.capacity), Counter(column, column.capacity)]


def counted_afresh(cluster: Cluster, topology: str, counters: list[Counter]) -> list[int] | None:
    ids = cluster.nodes.column(topology).ids[: cluster.nodes.count]
    counts = sum(counter.counts[ids] for counter in counters)
    return np.where(counts, BLOCKED, 0).tolist() if np.any(counts) else None


@pytest.mark.parametrize("topology", [HOSTNAME, ZONE])
@pytest.mark.parametrize("seed", range(20))
def test_occupied_domains_are_those_that_a_count_from_scratch_finds(topology: str, seed: int) -> None:
    """However many pods came and went since it was last asked, and nodes in between."""
    chance = random.Random(seed)  # noqa: S311
    cluster = make_cluster()
    counters = counters_of(cluster, topology)
    occupied = OccupiedDomains(cluster.nodes, cluster.nodes.column(topology))
    for _ in range(60):
        for _ in range(chance.choice((0, 1, 1, 2, 5, 70, 140))):
            counter, slot = chance.choice(counters), chance.randrange(NODES)
            has_some = counter.counts[cluster.nodes.column(topology).ids[slot]] > 0
            counter.add(slot, -1 if has_some and chance.random() < 0.7 else 1)
        if chance.random() < 0.1:
            add_node(cluster, cluster.nodes.count)
        found = occupied.of(counters)
        assert counted_afresh(cluster, topology, counters) == (None if found is None else found.tolist())


def test_occupied_domains_stay_the_same_object_while_they_are_the_same() -> None:
    """A second pod on an occupied node changes nothing, and a pod on another one does."""
    cluster = make_cluster()
    counters = counters_of(cluster, HOSTNAME)
    occupied = OccupiedDomains(cluster.nodes, cluster.nodes.column(HOSTNAME))
    counters[0].add(3, 1)
    first = occupied.of(counters)
    counters[1].add(3, 1)
    assert occupied.of(counters) is first
    counters[1].add(4, 1)
    assert occupied.of(counters) is not first
