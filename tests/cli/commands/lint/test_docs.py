"""docs/lint.md is about the checks that there are, in their words."""

from __future__ import annotations

import re
from typing import Any

import yaml

from berth.cli.commands.lint import ALL_CHECKS
from berth.engine.offline.lint.findings import Check
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "lint.md"
MARK = (
    "<!-- From engine/offline/lint/checks.yaml; python -m tests.cli.commands.lint.test_docs writes it. -->\n"
)


def section(check: Check[Any]) -> str:
    words = check.words
    nodes = ", needs nodes" if words.nodes else ""
    return (
        f"### {check.code}\n\n`{words.name}`, {check.severity}{nodes}\n\n"
        f"{words.what}. {words.why}\n\nFix: {words.fix}\n\n"
        f"```yaml\n{words.example.rstrip()}\n```\n"
    )


def reference() -> str:
    rows = [
        f"| [{each.code}](#{each.code.lower()}) | `{each.words.name}` | {each.severity} "
        f"| {each.words.what} |\n"
        for each in ALL_CHECKS
    ]
    table = "| code | name | severity | what |\n|---|---|---|---|\n" + "".join(rows)
    return f"{MARK}\n{table}\n" + "\n".join(section(check) for check in ALL_CHECKS)


def test_the_page_lists_every_check() -> None:
    """Code, severity, what, why, fix and example of each are what the checks themselves say."""
    text = PAGE.read_text(encoding="utf-8")
    assert text[text.index(MARK) :] == reference()


def test_examples_can_be_read() -> None:
    """Every example is YAML."""
    for check in ALL_CHECKS:
        assert list(yaml.safe_load_all(check.words.example)), check.code


def test_words_are_sentences() -> None:
    """What has no full stop at its end, why and fix have one; a name is in small letters with hyphens."""
    for check in ALL_CHECKS:
        code, words = check.code, check.words
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", words.name), code
        assert not words.what.endswith("."), code
        assert words.why.endswith("."), code
        assert words.fix.endswith("."), code


if __name__ == "__main__":
    written = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(written[: written.index(MARK)] + reference(), encoding="utf-8")
