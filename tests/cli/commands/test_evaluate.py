"""`berth evaluate`: one verdict a line, whatever the lines hold."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from berth.cli.commands import evaluate
from tests.support import paths
from tests.support.cli.command import berth

DATA = paths.DATA / "conformance"
POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
NODE: dict[str, Any] = {
    "metadata": {"name": "n1"},
    "status": {"capacity": {"cpu": "1", "memory": "1Gi", "pods": "9"}},
}
CASE: dict[str, Any] = {"id": "good", "nodes": [NODE], "pod": POD}


def lines(*cases: object) -> str:
    return "".join(f"{case if isinstance(case, str) else json.dumps(case)}\n" for case in cases)


def answers(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines()]


def test_recorded_answers_come_back() -> None:
    """Recorded cases give the recorded answers, in order."""
    with gzip.open(DATA / "mixed.jsonl.gz", "rt") as recorded:
        pairs = [json.loads(line) for line in list(recorded)[:40]]
    older = ("--kubernetes-version", "1.36")
    outcome = berth("evaluate", *older, stdin=lines(*(pair["case"] for pair in pairs)))
    assert outcome.code == 0
    assert [pair["expect"] for pair in pairs] == answers(outcome.out)


def test_a_scoring_error_is_an_answer() -> None:
    """A recorded answer may have an error of its own; the line was good."""
    term = {
        "weight": 1,
        "preference": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["x"]}]},
    }
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    case: dict[str, Any] = {**CASE, "pod": {**POD, "spec": {**POD["spec"], "affinity": affinity}}}
    outcome = berth("evaluate", stdin=lines(case))
    assert outcome.code == 0
    assert "error" in answers(outcome.out)[0]


@pytest.mark.parametrize(
    ("bad", "identity"),
    [
        ("not json", None),
        ('{"id": "cut", "nodes": [', None),
        ({"id": "empty"}, "empty"),
        ({"id": "both", "pod": POD, "sequence": []}, "both"),
        ({"id": "type", "nodes": 5, "pod": POD}, "type"),
        ({"id": "twice", "nodes": [NODE, NODE], "pod": POD}, "twice"),
        ("[1, 2]", None),
        ({"id": 7, "pod": POD}, 7),
        ("[" * 5000, None),
    ],
)
def test_a_bad_line_is_answered_and_the_rest_still_runs(bad: object, identity: object) -> None:
    """The answer to a bad line has an error and, where it can be had, the id; exit code 1."""
    outcome = berth("evaluate", stdin=lines(CASE, bad, CASE))
    first, second, third = answers(outcome.out)
    assert outcome.code == 1
    assert (first["id"], third["id"]) == ("good", "good")
    assert (identity, 2) == (second["id"], second["line"])
    assert str(second["error"]).startswith("line 2: ")


RUNNING: dict[str, Any] = {
    "metadata": {"name": "r", "namespace": "x"},
    "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
}


def asking(pod: dict[str, Any], cpu: object) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"limits": {"cpu": cpu}}}
    return {**pod, "spec": {**pod["spec"], "containers": [container]}}


def annotated(pod: dict[str, Any], text: str) -> dict[str, Any]:
    return {**pod, "metadata": {**pod["metadata"], "annotations": {"berth.dev/affinity": text}}}


@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        (
            {"pods": [POD, asking(RUNNING, "1x")]},
            'pods[1] x/r: spec.containers[0].resources.limits[cpu]: "1x" is not a quantity',
        ),
        (
            {"pods": [asking(RUNNING, True)]},
            "pods[0] x/r: spec.containers[0].resources.limits[cpu]: expected an integer or a number",
        ),
        ({"pods": [annotated(RUNNING, "{bad")]}, "pods[0] x/r: metadata.annotations[berth.dev/affinity]: is"),
        (
            {"nodes": [{"metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "1x"}}}]},
            'nodes[0] a: status.allocatable[cpu]: "1x" is not a quantity',
        ),
        (
            {"pod": None, "sequence": [POD, asking(RUNNING, "1x")]},
            'sequence[1] x/r: spec.containers[0].resources.limits[cpu]: "1x" is not a quantity',
        ),
        ({"pod": None, "sequence": [annotated(POD, "5")]}, "sequence[0] default/p: metadata.annotations["),
        ({"pods": [RUNNING, POD, RUNNING]}, "pods[2] x/r: pods[0] has the same name"),
        ({"pod": None, "sequence": [POD, POD]}, "sequence[1] default/p: sequence[0] has the same name"),
        ({"pod": None, "pods": [RUNNING], "sequence": [RUNNING]}, "sequence[0] x/r: pods[0] has the same"),
        (
            {"pod": {**POD, "spec": {"priority": 2**31}}},
            "pod default/p: spec.priority: expected a 32-bit integer, got 2147483648",
        ),
        ({"nodes": [None]}, "nodes[0]: expected a mapping, got null"),
        ({"nodes": 5}, "not a case: nodes: expected a list, got 5"),
        (
            {"args": {"hardPodAffinityWeight": 10**12}},
            "not a case: args.hardPodAffinityWeight: expected an integer of at most 100",
        ),
    ],
)
def test_what_is_wrong_with_a_line_is_named(case: dict[str, Any], sentence: str) -> None:
    """Object, name and field; never an unexpected anything."""
    outcome = berth("evaluate", stdin=lines({**CASE, **case}))
    (answer,) = answers(outcome.out)
    assert outcome.code == 1
    assert str(answer["error"]).startswith(f"line 1: {sentence}")
    assert "unexpected" not in str(answer["error"])


@pytest.mark.parametrize("field", ["metadata", "spec"])
@pytest.mark.parametrize("place", ["pod", "pods", "namespaces", "services"])
def test_null_is_the_same_as_absent(place: str, field: str) -> None:
    """A field that is null is the same as one that is absent, in every object of a case."""
    given = RUNNING if place == "pods" else POD
    without = {key: value for key, value in given.items() if key != field}
    verdicts = [
        answers(berth("evaluate", stdin=lines({**CASE, place: given if place == "pod" else [given]})).out)
        for given in (without, {**without, field: None})
    ]
    assert verdicts[0] == verdicts[1]
    assert "error" not in verdicts[0][0]


def test_null_in_a_map_is_a_value() -> None:
    """A null label is an empty one, as Go reads it."""
    term = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    }
    case = {
        **CASE,
        "nodes": [{**NODE, "metadata": {"name": "n1", "labels": {"a": None}}}],
        "pod": {**POD, "spec": {**POD["spec"], "affinity": affinity}},
        "args": {"hardPodAffinityWeight": None, "defaultingType": None},
    }
    assert answers(berth("evaluate", stdin=lines(case)).out)[0]["feasible"] == ["n1"]


def test_a_bug_on_one_line_does_not_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected exception is an error line like any other."""

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(evaluate, "evaluate_case", fail)
    outcome = berth("evaluate", stdin=lines(CASE, CASE))
    assert (outcome.code, len(outcome.out.splitlines())) == (1, 2)
    assert "unexpected ZeroDivisionError: oh" in outcome.out


