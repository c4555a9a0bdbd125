"""Streams that take nothing, and text that would do something to a terminal."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from berth.cli.output import visible
from tests.support.paths import ROOT

EXAMPLE = ROOT / "examples/topology-spread/rolling-upgrade-two-nodes.yaml"


def berth(*arguments: str | Path, redirected: str = "") -> subprocess.CompletedProcess[str]:
    """Run it through a shell, which can close streams."""
    words = " ".join(map(str, arguments))
    return subprocess.run(  # noqa: S602
        f"{sys.executable} -m berth {words} {redirected}",
        shell=True,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_full_disk_behind_standard_output(form: str) -> None:
    """One sentence and exit code 2, whatever was to be written."""
    done = berth("simulate", "-f", EXAMPLE, "-o", form, redirected="> /dev/full")

    assert (done.returncode, done.stderr) == (2, "error: cannot write the output: No space left on device\n")


@pytest.mark.parametrize(("redirected", "code"), [(">&-", 2), ("2>&-", 0), (">&- 2>&-", 2), ("<&-", 0)])
def test_closed_streams(redirected: str, code: int) -> None:
    """What cannot be written is an error, what need not be read or said is none."""
    assert berth("simulate", "-f", EXAMPLE, redirected=redirected).returncode == code
    done = berth("simulate", "-f", "missing.yaml", redirected=redirected)
    assert done.returncode == 2


@pytest.mark.parametrize(
    ("arguments", "redirected", "sentence"),
    [
        (("--version",), ">&-", "cannot write the output: Bad file descriptor"),
        (("lint", "-f", "-"), "<&-", "cannot read standard input: Bad file descriptor"),
        (("simulate", "-f", "-"), "<&-", "-: cannot be read: Bad file descriptor"),
    ],
)
def test_a_closed_stream_is_told_once(arguments: tuple[str, ...], redirected: str, sentence: str) -> None:
    """A stream that was closed is told of in one sentence, which says which one it is."""
    done = berth(*arguments, redirected=redirected)
    assert (done.returncode, done.stderr) == (2, f"error: {sentence}\n")


@pytest.mark.parametrize("arguments", ["nosuch", "simulate", "simulate --nosuch", "simulate -f missing.yaml"])
def test_mistakes_behind_a_full_standard_error(arguments: str) -> None:
    """What cannot be said is still no answer: exit code 2."""
    assert berth(arguments, redirected="2> /dev/full").returncode == 2


def test_saving_to_what_is_no_file(tmp_path: Path) -> None:
    """A device or pipe is written to, a link stays a link, and a full device is told."""
    done = berth("simulate", "-f", EXAMPLE, "--save", "/dev/full", redirected="> /dev/null")
    assert done.returncode == 2
    assert done.stderr == "error: /dev/full: cannot be written: No space left on device\n"
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)  # noqa: PTH116
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "real.json").chmod(0o640)
    (tmp_path / "link.json").symlink_to("real.json")
    assert berth("simulate", "-f", EXAMPLE, "--save", tmp_path / "link.json").returncode == 0
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "real.json").read_text())["kind"] == "List"
    assert (tmp_path / "real.json").stat().st_mode & 0o777 == 0o640


def test_control_characters_are_spelt_out(tmp_path: Path) -> None:
    """A name that would clear the screen is shown as it is written, in errors as in tables."""
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a\x1b[2J\rb\u202e"}}
    (tmp_path / "pod.json").write_text(json.dumps(manifest))
    done = berth("simulate", "-f", tmp_path / "pod.json")

    assert "\x1b" not in done.stderr
    assert "\\x1b[2J\\x0db\\u202e" in done.stderr


@pytest.mark.parametrize(
    ("colours", "shown"),
    [(False, "\\x1b[31ma\\x1b[0m\tb\\x1b[2J\\x9b\n"), (True, "\x1b[31ma\x1b[0m\tb\\x1b[2J\\x9b\n")],
)
def test_only_colours_pass(monkeypatch: pytest.MonkeyPatch, *, colours: bool, shown: str) -> None:
    """Where colours are shown, theirs are the only sequences that a terminal gets."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="utf-8"))
    monkeypatch.setenv("CLICOLOR_FORCE", "1" if colours else "0")
    visible.guard_output()
    print("\x1b[31ma\x1b[0m\tb\x1b[2J\x9b", flush=True)  # noqa: T201

    assert written.getvalue().decode() == shown
