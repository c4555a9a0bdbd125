"""What a page of the documentation says, so that a test can compare it with what there is."""

from __future__ import annotations

import re
from collections.abc import Iterable

import click
from prometheus_client import CollectorRegistry

from tests.support.paths import ROOT


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def cells(text: str, section: str) -> dict[str, str]:
    """The rows of the tables in a section: what is in their first cell, and the rest."""
    part = text.split(section, 1)[1].split("\n## ", 1)[0].split("\n**", 1)[0]
    rows = re.findall(r"^\| (`.+?) \| (.+) \|$", part, re.MULTILINE)
    return {name: rest for names, rest in rows for name in re.findall(r"(?:^|, )`([^` ]+)", names)}


def manifests(text: str) -> list[str]:
    """The YAML blocks of a page."""
    return re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def assert_flags_documented(text: str, command: click.Command) -> None:
    """Every flag is in the table of the page, with its default where it has one that is always the same."""
    flags = {name.partition("[")[0]: rest for name, rest in cells(text, "## Flags").items()}
    options = [option for option in command.params if isinstance(option, click.Option)]
    assert {name for option in options for name in option.opts} == set(flags)
    shown = [option for option in options if option.show_default and not option.secondary_opts]
    assert shown
    for option in shown:
        default = option.default[0] if isinstance(option.default, tuple) else option.default
        assert f"`{default}`".lower() in flags[option.opts[-1]].partition("|")[0].lower()


def family_names(registry: CollectorRegistry) -> Iterable[str]:
    """The metrics of a registry, as they are written in queries."""
    for family in registry.collect():
        yield f"{family.name}_total" if family.type == "counter" else family.name
