"""What loses its owners goes, and nothing else."""

from __future__ import annotations

from typing import Any

from berth.controllers.garbage import GarbageCollector
from berth.kube.api_resources import DEPLOYMENTS, PODS, REPLICA_SETS
from berth.machines.cache import Cache
from berth.machines.contract import Get
from tests.support.scripts.script import Script

RESOURCES = (PODS, REPLICA_SETS, DEPLOYMENTS)


def collector(cache: Cache) -> GarbageCollector:
    del cache
    return GarbageCollector(RESOURCES)


def owned(world: Script, resource: Any, name: str, *owners: tuple[Any, dict[str, Any]]) -> Any:
    references = [
        {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
        for kind, owner in owners
    ]
    return world.create(resource, {"metadata": {"name": name, "ownerReferences": references}})


def family() -> tuple[Script, dict[str, Any], dict[str, Any]]:
    world = Script(collector)
    top = world.create(DEPLOYMENTS, {"metadata": {"name": "top"}})
    middle = owned(world, REPLICA_SETS, "middle", (DEPLOYMENTS, top))
    owned(world, PODS, "leaf", (REPLICA_SETS, middle))
    world.settle()
    return world, top, middle


def test_dependents_follow_their_owner() -> None:
    """Background deletion works its way down, generation by generation."""
    world, _, _ = family()
    world.delete(DEPLOYMENTS, "top")
    world.settle()
    assert [*world.names(REPLICA_SETS), *world.names(PODS)] == []


def test_foreground_deletion_starts_with_the_leaves() -> None:
    """An owner with the foreground finalizer stays until those that block it are gone."""
    world, _, _ = family()
    world.change(PODS, "leaf", {"metadata": {"finalizers": ["example.com/hold"]}})
    world.change(DEPLOYMENTS, "top", {"metadata": {"finalizers": ["foregroundDeletion"]}})
    world.delete(DEPLOYMENTS, "top")
    world.settle()
    assert (world.names(DEPLOYMENTS), world.names(PODS)) == (["top"], ["leaf"])
    world.change(PODS, "leaf", {"metadata": {"finalizers": None}})
    world.drop_finished(PODS, "leaf", "default")
    world.settle()
    assert [*world.names(DEPLOYMENTS), *world.names(REPLICA_SETS), *world.names(PODS)] == []


def test_orphaning_leaves_the_dependents() -> None:
    """With the orphan finalizer dependents lose their reference and stay."""
    world, _, _ = family()
    world.change(DEPLOYMENTS, "top", {"metadata": {"finalizers": ["orphan"]}})
    world.delete(DEPLOYMENTS, "top")
    world.settle()
    assert (world.names(DEPLOYMENTS), world.names(REPLICA_SETS)) == ([], ["middle"])
    assert "ownerReferences" not in world.get(REPLICA_SETS, "middle")["metadata"]


def test_one_living_owner_is_enough() -> None:
    """A dependent with one owner left stays and only loses the reference to the one that is gone."""
    world = Script(collector)
    first = world.create(DEPLOYMENTS, {"metadata": {"name": "first"}})
    second = world.create(DEPLOYMENTS, {"metadata": {"name": "second"}})
    owned(world, PODS, "shared", (DEPLOYMENTS, first), (DEPLOYMENTS, second))
    world.delete(DEPLOYMENTS, "first")
    world.settle()
    owners = world.get(PODS, "shared")["metadata"]["ownerReferences"]
    assert [owner["name"] for owner in owners] == ["second"]


def test_an_owner_nobody_has_seen_is_looked_up_first() -> None:
    """A dependent is deleted for a missing owner only after asking for it; a reused name does not count."""
    world = Script(collector)
    stranger = {"metadata": {"name": "ghost", "uid": "long-gone"}}
    world.create(DEPLOYMENTS, {"metadata": {"name": "ghost"}})
    owned(world, PODS, "leaf", (DEPLOYMENTS, stranger))
    world.settle()
    assert world.names(PODS) == []
    assert any(isinstance(action, Get) and action.name == "ghost" for action in world.done)


def test_owners_of_unknown_kinds_are_left_alone() -> None:
    """What cannot be looked up is not taken for gone."""
    world = Script(collector)
    reference = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "x", "uid": "u"}
    world.create(PODS, {"metadata": {"name": "leaf", "ownerReferences": [reference]}})
    world.advance(100)
    assert world.names(PODS) == ["leaf"]


def test_who_owns_himself_goes() -> None:
    """Nobody waits for himself, though he says that he blocks his owner."""
    world = Script(collector)
    own = world.create(PODS, {"metadata": {"name": "own"}})
    reference = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "own",
        "uid": own["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
    changes = {"ownerReferences": [reference], "finalizers": ["foregroundDeletion"]}
    world.change(PODS, "own", {"metadata": changes})
    world.delete(PODS, "own")
    world.settle()
    assert world.names(PODS) == []


def test_a_circle_of_owners_goes() -> None:
    """In a circle with foreground deletion one of them gives way, so that all of them go."""
    world = Script(collector)
    first = world.create(PODS, {"metadata": {"name": "first"}})
    second = owned(world, PODS, "second", (PODS, first))
    third = owned(world, PODS, "third", (PODS, second))
    reference = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "third",
        "uid": third["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
    changes = {"ownerReferences": [reference], "finalizers": ["foregroundDeletion"]}
    world.change(PODS, "first", {"metadata": changes})
    world.delete(PODS, "first")
    world.settle()
    assert world.names(PODS) == []
