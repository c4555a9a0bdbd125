"""The shape of the code: tests say what they prove, names exist once, files and folders have a size."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT

SOURCE, TESTS = ROOT / "src" / "berth", ROOT / "tests"
MOST_LINES, MOST_MODULES = 500, 16
Documented = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

# Words that go on from something said before, and those that begin a clause after which the sentence comes.
CONTINUING = frozenset(("Also", "And", "But", "Nor", "Or", "Otherwise", "Then", "Though", "Which"))
SUBORDINATE = frozenset(("As", "However", "Whether", "Wherever", "Whichever"))
LEAST_WORDS = 4
# What a docstring may have after its first sentence.
SECTIONS = frozenset(("Args:", "Attributes:", "Raises:", "Returns:", "Yields:"))

# What is over the limits, and why it may be. Entries go as soon as they are not needed; none comes back.
LONG_FILES: dict[str, str] = {}
WIDE_FOLDERS: dict[str, str] = {
    "tests/reference/rules": "one module a rule, none of which imports Berth's",
}
# Strings that several modules give a name to without meaning the same thing by it.
SAME_BY_CHANCE: frozenset[str] = frozenset(
    (
        "berth",  # a scheduler, another scheduler and a cluster
        "*",  # every plugin, and every domain
        "<none>",  # in kubectl's tables, and in Berth's own
        "Success",  # of a rule, and of a binding
        "Running",  # a phase, and what `explain` says of a pod
        "Fits",  # a pod, and a binding
        "DoesNotFit",
        "node",  # a kind of rule, and a kind of metric
        "default",  # a namespace, and a service account
        "kubernetes",  # the finalizer of a namespace, and a Service
        "Terminating",  # a scope of quotas, and what `explain` says of a pod
    )
)


# Strings that have a name where they mean one thing, and are written out where they mean another.
PHASES = ("Ready", "Pending", "Running", "Succeeded", "Failed", "Terminating", "Unschedulable")
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal")  # of several kinds of selectors
RESOURCES = ("cpu", "memory", "pods", "requests.", "limits.")
FORMATS = ("quantity", "int-or-string")  # types in the data of schemas, too
KINDS = ("PriorityClass", "VolumeAttributesClass")  # which are scopes of quotas as well
SHORT = ("True", "False", "Unknown", "Always", "metadata.name", "default", "v1", "-", "*")
ORDINARY = frozenset((*PHASES, *OPERATORS, *RESOURCES, *FORMATS, *KINDS, *SHORT))


def modules(folder: Path) -> Iterator[Path]:
    yield from sorted(folder.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def nodes_of(path: Path) -> Iterator[ast.AST]:
    yield from ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def first_line(node: Documented) -> str:
    return (ast.get_docstring(node) or "").partition("\n")[0].strip()


def is_sentence(line: str) -> bool:
    """Whether a line may stand by itself: it has four words and an end, and goes on from nothing."""
    words = line.split()
    if len(words) < LEAST_WORDS or not line.endswith(".") or words[0].strip(",") in CONTINUING:
        return False
    return words[0] not in SUBORDINATE or any(mark in line for mark in ",:;")


def test_every_test_says_what_it_proves() -> None:
    """Every test function has a docstring, and the first line of it is a whole sentence."""
    silent = [
        f"{name_of(path)}::{node.name}: {first_line(node)}"
        for path in modules(TESTS)
        for node in nodes_of(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not is_sentence(first_line(node))
    ]
    assert silent == []


def test_docstrings_begin_with_what_it_is() -> None:
    """No docstring of a class or function begins with a list of arguments, attributes or errors."""
    listed = [
        f"{name_of(path)}::{node.name}"
        for path in modules(SOURCE)
        for node in nodes_of(path)
        if isinstance(node, Documented) and first_line(node) in SECTIONS
    ]
    assert listed == []


def types_of(path: Path) -> Iterator[str]:
    """The classes of a module, and the other names it has for types: those in camel case it assigns to."""
    for node in nodes_of(path):
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Name):
            yield from (target.id,) if target.id[0].isupper() and not target.id.isupper() else ()


def test_a_public_class_name_exists_once() -> None:
    """No two modules define a public class or alias of one name, so that a name says which one is meant."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in modules(SOURCE):
        for name in types_of(path):
            if not name.startswith("_"):
                places[name].append(name_of(path))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


@pytest.mark.parametrize("folder", [SOURCE, TESTS], ids=["source", "tests"])
def test_files_are_short(folder: Path) -> None:
    """No module has more than 500 lines, except for those that say why."""
    long = {
        name_of(path)
        for path in modules(folder)
        if len(path.read_text(encoding="utf-8").splitlines()) > MOST_LINES
    }
    allowed = {name for name in LONG_FILES if name.startswith(name_of(folder))}
    assert long <= allowed
    assert allowed <= long, "these are short by now"


@pytest.mark.parametrize("folder", [SOURCE, TESTS], ids=["source", "tests"])
def test_folders_are_small(folder: Path) -> None:
    """No folder has more than 16 modules, except for those that say why."""
    counts: dict[str, int] = defaultdict(int)
    for path in modules(folder):
        if path.name not in ("__init__.py", "conftest.py"):
            counts[name_of(path.parent)] += 1
    wide = {name for name, count in counts.items() if count > MOST_MODULES}
    allowed = {name for name in WIDE_FOLDERS if name.startswith(name_of(folder))}
    assert wide <= allowed
    assert allowed <= wide, "these are small by now"


def constants_of(path: Path) -> Iterator[str]:
    """The strings a module gives a name in capitals."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        pairs = [(target, node.value)]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(target.elts, node.value.elts, strict=True))
        for name, value in pairs:
            named = isinstance(name, ast.Name) and name.id.isupper()
            if named and isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.value


def test_a_well_known_string_is_written_once() -> None:
    """No two modules give a name to the same string; what is Kubernetes' own is in berth.kube.well_known."""
    places: dict[str, set[str]] = defaultdict(set)
    for path in modules(SOURCE):
        for text in constants_of(path):
            places[text].add(name_of(path))
    doubled = {text: sorted(found) for text, found in places.items() if len(found) > 1}
    assert {text: found for text, found in doubled.items() if text not in SAME_BY_CHANCE} == {}
    assert sorted(SAME_BY_CHANCE - doubled.keys()) == [], "these are written once by now"


def test_a_well_known_string_is_called_by_its_name() -> None:
    """A string that berth.kube has a name for is written nowhere else, if it means one thing only."""
    homes: dict[str, set[Path]] = defaultdict(set)
    for path in modules(SOURCE / "kube"):
        for text in constants_of(path):
            homes[text].add(path)
    again = [
        (node.value, f"{name_of(path)}:{node.lineno}")
        for path in modules(SOURCE)
        for node in nodes_of(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if path not in homes.get(node.value, {path})
    ]
    assert [(text, place) for text, place in again if text not in ORDINARY] == []
    assert sorted(ORDINARY - {text for text, _ in again}) == [], "these are written nowhere else by now"
