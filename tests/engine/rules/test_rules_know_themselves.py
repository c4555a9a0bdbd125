"""A rule is one folder: nobody else knows its name or its class, and the one list has them all."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from berth.engine.rules import RULES
from berth.engine.rules.base import Rule
from berth.kube.scheduler_configuration.plugins import DEFAULTS
from tests.support.paths import ROOT

SOURCE = ROOT / "src" / "berth"
FOLDER = SOURCE / "engine" / "rules"
NAMES = frozenset(rule.name for rule in RULES)
CLASSES = frozenset(rule.__name__ for rule in RULES)
# Where names of rules stand that are not those of the engine's rules, or must be read from a file.
ALLOWED = {
    "kube/scheduler_configuration/plugins.py": "a profile enables plugins by name",
    "kube/scheduler_configuration/arguments.py": "a profile's arguments are given by plugin name",
    "fleet/rules/cluster_rules.py": "the fleet's own rule of that name, about clusters",
}


# Who asks the parts of a rule for what they match, or for their words. None comes back.
ASKING = {
    "controllers/hollow/admission.py": "the kubelet judges by some rules alone, in words of its own",
    "engine/placement/daemons.py": "upstream's controller of DaemonSets judges nodes by some rules alone",
}


# What a rule gives to all.
GIVEN = frozenset(
    (
        "berth.engine.rules.dynamic_resources.reserves_claims",
        "berth.engine.rules.volume_binding.binds_volumes",
    )
)


def folder_of(rule: type[Rule]) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", rule.name).lower()


def outside() -> Iterator[Path]:
    """Every module but the one list and those of the rules' folders."""
    for path in SOURCE.rglob("*.py"):
        if FOLDER not in path.parent.parents and path != FOLDER / "__init__.py":
            yield path


def told(path: Path) -> Iterator[str]:
    """The names and classes of rules that a module knows."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and node.value in NAMES:
            yield f"{path.relative_to(SOURCE)}:{node.lineno} says {node.value!r}"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("berth.engine.rules."):
            for name in CLASSES.intersection(alias.name for alias in node.names):
                yield f"{path.relative_to(SOURCE)}:{node.lineno} imports {name}"


def test_nobody_else_knows_a_rule_by_its_name() -> None:
    """No name and no class of a rule stands outside its folder, but in the one list."""
    found = [each for path in outside() for each in told(path)]
    assert [each for each in found if each.partition(":")[0] not in ALLOWED] == []


def imported(path: Path) -> Iterator[str]:
    """The names that a module takes from others, in full."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_nobody_else_asks_the_parts_of_a_rule() -> None:
    """Who imports something of a rule says why, unless the rule gives it to all."""
    parts = tuple(f"berth.engine.rules.{folder_of(rule)}" for rule in RULES)
    asking = {
        str(path.relative_to(SOURCE))
        for path in outside()
        for name in imported(path)
        if name.startswith(parts) and name not in GIVEN
    }
    assert asking == ASKING.keys()


def test_what_is_allowed_is_needed() -> None:
    """Every exception that is allowed is made use of."""
    found = {each.partition(":")[0] for path in outside() for each in told(path)}
    assert found == ALLOWED.keys()


def test_rules_do_not_know_each_other_by_name() -> None:
    """A rule may ask another for what it matches, but not who it is."""
    for rule in RULES:
        others = NAMES - {rule.name}
        for path in (FOLDER / folder_of(rule)).rglob("*.py"):
            said = {
                node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)
            }
            assert not said & others, path


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_has_its_folder(rule: type[Rule]) -> None:
    """The folder has the plugin's name, and gives its class."""
    package = import_module(f"berth.engine.rules.{folder_of(rule)}")
    assert getattr(package, rule.__name__) is rule
    assert rule.__name__.removesuffix("Rule") == rule.name


def test_every_folder_is_in_the_list() -> None:
    """Every rule's folder is in the list of rules."""
    folders = {path.name for path in FOLDER.iterdir() if (path / "__init__.py").exists()}
    assert folders == {folder_of(rule) for rule in RULES}


def test_the_list_has_the_order_of_upstream() -> None:
    """Rules run in the order of the default plugins."""
    assert [rule.name for rule in RULES] == [name for name in DEFAULTS if name in NAMES]
