"""Pods are counted by the domain of their node, whatever comes, goes and is relabelled."""

from __future__ import annotations

import random
from collections import Counter

from berth.eviction.planning import DomainCounts
from berth.kube.api_resources import NODES, PODS
from tests.support.builders import ZONE
from tests.support.scripts.eviction import EvictionScript


def test_every_count_is_that_of_counting_all() -> None:
    """After any changes: nodes that lose the label stay in their domain, unknown nodes are in none."""
    rng = random.Random(1)  # noqa: S311 - the same cases every time
    world = EvictionScript()
    domains = dict[str, str]()
    for number in range(600):
        pod, node = f"p{rng.randrange(40)}", f"n{rng.randrange(8)}"
        there = pod in world.names(PODS)
        chance = rng.random()
        if chance < 0.4 and not there:
            world.pod(pod, node)
        elif chance < 0.5 and there:
            world.delete(PODS, pod)
        elif chance < 0.65 and there:
            world.vanish(pod)
        elif chance < 0.7 and node in world.names(NODES):
            world.delete(NODES, node)
            domains.pop(node)
        elif chance < 0.9 and node not in world.names(NODES):
            zone = rng.choice(["a", "b"])
            world.labelled(node, zone)
            domains[node] = zone
        elif node in world.names(NODES):
            new = rng.choice(["a", "b", None])
            world.relabel(node, **{ZONE: new})
            domains[node] = new or domains[node]
        if number % 5 == 0:
            living = [item for item in world.all(PODS) if not item["metadata"].get("deletionTimestamp")]
            wanted = Counter(domains.get(item["spec"]["nodeName"], "") for item in living)
            assert +counts_of(world).running() == wanted


def counts_of(world: EvictionScript) -> DomainCounts:
    return world.machine._domains
