"""The pages for the next engineer name what is there."""

import re
from enum import Enum

import pytest

from berth.eviction.state import EvictionPhase
from berth.fleet.scheduler.binding_state import BindingPhase
from tests.support.paths import ROOT

SOURCES = ROOT / "src" / "berth"
DESIGN = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs" / "design").glob("*.md"))
PAGES = ("docs/architecture.md", "docs/glossary.md", "CONTRIBUTING.md", "docs/engine.md", *DESIGN)
FLOORS = {path.parent.name for path in SOURCES.glob("*/__init__.py")}
CODE = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py"))


def _text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def _quoted(page: str) -> set[str]:
    """What a page has between backquotes, examples in blocks aside."""
    return set(re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", _text(page), flags=re.DOTALL)))


def _is_there(name: str) -> bool:
    """Whether a name is a file or folder of the repository, or a module or package of Berth."""
    name = name.split("<", maxsplit=1)[0].rstrip("/")
    return any(path.exists() for path in (ROOT / name, SOURCES / name, SOURCES / f"{name}.py"))


@pytest.mark.parametrize("page", PAGES)
def test_every_module_that_a_page_names_is_there(page: str) -> None:
    """A module that is moved takes its mention along, and is written as a path from a package of Berth."""
    paths = {name for name in _quoted(page) if "/" in name and not name.startswith("berth.dev/")}
    modules = {re.sub(r"\.[A-Z]\w*$", "", name) for name in paths}
    assert {name for name in modules if not _is_there(name)} == set()
    assert any(name.split("/")[0] in FLOORS for name in modules)


@pytest.mark.parametrize("page", PAGES)
def test_pages_write_modules_in_one_way(page: str) -> None:
    """A module is named by its path from a package, never as berth.engine.rules or by its last part alone."""
    assert re.findall(r"`berth\.(?!dev/)[a-z_.]+`", _text(page)) == []
    tables = re.findall(r"^\| (?:part|package|module) \|.*\n((?:\|.*\n)+)", _text(page), flags=re.MULTILINE)
    listed = [row.split("|")[1] for table in tables for row in table.splitlines()[1:]]
    assert {name for cell in listed for name in re.findall(r"`([^`]+)`", cell) if "/" not in name} == set()


@pytest.mark.parametrize("page", PAGES)
def test_every_class_and_attribute_that_a_page_names_is_there(page: str) -> None:
    """A class, a method and a function that a page names exist under that name."""
    missing = set()
    for name in _quoted(page) - {"True", "None"}:
        known = re.fullmatch(r"([A-Z]\w*[a-z]\w*)(?:\.([a-z_]+))?|([a-z]+_[a-z_]+)(?:\(\))?", name)
        if known is None:
            continue
        owner, attribute, function = known.groups()
        if owner and not re.search(rf"^class {owner}\b", CODE, flags=re.MULTILINE):
            missing.add(name)
        word = attribute or function
        if word and not re.search(rf"\bdef {word}\b|\b{word}\b *[:=]", CODE):
            missing.add(name)
    assert missing == set()


def test_every_floor_has_its_line() -> None:
    """The picture shows all packages and modules at the root of the house, and no other."""
    shown = re.findall(r"^([a-z]+)(/?) ", _text("docs/architecture.md").split("```")[1], flags=re.MULTILINE)
    assert {name for name, is_folder in shown if is_folder} == FLOORS
    modules = {path.stem for path in SOURCES.glob("*.py") if not path.stem.startswith("__")}
    assert {name for name, is_folder in shown if not is_folder} == modules


def test_the_glossary_is_in_the_order_of_the_alphabet() -> None:
    """A word is found where one looks for it, and has one line."""
    words = re.findall(r"^\| ([a-z][a-z ]*) \|", _text("docs/glossary.md"), flags=re.MULTILINE)[1:]
    assert words == sorted(set(words))


@pytest.mark.parametrize(
    ("page", "phases"),
    [("docs/design/fleet.md", BindingPhase), ("src/berth/eviction/lifecycle.py", EvictionPhase)],
)
def test_every_phase_is_in_its_table(page: str, phases: type[Enum]) -> None:
    """The table of phases has a row for every phase of the machine, and for no other."""
    shown = re.findall(r"^\| `([A-Z]+)` +\|", _text(page), flags=re.MULTILINE)
    assert set(shown) == {phase.name for phase in phases}
