"""How much of a cluster a required anti-affinity rule may keep others out of."""

from __future__ import annotations

import pytest

from berth.kube.affinity.anti_affinity import AntiAffinityLimit, excesses
from berth.kube.objects import (
    Affinity,
    LabelSelector,
    PodAffinity,
    PodAffinityTerm,
    WeightedPodAffinityTerm,
)
from berth.kube.well_known import HOSTNAME

ZONE = "topology.kubernetes.io/zone"
EVERYONE, TEAM = LabelSelector(), LabelSelector(match_labels={"team": "a"})


def rule(key: str | None = ZONE, namespaces: LabelSelector | None = None) -> Affinity:
    term = PodAffinityTerm(topology_key=key, label_selector=LabelSelector(), namespace_selector=namespaces)
    return Affinity(pod_anti_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=[term]))


def paths(affinity: Affinity | None, **limit: object) -> list[str]:
    return [path for path, _ in excesses(affinity, "spec.affinity", AntiAffinityLimit(**limit))]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("affinity", "all_namespaces", "every_rule"),
    [
        (rule(ZONE, EVERYONE), True, True),
        (rule(None, EVERYONE), True, True),
        (rule(ZONE, TEAM), False, True),
        (rule(ZONE), False, True),
        (rule(HOSTNAME, EVERYONE), False, False),
        (rule(HOSTNAME), False, False),
        (Affinity(), False, False),
        (None, False, False),
    ],
)
def test_what_is_beyond_the_limit(affinity: Affinity | None, all_namespaces: bool, every_rule: bool) -> None:
    """Rules against all namespaces that are not per node; or every rule that is not."""
    assert bool(paths(affinity)) is all_namespaces
    assert bool(paths(affinity, every_rule=True)) is every_rule


def test_keys_can_be_allowed() -> None:
    """Further topology keys can be allowed, and the message lists them."""
    assert paths(rule(ZONE, EVERYONE), topology_keys=(HOSTNAME, ZONE), every_rule=True) == []
    ((_, detail),) = excesses(rule("rack", EVERYONE), "x", AntiAffinityLimit(topology_keys=(HOSTNAME, ZONE)))
    assert f'must have topologyKey "{HOSTNAME}" or "{ZONE}", not "rack"' in detail


def test_both_required_lists_count_and_preferences_do_not() -> None:
    """Both required lists are limited; preferences and affinity are not."""
    term = PodAffinityTerm(topology_key=ZONE, namespace_selector=EVERYONE)
    rules = PodAffinity(
        required_during_scheduling_required_during_execution=[term],
        required_during_scheduling_ignored_during_execution=[PodAffinityTerm(topology_key=HOSTNAME), term],
        preferred_during_scheduling_ignored_during_execution=[
            WeightedPodAffinityTerm(weight=1, pod_affinity_term=term)
        ],
    )
    assert paths(Affinity(pod_affinity=rules)) == []
    assert paths(Affinity(pod_anti_affinity=rules)) == [
        "spec.affinity.podAntiAffinity.requiredDuringSchedulingRequiredDuringExecution[0]",
        "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[1]",
    ]
