"""The pre-commit hooks and the composite action have the form that is asked for, and work."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from berth.cli.commands.lint import command
from tests.support.cli.command import berth
from tests.support.paths import ROOT

HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
ACTION: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "actions" / "lint" / "action.yml").read_text())
OPTIONS = {name for parameter in command.params for name in parameter.opts}
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, image: i}], afinity: {}}
"""


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_hooks(hook: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook has what pre-commit requires; its command works on files as pre-commit gives them."""
    assert {"id", "name", "entry", "language"} <= hook.keys()
    assert hook["language"] == "python"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(POD)
    (tmp_path / "values.yaml").write_text("replicas: 1\n")
    program, *arguments = hook["entry"].split()
    assert program == "berth"
    files = ["p.yaml", "values.yaml"] if hook.get("pass_filenames", True) else []
    outcome = berth(*arguments, *hook.get("args", []), *files)
    assert outcome.code == 1
    assert "p.yaml:4: error BERTH002" in outcome.out


def test_the_action_is_composite() -> None:
    """Every step has what GitHub requires; no input is pasted into a script; every input is used."""
    assert ACTION["runs"]["using"] == "composite"
    steps = ACTION["runs"]["steps"]
    for step in steps:
        assert "uses" in step or {"run", "shell"} <= step.keys()
        assert "${{" not in step.get("run", ""), "an input could be a command"
    used = " ".join(value for step in steps for value in step.get("env", {}).values())
    for name, given in ACTION["inputs"].items():
        assert f"inputs.{name} " in used
        assert given["description"]
        assert given.get("required") or "default" in given


@pytest.mark.parametrize(
    ("inputs", "code", "told"),
    [
        ({"FILES": "p.yaml"}, 1, "::error file=p.yaml,line=4,title=BERTH002 Pod default/p::"),
        ({"FILES": "p.yaml", "IGNORE": "BERTH002,BERTH111"}, 0, "Nothing found in 1 object, 1 ignored."),
        ({"FILES": "p.yaml", "ARGS": "--validate=warn"}, 0, "::warning file=p.yaml"),
        ({"FILES": "p.yaml", "ARGS": "--validate=warn", "FAIL_ON": "warning"}, 1, "::warning file=p.yaml"),
        ({"FILES": "p.yaml $(touch pwned)"}, 2, ""),
        ({"FILES": "p.yaml", "OUTPUT": "sarif"}, 1, ""),
        ({"FILES": "p.yaml", "CLUSTER": "p.yaml p.yaml"}, 2, ""),
    ],
    ids=lambda value: str(value)[:40],
)
def test_the_action_runs(inputs: dict[str, str], code: int, told: str, tmp_path: Path) -> None:
    """Its script gives the inputs to the command, as words and not as commands."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    (tmp_path / "p.yaml").write_text(POD)
    program = tmp_path / "bin" / "berth"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m berth "$@"\n')
    program.chmod(0o755)
    defaults = {
        name.upper().replace("-", "_"): given.get("default", "") for name, given in ACTION["inputs"].items()
    }
    environment = {
        **os.environ,
        **defaults,
        **inputs,
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
    }
    script = ACTION["runs"]["steps"][-1]["run"]
    done = subprocess.run(  # noqa: S603 - the repository's own script
        [bash, "-e", "-o", "pipefail", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert done.stdout.startswith(told)
    assert not (tmp_path / "pwned").exists()
    assert (tmp_path / "berth.sarif").exists() == (inputs.get("OUTPUT") == "sarif")


def test_the_options_that_are_named_exist() -> None:
    """Neither the action nor the page names an option that there is not."""
    script = ACTION["runs"]["steps"][-1]["run"]
    page = (ROOT / "docs" / "lint.md").read_text()
    own = page.partition("## Checks")[0]
    for option in ("--output", "--fail-on", "--cluster", "--ignore"):
        assert option in script
        assert option in OPTIONS
    for option in OPTIONS - {"--filename", "--output", "--context", "paths"}:
        assert option in own, option
