"""The command line as a whole: help, exit codes, streams, and that it starts at once."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from berth import __version__
from berth.cli import main
from tests.support.cli.command import NODES, berth, files, pod

BERTH = Path(sys.executable).with_name("berth")


def start(
    *command: str | Path, stdin: str = "", environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own program, or bash around it
        command,
        input=stdin,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def shell(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return start(BERTH, *arguments)


def test_help_lists_every_command() -> None:
    """The help of the group and of every command can be shown."""
    outcome = berth("--help")
    assert outcome.code == 0
    for name in main._COMMANDS:
        assert re.search(rf"^  {name} ", outcome.out, re.MULTILINE)
        assert f"berth {name}" in berth(name, "--help").out


def test_help_lines_are_those_of_the_commands() -> None:
    """What the group says about a command without importing it is not made up."""
    context = main.cli.make_context("berth", ["--version-less"], resilient_parsing=True)
    for name in main._COMMANDS:
        command = main.cli.get_command(context, name)
        assert command is not None
        assert name == command.name


def test_help_imports_nothing_heavy() -> None:
    """`berth --help` is immediate because it imports neither numpy nor msgspec nor rich."""
    program = (
        "import sys; from berth.cli.main import run; run(['--help']); "
        "sys.exit(bool({'numpy', 'msgspec', 'rich', 'yaml'} & set(sys.modules)))"
    )
    done = start(sys.executable, "-c", program)
    assert done.returncode == 0


def test_numpy_starts_no_threads() -> None:
    """Threads for linear algebra would look for work that never comes, beside the API server."""
    program = (
        "import contextlib, os, sys; from berth.cli.main import main; sys.argv = ['berth', 'audit', '-h']\n"
        "with contextlib.suppress(SystemExit): main()\n"
        "import numpy; sys.exit(len(os.listdir('/proc/self/task')) - 1)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=60)  # noqa: S603
    assert done.returncode == 0


def test_version() -> None:
    """The version is that of the package."""
    assert f"berth {__version__}\n" == berth("--version").out


@pytest.mark.parametrize(
    "arguments",
    [
        ("frobnicate",),
        ("simulate",),
        ("simulate", "-f", "x", "-o", "xml"),
        ("simulate", "-f", "x", "--seed", "-1"),
    ],
)
def test_usage_errors(arguments: tuple[str, ...]) -> None:
    """A command line that cannot be understood gives one sentence on stderr and exit code 2."""
    outcome = berth(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("error: ")


def test_unexpected_errors_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug of ours does not pour a traceback over the user, unless asked for with -v."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(main.cli, "invoke", fail)
    outcome = berth("demo")
    assert (outcome.code, outcome.out) == (70, "")
    assert outcome.err.startswith("error: unexpected RuntimeError: boom")
    with pytest.raises(RuntimeError):
        berth("-v", "demo")


def test_an_interrupt_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends with 130 and without a word."""

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main.cli, "invoke", interrupt)
    outcome = berth("demo")
    assert (outcome.code, outcome.out) == (130, "")
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_completion(shell_name: str) -> None:
    """Each shell gets a script that asks berth itself."""
    outcome = berth("completion", shell_name)
    assert outcome.code == 0
    assert "_BERTH_COMPLETE" in outcome.out


def test_completion_completes() -> None:
    """The script's question is answered with the commands."""
    environment = {
        "_BERTH_COMPLETE": "bash_complete",
        "COMP_WORDS": "berth si",
        "COMP_CWORD": "1",
    }
    done = start(BERTH, environment=environment)
    assert done.stdout == "plain,simulate\n"


# --- real processes --------------------------------------------------------------------------


def test_streams_and_exit_code(tmp_path: Path) -> None:
    """Results go to stdout, notes to stderr, and the exit code says that a pod was left."""
    folder = files(tmp_path, NODES, pod("big", cpu="9"), pod("lost", "  nodeName: n9"))
    done = shell("simulate", "-f", folder)
    assert done.returncode == 1
    assert (
        done.stderr == "note: pod default/lost is on a node that is not among the files and does not count\n"
    )
    assert "0/2 nodes are available: 2 Insufficient cpu." in done.stdout


def test_plain_text_without_a_terminal(tmp_path: Path) -> None:
    """What is piped has no colour codes and no bar."""
    done = shell("simulate", "-f", files(tmp_path, NODES, pod()))
    assert "\x1b" not in done.stdout + done.stderr


def test_a_closed_pipe_is_quiet(tmp_path: Path) -> None:
    """`berth ... | head -1` ends without a complaint."""
    case = '{"id": "x", "nodes": [], "pod": {}}\n'
    tmp_path.joinpath("cases.jsonl").write_text(case * 20_000)
    command = f"'{BERTH}' evaluate '{tmp_path}/cases.jsonl' | head -1; echo ${{PIPESTATUS[0]}}"
    done = start("bash", "-c", command)
    assert (done.stderr, done.stdout.splitlines()[-1]) == ("", "141")
    assert len(done.stdout.splitlines()) == 2


def test_the_kubectl_plugin_is_the_same_program() -> None:
    """`kubectl berth` finds an executable of that name, and its help says so."""
    plugin = BERTH.with_name("kubectl-berth")
    done = start(plugin, "simulate", "--help")
    assert "Usage: kubectl berth simulate" in done.stdout
