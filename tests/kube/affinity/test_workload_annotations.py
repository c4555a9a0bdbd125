"""The annotation with rules between workloads: read strictly, added to what a placement says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from berth.kube.affinity.annotations import AnnotationError
from berth.kube.affinity.workload_annotations import (
    WORKLOAD_AFFINITY_ANNOTATION,
    annotated_affinity,
    effective_placement,
)
from berth.kube.karmada import Placement
from berth.kube.text.decoding import convert
from tests.support.builders import PREFERRED, REQUIRED


def annotated(rules: object) -> Placement | None:
    text = rules if isinstance(rules, str) else json.dumps(rules)
    return annotated_affinity({WORKLOAD_AFFINITY_ANNOTATION: text})


def placement(**fields: Any) -> Placement:
    return convert(fields, Placement)


def term(*keys: str) -> dict[str, Any]:
    return {"labelSelector": {}, "matchLabelKeys": list(keys)}


def test_without_the_annotation_there_are_no_rules() -> None:
    """Without the annotation there are no rules."""
    assert annotated_affinity(None) is None
    assert annotated_affinity({"other": "x"}) is None


def test_json_and_yaml_are_both_read() -> None:
    """The value may be either; both mean the same."""
    rules = {"workloadAntiAffinity": {REQUIRED: [term("group")]}}
    yaml = f"workloadAntiAffinity:\n  {REQUIRED}:\n  - labelSelector: {{}}\n    matchLabelKeys: [group]\n"
    assert placement(**rules) == annotated(rules) == annotated(yaml)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("{", "metadata.annotations[berth.dev/workload-affinity]: is neither JSON nor YAML"),
        ("[]", "metadata.annotations[berth.dev/workload-affinity]: expected a mapping, got a list"),
        ({"podAffinity": {}}, "metadata.annotations[berth.dev/workload-affinity].podAffinity: unknown field"),
        (
            {"workloadAffinity": {REQUIRED: [{"labelSelectors": {}}]}},
            f"[berth.dev/workload-affinity].workloadAffinity.{REQUIRED}[0].labelSelectors: unknown field",
        ),
        (
            {"workloadAffinity": {REQUIRED: [{"matchLabelKeys": "group"}]}},
            'matchLabelKeys: expected a list, got "group"',
        ),
        ({"workloadAffinity": {"affinity": {"groupByLabelKey": "a"}}}, "belong into spec.placement"),
    ],
)
def test_what_cannot_be_read_is_named(rules: object, expected: str) -> None:
    """A misspelt rule is an error: no server warns about it."""
    with pytest.raises(AnnotationError) as caught:
        annotated(rules)
    assert expected in str(caught.value)


@pytest.mark.parametrize("side", ["workloadAffinity", "workloadAntiAffinity"])
def test_rules_are_added(side: str) -> None:
    """Those of the placement first, and nothing else of it changes."""
    own = placement(clusterAffinity={"clusterNames": ["m1"]}, **{side: {REQUIRED: [term("a")]}})
    both = effective_placement(own, annotated({side: {REQUIRED: [term("b")]}}))
    expected = {side: {REQUIRED: [term("a"), term("b")]}}
    assert placement(clusterAffinity={"clusterNames": ["m1"]}, **expected) == both


def test_groups_stay_beside_added_rules() -> None:
    """Karmada's form and the proposal's may be used together."""
    own = placement(workloadAffinity={"antiAffinity": {"groupByLabelKey": "g"}})
    both = effective_placement(own, annotated({"workloadAffinity": {REQUIRED: [term("a")]}}))
    expected = {"antiAffinity": {"groupByLabelKey": "g"}, REQUIRED: [term("a")]}
    assert placement(workloadAffinity=expected) == both


def test_a_rule_that_arrives_twice_counts_once() -> None:
    """A preference that is on the policy and on its binding keeps its weight."""
    rules = {"workloadAffinity": {PREFERRED: [{"weight": 5, "workloadAffinityTerm": term("a")}]}}
    assert placement(**rules) == effective_placement(placement(**rules), annotated(rules), annotated(rules))


def test_nothing_is_added_to_nothing() -> None:
    """Without placement and annotation there is no placement."""
    assert effective_placement(None, None) is None
    rules = {"workloadAntiAffinity": {REQUIRED: [term("a")]}}
    assert placement(**rules) == effective_placement(None, annotated(rules))
