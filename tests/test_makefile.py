"""`make up` and `make test`, with stand-ins for everything they install and run."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.paths import ROOT

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not on PATH")

# Writes down how it was called; one that is asked for a virtual environment makes more of itself.
STAND_IN = """#!/bin/sh
echo "$(basename "$0") $*" >> "{log}"
case "$1 $2" in
  "-m venv"|"venv --quiet")
    for folder; do :; done
    mkdir -p "$folder/bin"
    for name in python berth ruff mypy lint-imports pytest; do cp "$0" "$folder/bin/$name"; done;;
esac
"""


class Machine:
    """A fresh clone, and what is on PATH beside it."""

    def __init__(self, folder: Path, *, uv: bool) -> None:
        self._log, self._bin, self._clone = folder / "log", folder / "bin", folder / "clone"
        self._bin.mkdir()
        self._clone.mkdir()
        for name in ("Makefile", "pyproject.toml", "requirements-dev.lock"):
            shutil.copy(ROOT / name, self._clone)
        # Where uv is beside make, it is told not to use it.
        self._unset = {} if uv or shutil.which("uv") is None else {"UV": ""}
        for name in ("python3", *(["uv"] if uv else [])):
            (self._bin / name).write_text(STAND_IN.format(log=self._log))
            (self._bin / name).chmod(0o755)

    def make(self, target: str) -> tuple[list[str], list[str]]:
        """What is said, and what is run."""
        self._log.unlink(missing_ok=True)
        tools = [str(Path(found).parent) for name in ("make", "sh", "mkdir") if (found := shutil.which(name))]
        told = subprocess.run(  # noqa: S603
            [shutil.which("make") or "make", target],
            cwd=self._clone,
            env={"PATH": os.pathsep.join([str(self._bin), *tools]), "CHROME": "there", **self._unset},
            capture_output=True,
            text=True,
            check=True,
        )
        return told.stdout.splitlines(), self._log.read_text().splitlines()


@pytest.mark.parametrize("uv", [False, True], ids=["pip", "uv"])
def test_up_installs_only_what_runs_and_test_adds_the_rest(tmp_path: Path, *, uv: bool) -> None:
    """With uv where it is on PATH, with pip otherwise; both hold on to the locked versions."""
    machine = Machine(tmp_path, uv=uv)
    _, ran = machine.make("up")
    assert ran[-1] == "berth up"
    installed = [line for line in ran if "install" in line]
    assert [line.split()[0] for line in installed] == ["uv" if uv else "python"]
    assert installed[0].endswith("--constraint requirements-dev.lock --editable .")
    _, ran = machine.make("test")
    assert [line.split(" --editable ")[1] for line in ran if "install" in line] == [".[dev]"]
    _, ran = machine.make("up")
    assert ran == ["python -m compileall -q src", "berth up"]


def test_every_step_is_announced_before_it_runs(tmp_path: Path) -> None:
    """Nobody looks at an empty screen: installing, each check and the tests say what they are."""
    said, ran = Machine(tmp_path, uv=False).make("test")
    steps = [line.split()[1].rstrip(":") for line in said if line.startswith("==> ")]
    assert steps == ["Making", "Installing", "Installing", "ruff", "mypy", "lint-imports", "pytest"]
    assert ran[-1].startswith("pytest -n ")
