"""How much of a cluster a required anti-affinity rule may keep others out of."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.kube.affinity.anti_affinity import AntiAffinityLimit, excesses
from berth.kube.defaults import NAMESPACE_NAME_LABEL as NAME
from berth.kube.objects import (
    Affinity,
    LabelSelector,
    PodAffinity,
    PodAffinityTerm,
    WeightedPodAffinityTerm,
)
from berth.kube.selectors import label_requirement, parse_label_selector
from berth.kube.well_known import HOSTNAME
from tests.support.builders import ZONE
from tests.support.manifests.namespace_terms import ANY_NAMESPACE

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


def selecting(
    *expressions: tuple[str, str, list[str]], labels: dict[str, str] | None = None
) -> LabelSelector:
    found = [label_requirement(key, operator, *values) for key, operator, values in expressions]
    return LabelSelector(match_labels=labels, match_expressions=found)


@pytest.mark.parametrize(("where", "any_namespace"), ANY_NAMESPACE)
def test_what_is_against_all_namespaces(where: dict[str, Any], any_namespace: bool) -> None:
    """What a selector can match decides, not whether it is empty."""
    for key, beyond in ((ZONE, any_namespace), (HOSTNAME, False)):
        term = msgspec.convert({"topologyKey": key, "labelSelector": {}, **where}, PodAffinityTerm)
        rules = PodAffinity(required_during_scheduling_ignored_during_execution=[term])
        assert bool(paths(Affinity(pod_anti_affinity=rules))) is beyond


def test_the_message_says_which_selector_it_is() -> None:
    """Whoever wrote no empty selector is told what theirs matches."""
    ((_, told),) = excesses(rule(ZONE, selecting((NAME, "Exists", []))), "x")
    assert told.startswith(
        "required anti-affinity against pods of all namespaces "
        "(namespaceSelector kubernetes.io/metadata.name matches any) must have topologyKey "
    )
    ((_, told),) = excesses(rule(ZONE, EVERYONE), "x")
    assert "all namespaces (namespaceSelector: {}) must have topologyKey" in told


EXPRESSIONS = st.tuples(
    st.sampled_from((NAME, "team", "env")),
    st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")),
    st.lists(st.sampled_from("abc"), min_size=1, max_size=2),
)


@given(st.lists(EXPRESSIONS, max_size=3), st.dictionaries(st.sampled_from(("team", NAME)), st.just("a")))
def test_a_selector_that_matches_namespaces_it_knows_nothing_of_counts(
    expressions: list[tuple[str, str, list[str]]], labels: dict[str, str]
) -> None:
    """It is against all namespaces exactly if it matches two with no label but an arbitrary name."""
    chosen = [(k, o, values if o in ("In", "NotIn") else []) for k, o, values in expressions]
    selector = selecting(*chosen, labels=labels)
    parsed = parse_label_selector(selector)
    matched = [parsed.matches({NAME: name}) for name in ("one", "two")]
    assert bool(paths(rule(ZONE, selector))) is all(matched)
