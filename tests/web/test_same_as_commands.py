"""Every answer of the page is, as a whole, what the command that it names prints as JSON."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import httpx
import pytest

from berth.cli.commands import web
from berth.web.app import PageServer, PageSettings
from berth.web.questions import CommandDocuments
from berth.web.sources import ClusterSource
from tests.support.cli.command import NODES, WEB, berth, files, pod
from tests.support.paths import ROOT

FLEET = [ROOT / "examples" / "fleet" / name for name in ("clusters.yaml", "training-shards.yaml")]
STRAY = """
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: odd, namespace: default}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: nobody}]
  colour: green
"""
RUNNING = """
apiVersion: v1
kind: Pod
metadata: {name: runs, labels: {app: runs}}
spec:
  nodeName: n1
  containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]
  affinity:
    nodeAffinity:
      requiredDuringSchedulingRequiredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: lamp, operator: Exists}]}]
status: {phase: Running}
"""
QUESTIONS = [
    ("simulation", "simulate"),
    ("audit", "audit"),
    ("pods/default/big", "explain big -n default"),
    ("pods/default/runs", "explain runs -n default"),
    ("pods/default/fits", "explain fits -n default"),
    ("fleet/simulation", "fleet simulate"),
]
CHANGES = [
    [["lose", "zone=a"]],
    [["drain", "n1"], ["cordon", "n2"]],
    [["add", "2=n1"]],
    [["scale", "shop/deployment/web=5"]],
]


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """Nodes, pods that run, wait and fit, and fields that nobody knows."""
    return files(
        tmp_path, NODES, WEB, RUNNING, pod("big", cpu="64"), pod("fits", "  nodeSelctor: {disk: fast}")
    )


def asked_of_the_page(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], questions: list[tuple[str, Any]]
) -> tuple[str, list[Any]]:
    """The options by which `berth web` says that others read the same, and its answers."""
    found: list[Any] = []
    options: list[str] = []

    async def serve(
        asked: PageSettings, documents: CommandDocuments, source: ClusterSource, *, opens: bool
    ) -> None:
        assert not opens
        options.append(f"{asked.command} {asked.flags}")
        page = PageServer(source, documents, asked.command, asked.flags)
        transport = httpx.ASGITransport(page.app())
        async with httpx.AsyncClient(transport=transport, base_url="http://page", timeout=60) as client:
            for path, body in questions:
                at = f"/api/v1/{path}"
                answer = await (client.get(at) if body is None else client.post(at, json=body))
                assert answer.status_code == 200, answer.text
                found.append(answer.json())
        page.close()

    monkeypatch.setattr(web, "_serve", serve)
    outcome = berth("web", *arguments)
    assert outcome.code == 0, outcome.err
    return options[0], found


def printed(command: str, options: str) -> Any:
    outcome = berth(*shlex.split(f"{command} {options} -o json"))
    assert outcome.out, outcome.err
    return json.loads(outcome.out)


@pytest.mark.parametrize("flags", [[], ["--validate", "ignore"], ["--kubernetes-version", "1.36"]])
def test_every_view_exports_what_its_command_prints(
    monkeypatch: pytest.MonkeyPatch, dump: Path, flags: list[str]
) -> None:
    """Whole documents, warnings and notes included, whatever options the page was started with."""
    asked = [(path, None) for path, _ in QUESTIONS] + [("what-if", {"changes": each}) for each in CHANGES]
    options, found = asked_of_the_page(monkeypatch, ["-f", str(dump), *flags], asked)
    commands = [command for _, command in QUESTIONS]
    commands += [shlex.join(["what-if", *map("--{0[0]}={0[1]}".format, each)]) for each in CHANGES]
    for command, document in zip(commands, found, strict=True):
        given = options.replace("--kubernetes-version=1.36", "") if command.startswith("fleet") else options
        assert document == printed(command, given), command


@pytest.mark.parametrize(("validate", "warns"), [("warn", True), ("ignore", False)])
def test_a_fleet_is_simulated_as_its_files_are_validated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, validate: str, warns: bool
) -> None:
    """A field that nobody knows is warned of in the fleet's export, or not, as `--validate` says."""
    (tmp_path / "stray.yaml").write_text(STRAY)
    arguments = [part for file in (*FLEET, tmp_path / "stray.yaml") for part in ("-f", str(file))]
    arguments += ["--validate", validate]
    options, (found,) = asked_of_the_page(monkeypatch, arguments, [("fleet/simulation", None)])
    assert found == printed("fleet simulate", options)
    assert any("colour" in each for each in found["warnings"]) is warns
