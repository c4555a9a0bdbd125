"""Pods are counted by the domain of their node, whatever comes, goes and is relabelled."""

from __future__ import annotations

import random
from collections import Counter

from berth.eviction.census import Census


def test_every_count_is_that_of_counting_all() -> None:
    """After any number of changes between two questions."""
    rng = random.Random(1)  # noqa: S311
    census, pods, domains = Census(), dict[str, str](), dict[str, str]()
    for _ in range(2_000):
        pod, node = f"p{rng.randrange(40)}", f"n{rng.randrange(8)}"
        if rng.random() < 0.4:
            census.put(pod, node, immovable=False)
            pods[pod] = node
        elif rng.random() < 0.5:
            census.drop(pod)
            pods.pop(pod, None)
        else:
            census.moved(node)
            domains[node] = rng.choice(["a", "b", ""])
        if rng.random() < 0.3:
            wanted = Counter(domains.get(node, "") for node in pods.values())
            running = census.running(lambda node: domains.get(node, ""))
            assert {domain: count for domain, count in running.items() if count} == wanted


def test_a_pod_of_the_same_name_may_be_another() -> None:
    """A static pod is immovable, and its successor need not be."""
    census = Census()
    census.put("a/p", "n", immovable=True)
    assert census.immovable == {"a/p"}
    census.put("a/p", "n", immovable=False)
    assert census.immovable == set()
    census.put("a/p", "m", immovable=True)
    census.drop("a/p")
    assert census.immovable == set()
    assert not +Counter(census.running(lambda _: "a"))
