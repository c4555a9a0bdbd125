"""`--validate`: fields of files that nobody knows are told, refused or dropped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cli.command import NODES, Outcome, berth, files, pod
from tests.support.cli.fleet_manifests import CLUSTERS, deployment, policy

WRONG = pod("a", "  afinity: {}")
SENTENCE = "Pod default/a: spec.afinity: unknown field; did you mean spec.affinity?"
COMMANDS = (("simulate",), ("explain", "a"), ("audit",))
CASE: dict[str, Any] = {
    "id": "x",
    "nodes": [{"metadata": {"name": "n1"}, "spec": {"taint": []}}],
    "pod": {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    },
}
CASE_SENTENCE = "nodes[0].spec.taint: unknown field; did you mean nodes[0].spec.taints?"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_warnings_by_default(tmp_path: Path, command: tuple[str, ...]) -> None:
    """The command works, and says on stderr and in its document what it did not understand."""
    outcome = berth(*command, "-f", files(tmp_path, NODES, WRONG), "-o", "json")
    assert outcome.code == 0
    assert outcome.err == f"warning: {tmp_path}/1.yaml: {SENTENCE}\n"
    assert json.loads(outcome.out)["warnings"] == [f"{tmp_path}/1.yaml: {SENTENCE}"]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_strict(tmp_path: Path, command: tuple[str, ...]) -> None:
    """The first unknown field ends the command; without any it works."""
    folder = files(tmp_path, NODES, WRONG, pod("b", "  nodeslector: {}"))
    refused = berth(*command, "-f", folder, "--validate=strict")
    assert refused == Outcome(2, "", f"error: {tmp_path}/1.yaml: {SENTENCE}\n")
    folder.joinpath("1.yaml").write_text(pod("a"))
    folder.joinpath("2.yaml").unlink()
    assert berth(*command, "-f", folder, "--validate=strict").code == 0


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_ignore(tmp_path: Path, command: tuple[str, ...]) -> None:
    """Unknown fields are dropped in silence."""
    outcome = berth(*command, "-f", files(tmp_path, NODES, WRONG), "--validate=ignore", "-o", "json")
    assert (outcome.code, outcome.err) == (0, "")
    assert json.loads(outcome.out)["warnings"] == []


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_unknown_kinds(tmp_path: Path, command: tuple[str, ...]) -> None:
    """A misspelt kind is told, refused or dropped as a misspelt field is."""
    misspelt = "apiVersion: apps/v1\nkind: Deploymnt\nmetadata: {name: web}\n"
    passed_over = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n"
    folder = files(tmp_path, NODES, pod("a"), misspelt, passed_over)
    told = f"{tmp_path}/2.yaml: kind: Deploymnt is not a kind of apps/v1; did you mean Deployment?"
    warned = berth(*command, "-f", folder, "-o", "json")
    assert (warned.code, warned.err) == (0, f"warning: {told}\n")
    assert json.loads(warned.out)["warnings"] == [told]
    assert berth(*command, "-f", folder, "--validate=strict") == Outcome(2, "", f"error: {told}\n")
    assert berth(*command, "-f", folder, "--validate=ignore").err == ""


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_unknown_annotations(tmp_path: Path, command: tuple[str, ...]) -> None:
    """A misspelt annotation of Berth's is told, refused or dropped as a misspelt field is."""
    misspelt = pod("a").replace("name: a", "name: a, annotations: {berth.dev/afinity: '{}'}", 1)
    assert "annotations" in misspelt
    folder = files(tmp_path, NODES, misspelt)
    path = "metadata.annotations[berth.dev/afinity]"
    told = f"{tmp_path}/1.yaml: Pod default/a: {path}: unknown annotation; did you mean berth.dev/affinity?"
    warned = berth(*command, "-f", folder, "-o", "json")
    assert (warned.code, warned.err) == (0, f"warning: {told}\n")
    assert json.loads(warned.out)["warnings"] == [told]
    assert berth(*command, "-f", folder, "--validate=strict") == Outcome(2, "", f"error: {told}\n")
    assert berth(*command, "-f", folder, "--validate=ignore").err == ""


