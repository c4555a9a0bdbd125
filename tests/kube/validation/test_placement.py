"""Placements and policies: Karmada's messages for its own rules, and equal strictness for the proposal's."""

from __future__ import annotations

from typing import Any

import pytest

from berth.kube.karmada import Placement, PropagationPolicy
from berth.kube.text.decoding import convert
from berth.kube.validation import placement as rules
from berth.kube.validation.errors import WEIGHT_RANGE
from berth.kube.validation.placement import validate_placement, validate_policy
from tests.kube import written
from tests.support.builders import PREFERRED, REQUIRED

ENABLED = f"{REQUIRED}: [{{affinityEnabled: true}}]"
KEY_RULE = "name part must consist of alphanumeric characters"


def errors(text: str) -> list[tuple[str, str]]:
    """Field and detail of everything wrong with a placement written in YAML."""
    found = validate_placement(written.view(Placement, f"{{{text}}}"))
    return [(error.field, error.detail) for error in found]


def only(text: str) -> tuple[str, str]:
    (found,) = errors(text)
    return found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "workloadAffinity: {}",
        "clusterAffinity: {exclude: [m1], fieldSelector: {matchExpressions: [{key: zone, operator: In}]}}",
        "clusterAffinities: [{affinityName: a}, {affinityName: b}]",
        "spreadConstraints: [{spreadByField: cluster, minGroups: 1}, {spreadByField: region, maxGroups: 2}]",
        "spreadConstraints: [{spreadByLabel: rack}]",
        "workloadAffinity: {affinity: {groupByLabelKey: a}, antiAffinity: {groupByLabelKey: b}}",
        f"workloadAffinity: {{{ENABLED}}}, workloadAntiAffinity: {{{ENABLED}}}",
        # Without a selector a term selects nothing, which is of no use but no contradiction.
        f"workloadAntiAffinity: {{{REQUIRED}: [{{matchLabelKeys: [a]}}]}}",
        f"workloadAntiAffinity: {{{REQUIRED}: [{{topologyKey: topology.karmada.io/zone}}]}}",
        f"workloadAntiAffinity: {{{REQUIRED}: [{{namespaces: [shop], namespaceSelector: {{}}}}]}}",
        "clusterTolerations: [{key: a, operator: Exists}]",
    ],
)
def test_what_is_fine(text: str) -> None:
    """Every part of a placement in a form that is accepted."""
    assert errors(text) == []


OVERFLOWING = "clusterAffinities: [{affinityName: a, clusterNames: [m1], overflowAffinities: [%s]}]"
AGGREGATED = "replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}"


@pytest.mark.parametrize(
    ("text", "field", "detail"),
    [
        ("clusterAffinity: {}, clusterAffinities: []", "", rules.TWO_AFFINITIES),
        (
            "clusterAffinity: {fieldSelector: {matchExpressions: [{key: city, operator: In}]}}",
            "clusterAffinity.fieldSelector",
            'unsupported key "city", must be provider, region, or zone',
        ),
        (
            "clusterAffinity: {fieldSelector: {matchExpressions: [{key: zone, operator: Exists}]}}",
            "clusterAffinity.fieldSelector",
            'unsupported operator "Exists", must be In or NotIn',
        ),
        ("clusterAffinities: [{affinityName: a}, {affinityName: a}]", "clusterAffinities", rules.SAME_NAME),
        (
            OVERFLOWING % "{affinityName: b}",
            "clusterAffinities[0].overflowAffinities",
            rules.OVERFLOW_NEEDS_CAPACITY,
        ),
        (
            f"{OVERFLOWING.replace('m1', '') % '{affinityName: b}'}, {AGGREGATED}",
            "clusterAffinities[0].overflowAffinities",
            rules.OVERFLOW_NEEDS_AFFINITY,
        ),
        (
            f"{OVERFLOWING % '{affinityName: a}'}, {AGGREGATED}",
            "clusterAffinities[0].overflowAffinities[0].affinityName",
            rules.SAME_OVERFLOW_NAME,
        ),
        (
            "spreadConstraints: [{spreadByField: cluster, spreadByLabel: rack}]",
            "spreadConstraints[0]",
            rules.TWO_SPREADS,
        ),
        (
            "spreadConstraints: [{spreadByField: cluster, maxGroups: 1, minGroups: 2}]",
            "spreadConstraints[0]",
            "maxGroups lower than minGroups is not allowed",
        ),
        (
            "spreadConstraints: [{spreadByLabel: rack, minGroups: -1}]",
            "spreadConstraints[0]",
            "minGroups lower than 0 is not allowed",
        ),
        (
            "spreadConstraints: [{spreadByLabel: rack, maxGroups: -1}]",
            "spreadConstraints[0]",
            "maxGroups lower than 0 is not allowed",
        ),
        (
            f"spreadConstraints: [{', '.join(['{spreadByField: cluster}'] * 3)}]",
            "spreadConstraints",
            "multiple cluster spread constraints are not allowed",
        ),
        ("spreadConstraints: [{spreadByField: region}]", "spreadConstraints", rules.NO_CLUSTER_SPREAD),
        (
            "clusterTolerations: [{key: a, operator: Gt}]",
            "clusterTolerations[0].operator",
            'supported values: "", "Exists", "Equal"',
        ),
        (
            "workloadAffinity: {affinity: {groupByLabelKey: a}, antiAffinity: {groupByLabelKey: a}}",
            "workloadAffinity",
            rules.SAME_GROUP_KEY,
        ),
    ],
)
def test_karmadas_own_rules(text: str, field: str, detail: str) -> None:
    """Field paths and messages are those of Karmada's webhook."""
    assert only(text) == (f"spec.placement.{field}".rstrip("."), detail)


