"""Vectors over nodes made of counts per domain."""

import random

import numpy as np
import pytest

from berth.engine.rules.vectors import BlockedDomains, FeasibleDomains, OccupiedDomains
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
    """However many pods and nodes came and went meanwhile, the domains are those of a new count."""
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


@pytest.mark.parametrize("topology", [HOSTNAME, ZONE])
@pytest.mark.parametrize("seed", range(20))
def test_feasible_domains_are_those_that_a_look_at_all_nodes_finds(topology: str, seed: int) -> None:
    """However many nodes were refused or freed meanwhile, the domains are those of a look at all."""
    chance = random.Random(seed)  # noqa: S311
    cluster = make_cluster()
    for number in range(NODES, 40):
        add_node(cluster, number)
    domains = FeasibleDomains(cluster.nodes, cluster.nodes.column(topology))
    blocked = np.zeros(cluster.nodes.count, dtype=np.int32)
    for _ in range(60):
        for _ in range(chance.choice((0, 1, 1, 2, 5, 30))):
            # Whatever is not 0 is refused: a plan's vector and one that others refuse may be put together.
            blocked[chance.randrange(len(blocked))] = chance.choice((0, 0, BLOCKED, 2 * BLOCKED - 1))
        if chance.random() < 0.1:
            add_node(cluster, cluster.nodes.count)
            blocked = np.append(blocked, np.int32(0))
        column = cluster.nodes.column(topology)
        counts = np.bincount(column.ids[: len(blocked)][blocked == 0], minlength=column.capacity)
        asked = blocked.copy()
        asked.flags.writeable = chance.random() < 0.5
        assert domains.of(asked).tolist() == (counts > 0).tolist()
        assert domains.counts(asked).tolist() == counts.tolist()


def test_blocked_domains_stay_the_same_object_while_they_and_the_nodes_are_the_same() -> None:
    """Equal domains are enough; another domain, or a node that came, makes another vector."""
    cluster = make_cluster()
    column = cluster.nodes.column(ZONE)
    blocked = BlockedDomains(cluster.nodes, column)
    full = np.zeros(column.capacity, dtype=np.bool_)
    full[column.id_of("z1")] = True
    first = blocked.of(full)
    assert first.tolist() == [BLOCKED if number % 3 == 1 else 0 for number in range(NODES)]
    assert blocked.of(full.copy()) is first
    full[column.id_of("z1")], full[column.id_of("z2")] = False, True
    second = blocked.of(full)
    assert second is not first
    assert second.tolist() == [BLOCKED if number % 3 == 2 else 0 for number in range(NODES)]
    add_node(cluster, NODES)
    assert blocked.of(full).tolist() == [BLOCKED if number % 3 == 2 else 0 for number in range(NODES + 1)]


@pytest.mark.parametrize("seed", range(10))
def test_a_counter_says_the_same_whenever_it_is_asked(seed: int) -> None:
    """Pods and nodes that came before anybody asked count like those that come afterwards."""
    chance = random.Random(seed)  # noqa: S311
    cluster = make_cluster()
    late, always = counters_of(cluster, HOSTNAME)
    for _ in range(40):
        slot, weight = chance.randrange(cluster.nodes.count), chance.choice((-1, 1, 1, 5))
        for counter in (late, always):
            counter.add(slot, weight)
        if chance.random() < 0.2:
            add_node(cluster, cluster.nodes.count)
        assert len(always.counts) == cluster.nodes.column(HOSTNAME).capacity
    assert late.counts.tolist() == always.counts.tolist()
    for counter in (late, always):
        counter.add(3, 7)
    assert late.counts.tolist() == always.counts.tolist()
    assert late.total == always.total == late.counts.sum()