def test_warnings_come_before_a_refusal(tmp_path: Path) -> None:
    """A field that was misspelt is often why another is missing, so it is told first."""
    wrong = "  topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfable: DoNotSchedule}]"
    outcome = berth("simulate", "-f", files(tmp_path, NODES, pod("a", wrong)))
    assert outcome.code == 2
    first, second = outcome.err.splitlines()
    assert "whenUnsatisfable: unknown field" in first
    assert second.startswith("error: ")


@pytest.mark.parametrize("command", [("simulate",), ("explain", "web-deployment")], ids=lambda c: c[0])
def test_fleet(tmp_path: Path, command: tuple[str, ...]) -> None:
    """Karmada's kinds are checked as well as workloads, with the same three choices."""
    wrong = policy(placement={"clusterAfinity": {"clusterNames": ["m1"]}})
    web = deployment("web")
    web["spec"]["replica"] = 1
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all([*CLUSTERS, wrong, web]))
    path = "spec.placement.clusterA"
    told = [
        f"{file}: PropagationPolicy shop/p: {path}finity: unknown field; did you mean {path}ffinity?",
        f"{file}: Deployment shop/web: spec.replica: unknown field; did you mean spec.replicas?",
    ]
    warned = berth("fleet", *command, "-f", file, "-o", "json")
    assert [line for line in warned.err.splitlines() if line.startswith("warning: ")] == [
        f"warning: {sentence}" for sentence in told
    ]
    assert json.loads(warned.out)["warnings"] == told
    refused = berth("fleet", *command, "-f", file, "--validate=strict")
    assert refused == Outcome(2, "", f"error: {told[0]}\n")
    assert "unknown field" not in berth("fleet", *command, "-f", file, "--validate=ignore").err


def test_karmada_kinds_are_not_read_by_simulate(tmp_path: Path) -> None:
    """What a command passes over may hold anything."""
    wrong = policy(placement={"clusterAfinity": {}})
    assert berth("simulate", "-f", files(tmp_path, NODES, yaml.safe_dump(wrong))).err == ""


def test_cases() -> None:
    """`evaluate` warns at the first line with a field and counts the others; the answers are the same."""
    lines = f"{json.dumps(CASE)}\n" * 3
    warned = berth("evaluate", stdin=lines)
    assert warned.code == 0
    assert warned.err.splitlines() == [
        f"warning: line 1: {CASE_SENTENCE}",
        "warning: nodes[].spec.taint: unknown field in 3 lines",
    ]
    assert berth("evaluate", "--validate=ignore", stdin=lines) == Outcome(0, warned.out, "")


def test_strict_cases() -> None:
    """A case with an unknown field is a line that cannot be judged; the others still run."""
    sound = {**CASE, "nodes": []}
    outcome = berth("evaluate", "--validate=strict", stdin=f"{json.dumps(CASE)}\n{json.dumps(sound)}\n")
    first, second = map(json.loads, outcome.out.splitlines())
    assert (outcome.code, outcome.err) == (1, "")
    assert first == {"id": "x", "line": 1, "error": f"line 1: {CASE_SENTENCE}"}
    assert "error" not in second


@pytest.mark.parametrize("wrapped", [False, True])
def test_fleet_cases(*, wrapped: bool) -> None:
    """An unknown field in a case of a fleet, bare or wrapped, is told with the name that was meant."""
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"}
    binding = {"metadata": {"name": "b"}, "spec": {"resource": resource, "placement": {"clusterAfinity": {}}}}
    case: dict[str, Any] = {"id": "x", "clusters": [], "binding": binding}
    prefix = "case." if wrapped else ""
    outcome = berth("fleet", "evaluate", stdin=json.dumps({"case": case} if wrapped else case))
    assert outcome.err == (
        f"warning: line 1: {prefix}binding.spec.placement.clusterAfinity: unknown field; "
        f"did you mean {prefix}binding.spec.placement.clusterAffinity?\n"
    )
