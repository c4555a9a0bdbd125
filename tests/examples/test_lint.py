"""The examples are linted as they behave: an error means that pods are left over, and nothing else does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cli.command import berth
from tests.support.paths import ROOT

EXAMPLES = ROOT / "examples"
# What the errors on examples that show a fault are about; a running pod that breaks a rule is one, too.
EXPECTED = {
    "execution-time/label-removed.yaml": ["BERTH113", "BERTH113"],
    "node-affinity/zone.yaml": ["BERTH113"],
    "pod-affinity/affinity-one-way.yaml": ["BERTH103"],
    "pod-affinity/own-service-one-zone.yaml": ["BERTH103"],
    "pod-affinity/required-terms-together.yaml": ["BERTH103"],
    "pod-affinity/spread-required.yaml": ["BERTH105"],
    "topology-spread/min-domains.yaml": ["BERTH108"],
    "topology-spread/zones-even-nodes-apart.yaml": ["BERTH105"],
}
FILES = sorted(EXAMPLES.rglob("*.yaml"))


def name_of(file: Path) -> str:
    return file.relative_to(EXAMPLES).as_posix()


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_an_error_is_a_pod_that_is_left_over(file: Path) -> None:
    """No error where simulate places every pod; a warning at least where it does not."""
    outcome = berth("lint", "-f", file, "-o", "json")
    assert outcome.code in (0, 1), outcome.err
    findings = json.loads(outcome.out)["findings"]
    errors = [finding["code"] for finding in findings if finding["severity"] == "error"]
    assert errors == EXPECTED.get(name_of(file), [])
    if file.parent.name in ("fleet", "clusters"):
        assert {finding["code"] for finding in findings} <= {"BERTH202"}, (
            "which flags there are, is not known"
        )
        return
    simulated = json.loads(berth("simulate", "-f", file, "-o", "json").out)
    if not simulated["summary"]["nodes"]:
        return
    left = {pod["owner"] or f"Pod/{pod['pod']}" for pod in simulated["unplaced"]}
    bad = {finding["object"] for finding in findings if finding["severity"] != "info"}
    for owner in left:
        kind, _, name = owner.partition("/")
        assert any(title.startswith(f"{kind} ") and title.endswith(f"/{name}") for title in bad), owner


def test_the_demonstration_has_no_error() -> None:
    """What the demo shows on purpose are warnings: a pod that finds no node, and one that evicts another."""
    demo = ROOT / "src" / "berth" / "cli" / "demo"
    findings = json.loads(berth("lint", "-f", demo, "-o", "json").out)["findings"]
    assert [f["code"] for f in findings if f["severity"] != "info"] == ["BERTH120", "BERTH126"]