@pytest.mark.parametrize("side", ["affinity", "antiAffinity"])
@pytest.mark.parametrize("key", ["a b", "/a", "'-'"])
def test_a_group_key_is_a_label_key(side: str, key: str) -> None:
    """As upstream, whichever of the two it is."""
    found = errors(f"workloadAffinity: {{{side}: {{groupByLabelKey: {key}}}}}")
    assert {field for field, _ in found} == {f"spec.placement.workloadAffinity.{side}.groupByLabelKey"}


@pytest.mark.parametrize("side", ["workloadAffinity", "workloadAntiAffinity"])
@pytest.mark.parametrize(
    ("term", "field", "detail"),
    [
        ("labelSelector: {matchLabels: {a b: x}}", "labelSelector.matchLabels", KEY_RULE),
        (
            "labelSelector: {matchExpressions: [{key: a, operator: Is}]}",
            "labelSelector.matchExpressions[0].operator",
            "not a valid selector operator",
        ),
        ("labelSelector: {}, matchLabelKeys: [a b]", "matchLabelKeys[0]", KEY_RULE),
        ("labelSelector: {}, matchLabelKeys: [a, a]", "matchLabelKeys[1]", ""),
        ("labelSelector: {}, topologyKey: ''", "topologyKey", "can not be empty"),
        ("labelSelector: {}, topologyKey: a b", "topologyKey", KEY_RULE),
        ("labelSelector: {}, namespaces: [Shop]", "namespaces[0]", "a lowercase RFC 1123 label"),
        (
            "labelSelector: {}, namespaceSelector: {matchLabels: {a b: x}}",
            "namespaceSelector.matchLabels",
            KEY_RULE,
        ),
        ("affinityEnabled: true, labelSelector: {}", "labelSelector", rules.ENABLED_ALONE),
        ("affinityEnabled: true, matchLabelKeys: [a]", "matchLabelKeys", rules.ENABLED_ALONE),
    ],
)
def test_terms_of_the_proposal(side: str, term: str, field: str, detail: str) -> None:
    """Required and preferred terms obey the same conditions, each under its own path."""
    at, why = only(f"{side}: {{{REQUIRED}: [{{{term}}}]}}")
    assert (at, why[: len(detail)]) == (f"spec.placement.{side}.{REQUIRED}[0].{field}", detail)
    at, why = only(f"{side}: {{{PREFERRED}: [{{weight: 1, workloadAffinityTerm: {{{term}}}}}]}}")
    expected = f"spec.placement.{side}.{PREFERRED}[0].workloadAffinityTerm.{field}"
    assert (at, why[: len(detail)]) == (expected, detail)


@pytest.mark.parametrize("weight", [0, 101, -1])
def test_weights_are_from_1_to_100(weight: int) -> None:
    """Weights are bounded as those of preferred pod affinity."""
    text = f"workloadAffinity: {{{PREFERRED}: [{{weight: {weight}, workloadAffinityTerm: {{}}}}]}}"
    assert only(text) == (f"spec.placement.workloadAffinity.{PREFERRED}[0].weight", WEIGHT_RANGE)


def test_a_preference_needs_a_term() -> None:
    """A weight alone prefers nothing."""
    at, _ = only(f"workloadAffinity: {{{PREFERRED}: [{{weight: 1}}]}}")
    assert at == f"spec.placement.workloadAffinity.{PREFERRED}[0].workloadAffinityTerm"


