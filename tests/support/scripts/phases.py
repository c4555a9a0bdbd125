"""The phases of a pod, as docs/design/control-plane.md lists them."""

from __future__ import annotations

import re

from tests.support.paths import ROOT


def table_of_phases() -> dict[str, set[str]]:
    """Each phase of the table, with those that may come next."""
    text = (ROOT / "docs" / "design" / "control-plane.md").read_text(encoding="utf-8")
    _, _, table = text.partition("| phase | the pod | next |\n|---|---|---|\n")
    rows = re.findall(r"^\| (\w+) \|[^|]*\|([^|]*)\|$", table.partition("\n\n")[0], flags=re.MULTILINE)
    return {phase: set(after.replace(",", " ").split()) for phase, after in rows}
