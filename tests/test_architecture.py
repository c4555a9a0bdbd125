"""The pages for the next engineer name what is there."""

import re

import pytest

from tests.support.paths import ROOT

SOURCES = ROOT / "src" / "berth"
PAGES = ("docs/architecture.md", "docs/glossary.md", "CONTRIBUTING.md", "docs/engine.md")
FLOORS = "kube|engine|machines|live|scheduler|eviction|fleet|controllers|server|cli"


def _named(page: str) -> set[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return set(re.findall(rf"`((?:{FLOORS})(?:/[a-z_]+)+)(?:\.py)?(?:/|`|\.[A-Z])", text))


@pytest.mark.parametrize("page", PAGES)
def test_every_module_that_a_page_names_is_there(page: str) -> None:
    """A module that is moved takes its mention along."""
    missing = {
        name for name in _named(page) if not ((SOURCES / name).is_dir() or (SOURCES / f"{name}.py").is_file())
    }
    assert _named(page)
    assert missing == set()


def test_every_floor_has_its_line() -> None:
    """The picture shows all packages of the house, and no other."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"^([a-z]+)/ ", text.split("```")[1], flags=re.MULTILINE))
    assert shown == {path.parent.name for path in SOURCES.glob("*/__init__.py")}


def test_every_class_of_the_glossary_is_there() -> None:
    """A class that the glossary names exists under that name."""
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    named = {name for name in re.findall(r"`([A-Z][A-Za-z]+)[.`]", text) if any(c.islower() for c in name)}
    code = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py"))
    assert {name for name in named if f"class {name}" not in code} == set()