@pytest.mark.parametrize(
    ("near", "apart"),
    [
        (f"{REQUIRED}: [{{labelSelector: {{matchLabels: {{a: x}}}}, matchLabelKeys: [b, c]}}]",
         "{matchLabelKeys: [c,b], labelSelector: {matchExpressions: [{key: a, operator: In, values: [x]}]}}"),
        (f"{REQUIRED}: [{{labelSelector: {{}}, topologyKey: zone}}]",
         "{labelSelector: {}, topologyKey: topology.karmada.io/zone}"),
        ("affinity: {groupByLabelKey: a}", "{labelSelector: {}, matchLabelKeys: [a]}"),
    ],
)  # fmt: skip
def test_the_same_workloads_cannot_be_together_and_apart(near: str, apart: str) -> None:
    """The same workloads cannot be together and apart, however the two rules are written."""
    text = f"workloadAffinity: {{{near}}}, workloadAntiAffinity: {{{REQUIRED}: [{apart}]}}"
    assert only(text) == (f"spec.placement.workloadAntiAffinity.{REQUIRED}[0]", rules.SAME_TERM)


def test_an_anti_affinity_group_conflicts_with_an_affinity_term() -> None:
    """The one conflicts in Karmada's form with the other in the proposal's."""
    near = f"{REQUIRED}: [{{labelSelector: {{}}, matchLabelKeys: [a]}}], antiAffinity: {{groupByLabelKey: a}}"
    at, _ = only(f"workloadAffinity: {{{near}}}")
    assert at == f"spec.placement.workloadAffinity.{REQUIRED}[0]"


def test_terms_for_different_domains_do_not_conflict() -> None:
    """Terms for the same region and for another cluster do not conflict."""
    near = f"workloadAffinity: {{{REQUIRED}: [{{labelSelector: {{}}, topologyKey: region}}]}}"
    assert errors(f"{near}, workloadAntiAffinity: {{{REQUIRED}: [{{labelSelector: {{}}}}]}}") == []


def test_the_path_may_be_another() -> None:
    """A placement can also be in an annotation, or in a binding."""
    view = written.view(Placement, "{workloadAffinity: {affinity: {groupByLabelKey: a b}}}")
    (error,) = validate_placement(view, ("here",))
    assert error.field == "here.workloadAffinity.affinity.groupByLabelKey"


# --- policies ---------------------------------------------------------------------------------------


def policy(annotation: str | None = None, **spec: Any) -> list[str]:
    """What is wrong with a policy of the namespace shop."""
    notes = {"berth.dev/workload-affinity": annotation} if annotation else {}
    body = {"metadata": {"name": "p", "namespace": "shop", "annotations": notes}, "spec": spec}
    return [str(error) for error in validate_policy(convert(body, PropagationPolicy))]


WEB = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"}


def test_a_policy_selects_in_its_namespace() -> None:
    """A policy that selects in another namespace than its own is refused."""
    (error,) = policy(resourceSelectors=[{**WEB, "namespace": "bank"}])
    assert error == (
        'spec.resourceSelectors[0].namespace: Invalid value: "bank": '
        "namespace of resource selector must be the same as the namespace of the policy"
    )
    assert policy(resourceSelectors=[WEB]) == []


def test_preemption_needs_names() -> None:
    """It would otherwise take more than its author thought of."""
    nameless = {name: value for name, value in WEB.items() if name != "name"}
    (error,) = policy(resourceSelectors=[nameless], preemption="Always")
    assert error.startswith('spec.resourceSelectors[0].name: Invalid value: "": name cannot be empty')
    assert policy(resourceSelectors=[WEB], preemption="Always") == []


def test_selectors_are_label_selectors() -> None:
    """Upstream accepts one that cannot be read, and then matches nothing."""
    bad = {**WEB, "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}
    (error,) = policy(resourceSelectors=[bad])
    assert error.startswith("spec.resourceSelectors[0].labelSelector.matchExpressions[0].operator")


def test_the_annotation_is_checked_with_the_placement() -> None:
    """The annotation is checked by itself, and for what it contradicts in the placement."""
    (error,) = policy(annotation="workloadAffinities: {}", resourceSelectors=[WEB])
    assert error.startswith("metadata.annotations[berth.dev/workload-affinity].workloadAffinities")
    term = f"{{{REQUIRED}: [{{labelSelector: {{}}, matchLabelKeys: ['']}}]}}"
    (error, *_) = policy(annotation=f"workloadAffinity: {term}", resourceSelectors=[WEB])
    assert error.startswith("metadata.annotations[berth.dev/workload-affinity].workloadAffinity")
    term = f"{{{REQUIRED}: [{{labelSelector: {{}}, matchLabelKeys: [a]}}]}}"
    placement = {"workloadAffinity": {"affinity": {"groupByLabelKey": "a"}}}
    (error,) = policy(
        annotation=f"workloadAntiAffinity: {term}", resourceSelectors=[WEB], placement=placement
    )
    assert rules.SAME_TERM in error
