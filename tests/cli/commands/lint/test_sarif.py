"""`berth lint -o sarif` is SARIF 2.1.0, as far as code scanning looks at it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from berth import __version__
from berth.cli.commands.lint import ALL_CHECKS
from tests.support.cli.command import berth

PODS = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, image: i}], afinity: {}}
"""
# The properties that the standard has of each kind of object, and those it requires.
RESULT = {"ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints"}
RULE = {"id", "name", "shortDescription", "fullDescription", "help", "defaultConfiguration"}


def run_of(*arguments: str | Path, stdin: str = "") -> dict[str, Any]:
    log = json.loads(berth("lint", *arguments, "-o", "sarif", stdin=stdin).out)
    assert log.keys() == {"$schema", "version", "runs"}
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    assert run.keys() == {"tool", "columnKind", "results"}
    found: dict[str, Any] = run
    return found


def test_every_check_is_a_rule(tmp_path: Path) -> None:
    """Every check is a rule with its words and a level of the standard, whether it found something or not."""
    (tmp_path / "p.yaml").write_text(PODS)
    driver = run_of("-f", tmp_path)["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("berth", __version__)
    assert [rule["id"] for rule in driver["rules"]] == [check.code for check in ALL_CHECKS]
    for rule in driver["rules"]:
        assert rule.keys() == RULE
        assert rule["defaultConfiguration"]["level"] in ("error", "warning", "note")
        assert all(rule[name]["text"] for name in ("shortDescription", "fullDescription", "help"))


def test_a_finding_is_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It points to its rule, to a file by a relative address, and to a line; and it can be told again."""
    monkeypatch.chdir(tmp_path)
    name = "a b#ä%.yaml"
    (tmp_path / name).write_text(PODS)
    for given in (name, tmp_path / name):
        run = run_of("-f", given)
        (result,) = run["results"]
        assert result.keys() == RESULT
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "BERTH002"
        (location,) = result["locations"]
        physical = location["physicalLocation"]
        assert physical["region"] == {"startLine": 4}
        assert unquote(physical["artifactLocation"]["uri"]) == name
        assert not set(physical["artifactLocation"]["uri"]) & set(" #")
        assert result["level"] == "error"
        assert result["message"]["text"].startswith("Pod default/p: ")
    moved = tmp_path / name
    moved.write_text(f"# one line more\n{PODS}")
    (again,) = run_of("-f", name)["results"]
    assert again["partialFingerprints"] == result["partialFingerprints"]


def test_where_there_is_no_file(tmp_path: Path) -> None:
    """Standard input has an address that is one; a file elsewhere has a whole one."""
    (piped,) = run_of("-f", "-", stdin=PODS)["results"]
    assert piped["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "standard%20input"
    (tmp_path / "p.yaml").write_text(PODS)
    (away,) = run_of("-f", tmp_path / "p.yaml")["results"]
    uri = away["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == (tmp_path / "p.yaml").as_uri()
