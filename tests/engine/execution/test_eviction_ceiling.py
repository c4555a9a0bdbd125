"""When too many pods would go at once."""

from __future__ import annotations

import pytest

from berth.engine.execution.eviction_ceiling import (
    CLUSTER,
    Ceiling,
    Halt,
    measured,
    released_domains,
    stopping,
)

RUNNING = {"a": 10, "b": 10, "": 20}


def halted(going: dict[str, int], *released: str) -> set[str]:
    return set(Ceiling().exceeded(measured(going, RUNNING), released))


@pytest.mark.parametrize(
    ("going", "domains"),
    [
        ({}, set()),
        ({"a": 5, "b": 5}, set()),
        ({"a": 6}, {"a"}),
        ({"a": 6, "b": 6}, {"a", "b"}),
        ({"a": 10, "b": 10, "": 3}, {"a", "b", CLUSTER}),
        ({"": 20}, set()),
        ({"": 20, "a": 5}, {CLUSTER}),
    ],
)
def test_more_than_the_share(going: dict[str, int], domains: set[str]) -> None:
    """Of a domain or of the cluster; nodes without a domain count for the cluster only."""
    assert halted(going) == domains


def test_so_few_are_never_too_many() -> None:
    """No domain is halted for as many pods as halt_above allows."""
    assert Ceiling(halt_above=6).exceeded(measured({"a": 6}, RUNNING)) == {}


def test_those_that_have_just_gone_count() -> None:
    """Pods that have just been evicted count for the share, and the halt says so."""
    found = Ceiling().exceeded(measured({"a": 2}, {"a": 6}, {"a": 4}))
    assert found["a"] == Halt("a", 6, 10)
    assert str(found["a"]) == "6 of 10 pods (60%) would have to go"


def test_a_person_can_release_a_domain_or_all() -> None:
    """Released domains are not halted, nor is anything after a release of all."""
    going = {"a": 10, "b": 10, "": 3}
    assert halted(going, *released_domains(" a , b,")) == {CLUSTER}
    assert halted(going, "*") == set()
    assert released_domains(None) == frozenset()


def test_the_cluster_stops_every_domain() -> None:
    """A halt of the cluster stops every domain; a halt of one stops only itself."""
    cluster, zone = Halt(CLUSTER, 30, 40), Halt("a", 9, 10)
    assert stopping({"a": zone}, "a") is zone
    assert stopping({"a": zone}, "b") is None
    assert stopping({CLUSTER: cluster, "a": zone}, "a") is cluster
