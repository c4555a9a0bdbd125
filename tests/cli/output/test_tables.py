"""Tables fit the terminal they are shown on."""

import os
import re
import termios
from pathlib import Path

import click
import pytest

import berth.cli
from berth.cli.output.explanation_report import report
from berth.cli.output.tables import Terminal, indented, table, tell, terminal
from tests.support.snapshots import explained, new, zone_node

ROWS = [("n1", None, "a long sentence that does not fit"), ("node-2", 3, "short")]
HEADERS = ("NAME", "PODS", "WHY")


def test_columns_are_three_spaces_apart() -> None:
    """Without a terminal nothing is wrapped or coloured, and what is missing shows as <none>."""
    assert table(HEADERS, ROWS, Terminal()) == (
        "NAME     PODS     WHY\nn1       <none>   a long sentence that does not fit\nnode-2   3        short"
    )


def test_the_last_column_is_wrapped_at_the_edge() -> None:
    """On a terminal the last column continues under itself."""
    text = table(HEADERS, ROWS, Terminal(width=48))
    assert text.splitlines()[1:3] == ["n1       <none>   a long sentence that does not", " " * 18 + "fit"]


def test_colour_does_not_move_columns() -> None:
    """With the colour codes taken out a coloured table is the plain one."""
    coloured = table(HEADERS, ROWS, Terminal(color=True), lambda cell: "red" if cell == "<none>" else None)
    assert "\x1b[31m" in coloured
    assert click.unstyle(coloured) == table(HEADERS, ROWS, Terminal())


def test_paragraphs_hang_under_their_first_line() -> None:
    """A wrapped paragraph keeps its indent."""
    assert indented("one two three four five six seven", "  - ", Terminal(width=30)).splitlines() == [
        "  - one two three four five",
        "    six seven",
    ]


@pytest.mark.parametrize(
    ("environment", "color"),
    [({}, False), ({"CLICOLOR_FORCE": "1"}, True), ({"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, False)],
)
def test_colour_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], color: bool
) -> None:
    """There is no colour without a terminal unless it is forced, and never against NO_COLOR."""
    for name in ("CLICOLOR_FORCE", "NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert terminal().color is color


def test_a_narrow_terminal_leaves_out_rules_that_decide_nothing() -> None:
    """Where the score sheet is too wide, rules with equal scores move into one line below it."""
    nodes = [zone_node("n1", "a").build(), zone_node("n2", "b").labels(disk="ssd").build()]
    explanation = explained("p", *nodes, new("p").prefers_nodes(disk="ssd").build())
    narrow = "\n".join(report(explanation, Terminal(width=60))).splitlines()
    assert "NODE   ZONE   TOTAL   NodeAffinity x2" in [line.rstrip() for line in narrow]
    assert any(line.startswith("The same everywhere: TaintToleration 100") for line in narrow)
    assert max(map(len, narrow)) <= 60


def test_notes_and_warnings_are_wrapped_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is said on stderr ends where the terminal does; a file or a pipe gets it in one line."""
    said = "there is no StorageClass fast among the files: its claims are taken to find a volume on any node"
    tell("note", said)
    assert capsys.readouterr().err == f"note: {said}\n"
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    tell("note", said)
    lines = capsys.readouterr().err.splitlines()
    assert max(map(len, lines)) <= 60
    assert " ".join(line.strip() for line in lines) == f"note: {said}"


def test_every_note_warning_and_error_goes_that_way() -> None:
    """No command writes such a line by itself."""
    sources = (Path(berth.cli.__file__).parent).rglob("*.py")
    assert not [file for file in sources if re.search(r'echo\(f?"(note|warning|error): ', file.read_text())]


def test_the_width_is_that_of_the_stream_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """The width is that of the current stream, also once the one that Python began with was replaced."""
    _, end = os.openpty()
    termios.tcsetwinsize(end, (50, 60))
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr("sys.__stdout__", None)
    with os.fdopen(end, "w") as stream:
        monkeypatch.setattr("sys.stdout", stream)
        assert terminal().width == 60
        monkeypatch.undo()
