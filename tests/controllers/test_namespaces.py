"""A namespace that is to go is emptied, pods first, and says what it waits for."""

from __future__ import annotations

from typing import Any

from berth.controllers.namespaces import NamespaceController
from berth.kube.api_resources import DEPLOYMENTS, EVENTS, NAMESPACES, PODS, REPLICA_SETS
from berth.machines.contract import Action, DeleteAll, Outcome
from tests.support.scripts.script import Script

RESOURCES = (PODS, REPLICA_SETS, DEPLOYMENTS, EVENTS)


def shop(**pod: Any) -> Script:
    """A namespace with a Deployment and a pod, on its way out."""
    world = Script(lambda cache: NamespaceController(cache, RESOURCES))
    world.create(
        NAMESPACES,
        {"metadata": {"name": "shop", "finalizers": ["x"]}, "spec": {"finalizers": ["kubernetes"]}},
    )
    world.create(DEPLOYMENTS, {"metadata": {"name": "web", "namespace": "shop"}})
    world.create(PODS, {"metadata": {"name": "p", "namespace": "shop", **pod}, "spec": {"nodeName": "n"}})
    world.create(PODS, {"metadata": {"name": "q", "namespace": "other"}, "spec": {}})
    world.settle()
    assert world.names(NAMESPACES) == ["shop"]
    world.delete(NAMESPACES, "shop", "")
    return world


def said(world: Script) -> dict[str, tuple[str, str, str]]:
    status = world.get(NAMESPACES, "shop", "").get("status", {})
    return {c["type"]: (c["status"], c["reason"], c["message"]) for c in status.get("conditions", ())}


def test_pods_go_before_everything_else() -> None:
    """Pods take their time; only when they are gone the rest is told to go, then the namespace."""
    world = shop()
    world.settle()
    assert (world.names(DEPLOYMENTS), world.names(PODS)) == (["web"], ["p", "q"])
    world.delete(PODS, "p", "shop", grace=0)
    world.settle()
    assert (world.names(NAMESPACES), world.names(PODS), world.names(DEPLOYMENTS)) == ([], ["q"], [])


def test_it_says_what_it_waits_for() -> None:
    """The five conditions of upstream, with its words, and as the facts change."""
    world = shop(finalizers=["example.com/hold"])
    world.settle()
    assert said(world) == {
        "NamespaceDeletionDiscoveryFailure": (
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        "NamespaceDeletionGroupVersionParsingFailure": (
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        "NamespaceDeletionContentFailure": (
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        "NamespaceContentRemaining": (
            "True",
            "SomeResourcesRemain",
            "Some resources are remaining: pods. has 1 resource instances",
        ),
        "NamespaceFinalizersRemaining": (
            "True",
            "SomeFinalizersRemain",
            (
                "Some content in the namespace has finalizers remaining: "
                "example.com/hold in 1 resource instances"
            ),
        ),
    }
    world.change(PODS, "p", {"metadata": {"finalizers": None}}, "shop")
    world.advance(2)
    assert said(world)["NamespaceFinalizersRemaining"][0] == "False"


def test_what_cannot_be_deleted_is_told() -> None:
    """A refusal is in NamespaceDeletionContentFailure until it is over."""
    world = shop()
    world.delete(PODS, "p", "shop", grace=0)

    def refuse(action: Action) -> Outcome | None:
        if isinstance(action, DeleteAll) and action.resource is DEPLOYMENTS:
            return Outcome(at=world.now, code=500, reason="InternalError", message="disk full")
        return None

    world.refuse = refuse
    world.settle()
    status, reason, message = said(world)["NamespaceDeletionContentFailure"]
    assert (status, reason) == ("True", "ContentDeletionFailed")
    assert message == "Failed to delete all resource types, 1 remaining: disk full"
    world.refuse = lambda _: None
    world.advance(60)
    assert world.names(NAMESPACES) == []
