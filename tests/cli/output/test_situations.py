"""The words of `berth explain` in thirty-seven situations, in small clusters and large, word by word.

`BERTH_WRITE_GOLDEN=1` writes tests/data/explain anew; read what changed before it is kept.
"""

import json
import os
from pathlib import Path

import pytest

from berth.cli.output.explanation_report import report
from berth.cli.output.tables import Terminal
from berth.engine.offline.explanation import Explanation, explain
from berth.engine.offline.lookup import find
from berth.engine.offline.simulation import simulate
from berth.engine.offline.snapshot import read
from berth.kube.manifests.manifest import load
from tests.cli.output.situations import SITUATIONS, Json, rollout
from tests.support.paths import DATA

GOLDEN = DATA / "explain"
WIDTH = 80


def explained(folder: Path, items: list[Json]) -> Explanation:
    file = folder / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    simulation = simulate(read(load([str(file)])))
    return explain(simulation, find(simulation, "p", "shop"))


@pytest.mark.parametrize("count", [6, 200])
@pytest.mark.parametrize("name", SITUATIONS)
def test_the_words(tmp_path: Path, name: str, count: int) -> None:
    """What is said is what was read and found good, and no line is wider than a terminal."""
    explanation = explained(tmp_path, SITUATIONS[name](count))
    lines = "\n".join(report(explanation, Terminal(width=WIDTH))).splitlines()
    golden = GOLDEN / f"{name}-{count}.txt"
    text = "\n".join(lines) + "\n"
    if os.environ.get("BERTH_WRITE_GOLDEN"):
        golden.write_text(text)
    assert golden.read_text() == text
    assert [line for line in lines if len(line) > WIDTH] == []


def test_pods_without_a_revision_are_no_old_ones(tmp_path: Path) -> None:
    """Where no label tells old pods from new, nobody is told to let the old ones go."""
    things = rollout(6)
    for thing in things:
        thing["metadata"].get("labels", {}).pop("pod-template-hash", None)
    assert not any("an old pod" in clue for clue in explained(tmp_path, things).clues)


@pytest.mark.parametrize(
    ("strategy", "blocked"),
    [
        ({"rollingUpdate": {"maxUnavailable": 0}}, True),
        ({"rollingUpdate": {"maxUnavailable": 1}}, False),
        ({"rollingUpdate": {"maxUnavailable": "50%"}}, False),
        ({}, False),
        ({"type": "Recreate"}, False),
    ],
)
def test_a_rollout_that_waits_for_its_old_pods(tmp_path: Path, strategy: Json, *, blocked: bool) -> None:
    """Told only if the Deployment keeps its old pods until a new one runs."""
    things = rollout(6)
    deployment = next(thing for thing in things if thing["kind"] == "Deployment")
    deployment["spec"]["strategy"] = strategy
    found = explained(tmp_path, things).clues
    assert any("an old pod of Deployment/web" in clue for clue in found) == blocked
    assert any("rollingUpdate.maxUnavailable 1 (now 0)" in clue for clue in found) == blocked
    # The Deployment has as many replicas as there are nodes: to be told so helps nobody.
    assert not any("replicas" in clue for clue in found)
