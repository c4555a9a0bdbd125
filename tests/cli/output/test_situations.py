"""The words of `berth explain` in twenty-one situations, in small clusters and large, word by word.

`BERTH_WRITE_GOLDEN=1` writes tests/data/explain anew; read what changed before it is kept.
"""

import json
import os
from pathlib import Path

import pytest

from berth.cli.output.explanation_report import report
from berth.cli.output.tables import Terminal
from berth.engine.offline.explanation import explain
from berth.engine.offline.lookup import find
from berth.engine.offline.simulation import simulate
from berth.engine.offline.snapshot import read
from berth.kube.manifests.manifest import load
from tests.cli.output.situations import SITUATIONS
from tests.support.paths import DATA

GOLDEN = DATA / "explain"
WIDTH = 80


@pytest.mark.parametrize("count", [6, 200])
@pytest.mark.parametrize("name", SITUATIONS)
def test_the_words(tmp_path: Path, name: str, count: int) -> None:
    """What is said is what was read and found good, and no line is wider than a terminal."""
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": SITUATIONS[name](count)}))
    simulation = simulate(read(load([str(file)])))
    explanation = explain(simulation, find(simulation, "p", "shop"))
    lines = "\n".join(report(explanation, Terminal(width=WIDTH), wide=False)).splitlines()
    golden = GOLDEN / f"{name}-{count}.txt"
    text = "\n".join(lines) + "\n"
    if os.environ.get("BERTH_WRITE_GOLDEN"):
        golden.write_text(text)
    assert golden.read_text() == text
    assert [line for line in lines if len(line) > WIDTH] == []