def test_blank_lines_are_nothing() -> None:
    """Empty lines have no answer but are counted."""
    outcome = berth("evaluate", stdin=lines(CASE, "", "bad"))
    assert [answer.get("line") for answer in answers(outcome.out)] == [None, 3]


def test_from_a_file(tmp_path: Path) -> None:
    """A file is read as well as standard input."""
    file = tmp_path / "cases.jsonl"
    file.write_text(lines(CASE))
    assert berth("evaluate", file).out == berth("evaluate", "-", stdin=lines(CASE)).out


def test_a_missing_file() -> None:
    """A file that is not there is bad input."""
    outcome = berth("evaluate", "/nowhere/cases.jsonl")
    assert (outcome.code, outcome.out, outcome.err) == (2, "", "error: /nowhere/cases.jsonl: no such file\n")


def test_exact_namespace_selectors() -> None:
    """The option changes what a selector of only negative requirements covers in 1.36; 1.37 is exact."""
    term = {
        "labelSelector": {},
        "namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["red"]}]},
        "topologyKey": "zone",
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    red = {**POD, "metadata": {"name": "r", "namespace": "red"}, "spec": {**POD["spec"], "nodeName": "n1"}}
    case: dict[str, Any] = {
        "id": "x",
        "nodes": [{**NODE, "metadata": {"name": "n1", "labels": {"zone": "a"}}}],
        "namespaces": [{"metadata": {"name": "red", "labels": {"team": "red"}}}],
        "pods": [red],
        "pod": {**POD, "spec": {**POD["spec"], "affinity": affinity}},
    }
    older = ("evaluate", "--kubernetes-version", "1.36")
    assert answers(berth(*older, stdin=lines(case)).out)[0]["feasible"] == []
    exact = berth(*older, "--exact-namespace-selectors", stdin=lines(case))
    assert answers(exact.out)[0]["feasible"] == ["n1"]
    assert answers(berth("evaluate", stdin=lines(case)).out)[0]["feasible"] == ["n1"]


def test_rules_that_are_not_always_asked() -> None:
    """Extra plugins take part in the cases that name them, and one that does not exist is refused."""
    case = {"id": "x", "nodes": [NODE], "pod": POD, "extraPlugins": ["ImageLocality"]}
    found: Any = answers(berth("evaluate", stdin=lines(case)).out)[0]
    assert "ImageLocality" in found["scores"]
    wrong = berth("evaluate", stdin=lines({**case, "extraPlugins": ["Nonsense"]}))
    assert wrong.code == 1
    refusal = str(answers(wrong.out)[0]["error"])
    assert "extraPlugins: Nonsense is none of DynamicResources, ImageLocality" in refusal


def test_a_mount_without_its_volume() -> None:
    """A container cannot mount a volume that the pod does not have."""
    (container,) = POD["spec"]["containers"]
    mounting = {**container, "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    case = {"id": "x", "nodes": [NODE], "pod": {**POD, "spec": {"containers": [mounting]}}}
    found: Any = answers(berth("evaluate", stdin=lines(case)).out)[0]
    (error,) = found["validation"]
    assert (error["field"], error["type"]) == (
        "spec.containers[0].volumeMounts[0].name",
        "FieldValueNotFound",
    )
