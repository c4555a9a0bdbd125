"""What the documentation shows is what Berth does."""

import re

from berth.engine.rules import NODE_RULES, TOPOLOGY_RULES
from berth.engine.state.options import DEFAULT_WEIGHTS
from tests.support.paths import ROOT


def test_the_table_of_rules_is_complete() -> None:
    """docs/rules.md lists every rule, with the weight it has."""
    text = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \|[^|]*\|([^|]*)\|", text, flags=re.MULTILINE)
    listed = {name: re.search(r"\((\d+)\)", scores) for name, scores in rows if name[0].isupper()}

    assert {rule.name for rule in (*NODE_RULES, *TOPOLOGY_RULES)} == set(listed)
    weights = {name: int(found.group(1)) for name, found in listed.items() if found}
    assert dict(DEFAULT_WEIGHTS) == weights


def test_links_between_documents_lead_somewhere() -> None:
    """Every relative link in the README and the docs names a file that is there."""
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
