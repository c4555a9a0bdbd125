"""The documentation shows what the tools really print."""

import re

import pytest

from tests.support.cli.command import berth
from tests.support.paths import ROOT

PAGES = ("README.md", "docs/cli.md", "docs/what-if.md")


def transcripts(name: str) -> list[tuple[str, str]]:
    """The commands on the demonstration in a page, each with the output shown for it."""
    text = ROOT.joinpath(name).read_text(encoding="utf-8")
    blocks = re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    split = [block.partition("\n") for block in blocks if block.startswith("$ berth ")]
    return [(first.removeprefix("$ berth "), rest) for first, _, rest in split if "demo/" in first]


@pytest.mark.parametrize(
    ("command", "shown"),
    [transcript for page in PAGES for transcript in transcripts(page)],
    ids=lambda text: text.split("\n")[0][:40],
)
def test_documented_output_is_real(command: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Running a documented command as it is printed, in a fresh clone, gives the documented output."""
    monkeypatch.chdir(ROOT)
    outcome = berth(*command.split())
    assert outcome.out + outcome.err == shown
