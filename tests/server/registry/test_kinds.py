"""Every kind has one strategy, and nobody else knows it by its name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import berth.server
from berth.server.registry import kinds
from berth.server.registry.kinds import STRATEGIES
from berth.server.registry.kinds.custom.karmada import definitions
from tests.support.manifests.builtin import BUILTIN

ROOT = Path(berth.server.__file__).parent
KINDS = {resource.kind for resource in BUILTIN} | {crd["spec"]["names"]["kind"] for crd in definitions()}
# Where a word that is also a kind's name means something else or only names a kind, without a choice.
EXCEPTIONS = {
    "http/documents.py": {"Cluster"},  # the scope of a resource
    "registry/strategy.py": {"Binding"},  # what the binding subresource takes
}
# What requests are answered with, whatever kind they are for.
USED_BY_HTTP = {
    "app.py": {"may_everything", "require", "expire"},
    "documents.py": {"ISSUER"},
    "handlers.py": {"require"},
    "requests.py": {"bearer", "require"},
    "state.py": {"strategies_of", "strategy_of_custom"},
}


def named(path: Path) -> Iterator[str]:
    """The kinds whose names stand in a module as strings of their own."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in KINDS:
            yield node.value


def test_no_kind_is_named_outside_of_its_file() -> None:
    """What the server does about a kind is its strategy's: nothing else compares with a kind's name."""
    found = {
        str(path.relative_to(ROOT)): held
        for path in ROOT.rglob("*.py")
        if "kinds" not in path.relative_to(ROOT).parts
        if (held := set(named(path)))
    }
    assert found == EXCEPTIONS


def test_no_kind_is_imported_by_what_answers_requests() -> None:
    """Requests are answered through strategies: nothing imports what is done about one kind."""
    found = {
        path.name: names
        for path in (ROOT / "http").glob("*.py")
        if (
            names := {
                name.name
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.ImportFrom) and ".registry.kinds" in (node.module or "")
                for name in node.names
            }
        )
    }
    assert found == USED_BY_HTTP


def test_a_kind_is_named_in_one_file() -> None:
    """Nobody looks for a kind's rules in two files: each module of strategies names its own kinds only."""
    folder = ROOT / "registry" / "kinds"
    own = {
        path: {
            ast.literal_eval(call.args[1])
            for call in ast.walk(ast.parse(path.read_text()))
            if isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id == "served"
            and isinstance(call.args[1], ast.Constant)
        }
        for path in folder.rglob("*.py")
    }
    foreign = {
        path.name: others
        for path, kept in own.items()
        if (others := {kind for kind in named(path) if any(kind in held for held in own.values())} - kept)
    }
    # What a Binding points at, what bounds are for, how a group is disrupted, who has a role; and headings.
    assert foreign == {
        "claims.py": {"Node"},
        "bindings.py": {"Node"},
        "pods.py": {"Node"},
        "limits.py": {"PersistentVolumeClaim", "Pod"},
        "pod_groups.py": {"Pod"},
        "roles.py": {"ServiceAccount"},
    }


def test_resources_are_served_once() -> None:
    """Two strategies for one resource would hide one of them."""
    served = [(each.resource.group, each.resource.version, each.resource.plural) for each in STRATEGIES]
    assert len(set(served)) == len(served)


def test_a_group_has_its_place_in_one_file() -> None:
    """Every API group is placed, and by one file: two would hide each other, and others come last."""
    placed = [
        group
        for module in walk_packages(kinds.__path__, f"{kinds.__name__}.")
        for group in getattr(import_module(module.name), "GROUP_PRIORITIES", ())
    ]
    assert sorted(placed) == sorted({each.resource.group for each in STRATEGIES})
