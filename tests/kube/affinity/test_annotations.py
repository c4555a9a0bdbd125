"""The affinity annotation: rules added to those of the spec."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.kube.affinity.annotations import (
    AFFINITY_ANNOTATION,
    AnnotationError,
    effective_affinity,
    intersection,
    stated_affinity,
)
from berth.kube.objects import Affinity, NodeSelector, Pod
from berth.kube.selectors import parse_node_selector
from berth.kube.text.decoding import convert
from tests.kube import written
from tests.support.builders import EXECUTION, PREFERRED, REQUIRED


def annotated(affinity: object, spec: dict[str, Any] | None = None, labels: str = "{}") -> Pod:
    text = affinity if isinstance(affinity, str) else json.dumps(affinity)
    metadata = json.dumps({"annotations": {AFFINITY_ANNOTATION: text}, "labels": written.value(labels)})
    return written.pod(json.dumps({"affinity": spec} if spec else {}), metadata)


def test_without_the_annotation_the_spec_is_returned_as_it_is() -> None:
    """Without the annotation the affinity of the spec is returned as it is, not copied."""
    pod = written.pod("affinity: {nodeAffinity: {}}", "annotations: {other: x}")
    assert pod.spec.affinity is effective_affinity(pod)
    assert effective_affinity(written.pod()) is None


def test_rules_as_they_are_written() -> None:
    """Every rule is given with the place where it stands."""
    spec: dict[str, Any] = {"podAffinity": {}}
    rules: dict[str, Any] = {"nodeAffinity": {}}
    pod = annotated(rules, spec)
    where = f"metadata.annotations[{AFFINITY_ANNOTATION}]"
    assert stated_affinity(pod) == (
        ("spec.affinity", convert(spec, Affinity)),
        (where, convert(rules, Affinity)),
    )
    assert stated_affinity(annotated(rules)) == ((where, convert(rules, Affinity)),)
    assert stated_affinity(written.pod()) == ()


@pytest.mark.parametrize(
    "text",
    [
        '{"podAffinity": {}, "podAffinity": {}}',
        f'{{"podAffinity": {{"{EXECUTION}": [{{"topologyKey": "a", "topologyKey": "b"}}]}}}}',
    ],
)
def test_a_key_that_is_set_twice_is_an_error(text: str) -> None:
    """In JSON as in YAML: one of the two rules would be lost."""
    with pytest.raises(AnnotationError, match="is set twice in the same mapping"):
        effective_affinity(annotated(text))


def test_json_and_yaml_are_both_read() -> None:
    """The value may be either; both mean the same."""
    rules = {"podAffinity": {EXECUTION: [{"topologyKey": "zone"}]}}
    yaml = f"podAffinity:\n  {EXECUTION}:\n  - topologyKey: zone\n"
    assert (
        convert(rules, Affinity)
        == effective_affinity(annotated(rules))
        == effective_affinity(annotated(yaml))
    )


@pytest.mark.parametrize("side", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize("variant", [EXECUTION, REQUIRED])
def test_pod_terms_are_joined(side: str, variant: str) -> None:
    """All required terms must hold, those of the spec first."""
    first, second = {"topologyKey": "zone"}, {"topologyKey": "rack"}
    both = effective_affinity(annotated({side: {variant: [second]}}, {side: {variant: [first]}}))
    assert convert({side: {variant: [first, second]}}, Affinity) == both


def test_preferred_terms_are_joined() -> None:
    """Preferences of the annotation are added to those of the spec."""
    first, second = {"weight": 1, "preference": {}}, {"weight": 2, "preference": {}}
    both = effective_affinity(
        annotated({"nodeAffinity": {PREFERRED: [second]}}, {"nodeAffinity": {PREFERRED: [first]}})
    )
    assert convert({"nodeAffinity": {PREFERRED: [first, second]}}, Affinity) == both


def test_different_kinds_of_rules_stand_side_by_side() -> None:
    """An execution-time rule in the annotation leaves an ordinary one in the spec alone."""
    spec: dict[str, Any] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}}
    rules: dict[str, Any] = {"nodeAffinity": {EXECUTION: {"nodeSelectorTerms": [{}]}}}
    expected = {"nodeAffinity": {**spec["nodeAffinity"], **rules["nodeAffinity"]}}
    assert convert(expected, Affinity) == effective_affinity(annotated(rules, spec))


def test_label_keys_in_the_annotation_are_merged() -> None:
    """No API server does it for us, so reading the annotation does."""
    term = {"topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["version"]}
    affinity = effective_affinity(annotated({"podAffinity": {EXECUTION: [term]}}, labels="{version: v2}"))
    assert affinity
    assert affinity.pod_affinity
    (merged,) = affinity.pod_affinity.required_during_scheduling_required_during_execution or []
    assert merged.label_selector
    assert merged.label_selector.match_expressions


terms = st.lists(
    st.one_of(
        st.none(),
        st.fixed_dictionaries(
            {},
            optional={
                "matchExpressions": st.lists(
                    st.sampled_from(
                        [
                            {"key": "a", "operator": "In", "values": ["1"]},
                            {"key": "a", "operator": "NotIn", "values": ["1"]},
                            {"key": "b", "operator": "Exists"},
                            {"key": "b", "operator": "Gt", "values": ["x"]},
                        ]
                    ),
                    max_size=2,
                ),
                "matchFields": st.lists(
                    st.just({"key": "metadata.name", "operator": "In", "values": ["n"]}), max_size=1
                ),
            },
        ),
    ),
    max_size=3,
)


@given(terms, terms)
def test_required_node_selectors_must_both_match(first: list[Any], second: list[Any]) -> None:
    """The combination matches exactly the nodes that both selectors match."""
    left, right = (convert({"nodeSelectorTerms": listed}, NodeSelector) for listed in (first, second))
    both = parse_node_selector(intersection(left, right))
    one, other = parse_node_selector(left), parse_node_selector(right)
    assert both
    assert one
    assert other
    for a, b, name in product((None, "1", "2"), (None, "5"), ("n", "m")):
        labels = {key: value for key, value in (("a", a), ("b", b)) if value is not None}
        expected = one.matches(labels, name) and other.matches(labels, name)
        assert expected == both.matches(labels, name)


def test_a_combination_out_of_all_proportion_is_refused() -> None:
    """Two long selectors that would multiply beyond all proportion are refused."""
    term = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    rules = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term] * 101}}}
    with pytest.raises(AnnotationError, match="10201 combinations"):
        effective_affinity(annotated(rules, rules))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{a: ", r"affinity\]: is neither JSON nor YAML: line 2"),
        ("[1]", r"affinity\]: expected a mapping, got a list"),
        ("", r"affinity\]: must hold exactly one affinity object"),
        ('{"nodeAffinity": 3}', r"affinity\]\.nodeAffinity: expected a mapping, got 3"),
        (
            f'{{"nodeAffinity": {{"{PREFERRED}": [{{"weight": "x"}}]}}}}',
            rf"affinity\]\.nodeAffinity\.{PREFERRED}\[0\]\.weight: expected an integer, got \"x\"",
        ),
        ('{"nodeAfinity": {}}', r"affinity\]\.nodeAfinity: unknown field; did you mean nodeAffinity\?"),
        (
            f'{{"podAffinity": {{"{EXECUTION}": [{{"topologyKey": "a", "selector": {{}}}}]}}}}',
            (
                rf"affinity\]\.podAffinity\.{EXECUTION}\[0\]\.selector: unknown field; "
                r"did you mean labelSelector\?"
            ),
        ),
    ],
)
def test_what_is_no_affinity_is_named(text: str, sentence: str) -> None:
    """The sentence leads to the very field; a misspelt field is not ignored."""
    with pytest.raises(AnnotationError, match=r"^metadata\.annotations\[berth\.dev/" + sentence):
        effective_affinity(annotated(text))
