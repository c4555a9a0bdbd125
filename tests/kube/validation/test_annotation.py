"""What is wrong with an affinity annotation, for those who refuse it and those who do not enforce it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from berth.kube.affinity.annotations import AFFINITY_ANNOTATION
from berth.kube.objects import Pod
from berth.kube.validation.annotation import check_annotation, fault_of
from berth.kube.validation.errors import Errors
from tests.kube import written
from tests.support.builders import EXECUTION, PREFERRED, REQUIRED

WHERE = f"metadata.annotations[{AFFINITY_ANNOTATION}]"
TERM: dict[str, Any] = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}


def annotated(rules: object, spec: object = None) -> Pod:
    text = rules if isinstance(rules, str) else json.dumps(rules)
    return written.pod(
        json.dumps({"affinity": spec}), json.dumps({"annotations": {AFFINITY_ANNOTATION: text}})
    )


def expression(operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "cores", "operator": operator, "values": list(values)}]}


def nodes(*terms: dict[str, Any], rule: str = EXECUTION) -> dict[str, Any]:
    return {"nodeAffinity": {rule: {"nodeSelectorTerms": list(terms)}}}


GOOD = [
    {},
    {"podAffinity": {EXECUTION: [TERM]}},
    nodes(expression("Gt", "4")),
    nodes(expression("Lt", "4"), rule=REQUIRED),
    {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": expression("In", "a")}]}},
]
BAD = [
    ("{", "", "is neither JSON nor YAML"),
    ('{"podAffinity": {"a": 1, "a": 2}}', "", 'key "a" is set twice in the same mapping'),
    ({"podAfinity": {}}, ".podAfinity", "unknown field"),
    (
        nodes(expression("Is")),
        f".nodeAffinity.{EXECUTION}.nodeSelectorTerms[0].matchExpressions[0].operator",
        "",
    ),
    (
        nodes(expression("Gt", "many"), rule=REQUIRED),
        f".nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].values[0]",
        "the value must be an integer",
    ),
    (
        {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": expression("In", "not a label")}]}},
        f".nodeAffinity.{PREFERRED}[0].preference.matchExpressions[0].values[0]",
        "a valid label must",
    ),
]


@pytest.mark.parametrize("rules", GOOD, ids=str)
def test_what_can_be_followed(rules: object) -> None:
    """A valid annotation is read without an error or a fault."""
    errors = Errors()
    assert check_annotation(annotated(rules), errors) is not None
    assert (errors, fault_of(annotated(rules))) == ([], None)


@pytest.mark.parametrize(("rules", "field", "told"), BAD, ids=str)
def test_what_cannot_be_followed(rules: object, field: str, told: str) -> None:
    """Both say so, with the place; within a template the path leads there."""
    errors = Errors()
    check_annotation(annotated(rules), errors, ("spec", "template"))
    assert [error.field for error in errors] == [f"spec.template.{WHERE}{field}"]
    fault = fault_of(annotated(rules)) or ""
    assert fault.startswith(f"{WHERE}{field}: ")
    assert told in fault


def test_too_much_together_with_the_spec() -> None:
    """Annotation and spec are refused if they are too much together, though each is fine alone."""
    terms = [{"matchExpressions": [{"key": f"k{i}", "operator": "Exists"}]} for i in range(101)]
    rules = nodes(*terms, rule=REQUIRED)
    assert "10201 combinations" in (fault_of(annotated(rules, rules)) or "")
    assert fault_of(annotated(rules)) is None


def test_without_the_annotation() -> None:
    """A pod without the annotation has neither rules nor faults."""
    assert (check_annotation(written.pod(), Errors()), fault_of(written.pod())) == (None, None)
