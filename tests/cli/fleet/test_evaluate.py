"""`berth fleet evaluate`: one verdict a line, Karmada's unless told otherwise."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import paths
from tests.support.cli.command import berth

DATA = paths.DATA / "conformance-fleet"
CLUSTER: dict[str, Any] = {
    "metadata": {"name": "m1"},
    "status": {"apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"kind": "Deployment"}]}]},
}
BINDING: dict[str, Any] = {
    "metadata": {"name": "web-deployment", "namespace": "shop"},
    "spec": {
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
        "placement": {},
    },
}
CASE: dict[str, Any] = {"id": "good", "clusters": [CLUSTER], "binding": BINDING}


def lines(*cases: object) -> str:
    return "".join(f"{case if isinstance(case, str) else json.dumps(case)}\n" for case in cases)


def answers(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_recorded_answers_come_back() -> None:
    """In order, from the compressed file as it is."""
    with gzip.open(DATA / "seed_api.jsonl.gz", "rt") as recorded:
        pairs = [json.loads(line) for line in recorded]
    outcome = berth("fleet", "evaluate", DATA / "seed_api.jsonl.gz")
    assert outcome.code == 0
    verdicts = answers(outcome.out)
    assert [pair["case"]["id"] for pair in pairs] == [verdict["id"] for verdict in verdicts]
    assert [pair["expect"]["feasible"] for pair in pairs] == [verdict["feasible"] for verdict in verdicts]


def test_bare_and_wrapped_cases() -> None:
    """A case is read with or without the recorded answer beside it."""
    bare = berth("fleet", "evaluate", stdin=lines(CASE))
    wrapped = berth("fleet", "evaluate", "-", stdin=lines({"case": CASE, "expect": {}}))
    assert bare == wrapped
    assert answers(bare.out)[0]["feasible"] == ["m1"]


@pytest.mark.parametrize(
    ("bad", "identity", "told"),
    [
        ("not json", None, "not valid JSON"),
        ({"id": "empty"}, "empty", "a case has a 'binding'"),
        ({"case": {"id": "inner", "binding": {}}}, "inner", "binding: spec.placement: Required value"),
        ({**CASE, "id": "type", "clusters": 5}, "type", "not a case: clusters: expected a list, got 5"),
        (
            {**CASE, "id": "nameless", "clusters": [{}]},
            "nameless",
            "clusters[0]: metadata.name: Required value",
        ),
        ("[" * 5000, None, ""),
    ],
)
def test_a_bad_line_is_answered_and_the_rest_still_runs(bad: object, identity: object, told: str) -> None:
    """A bad line is answered with an error and its id, the rest still runs, the exit code is 1."""
    outcome = berth("fleet", "evaluate", stdin=lines(CASE, bad, CASE))
    first, second, third = answers(outcome.out)
    assert outcome.code == 1
    assert (first["id"], third["id"]) == ("good", "good")
    assert (second["id"], second["line"]) == (identity, 2)
    assert second["error"].startswith(f"line 2: {told}")
    assert "unexpected" not in second["error"]


def grouped(name: str, **spec: object) -> dict[str, Any]:
    placement = {"workloadAffinity": {"antiAffinity": {"groupByLabelKey": "ha"}}}
    resource = {**BINDING["spec"]["resource"], "name": name}
    return {
        "metadata": {"name": f"{name}-deployment", "namespace": "shop"},
        "spec": {
            "resource": resource,
            "placement": placement,
            "workloadAffinityGroups": {"antiAffinityGroup": "ha=x"},
            **spec,
        },
    }


EVICTED = {
    **CASE,
    "binding": grouped("web"),
    "bindings": [grouped("peer", gracefulEvictionTasks=[{"fromCluster": "m1"}])],
}


def test_karmada_unless_told_otherwise() -> None:
    """A peer that is being evicted counts for Berth, but not for Karmada; each improvement has its flag."""
    compatible = berth("fleet", "evaluate", stdin=lines(EVICTED))
    assert compatible == berth("fleet", "evaluate", "--karmada-compat", stdin=lines(EVICTED))
    assert answers(compatible.out)[0]["feasible"] == ["m1"]
    own = answers(berth("fleet", "evaluate", "--no-karmada-compat", stdin=lines(EVICTED)).out)[0]
    assert own["feasible"] == []
    assert own["rejected"]["m1"] == [
        "cluster already has workload with the same anti-affinity group (shop/peer-deployment)"
    ]
    counted = berth("fleet", "evaluate", "--count-evicting", "true", stdin=lines(EVICTED))
    assert answers(counted.out)[0]["rejected"]["m1"] == [
        "cluster already has workload with the same anti-affinity group"
    ]


def test_an_eviction_from_no_name_is_refused() -> None:
    """Tasks are kept as they came; where a binding leaves is read all the same."""
    case = {**EVICTED, "bindings": [grouped("peer", gracefulEvictionTasks=[{"fromCluster": 5}])]}
    outcome = berth("fleet", "evaluate", stdin=lines(case))
    assert outcome.code == 1
    assert "fromCluster of a graceful eviction task is not a string" in answers(outcome.out)[0]["error"]


def test_label_keys_are_checked() -> None:
    """A label key that is none is refused in a sentence."""
    outcome = berth("fleet", "evaluate", "--affinity-label-keys", "a b", stdin=lines(CASE))
    assert outcome.code == 2
    assert "'--affinity-label-keys': 'a b' is no label key" in outcome.err


def test_a_file_that_cannot_be_unpacked(tmp_path: Path) -> None:
    """A truncated or missing file is bad input that names the file."""
    file = tmp_path / "cases.jsonl.gz"
    file.write_bytes(gzip.compress(lines(CASE).encode())[:-9])
    outcome = berth("fleet", "evaluate", file)
    assert outcome.code == 2
    assert f"{file}: cannot be unpacked" in outcome.err
    assert berth("fleet", "evaluate", tmp_path / "none").err.endswith("none: no such file\n")
