"""A group of an index goes with its last entry, and a workload is found from what it controls."""

from __future__ import annotations

from berth.kube.api_resources import DEPLOYMENTS, REPLICA_SETS
from berth.kube.objects import LiveWorkload, ObjectMeta, OwnerReference
from berth.kube.well_known import ADDED
from berth.machines.cache import Cache, take
from berth.machines.contract import Event


def test_what_is_left_stays() -> None:
    """Removing one entry of a group leaves the others."""
    index = {"a": {1: None, 2: None}}
    take(index, "a", 1)
    assert index == {"a": {2: None}}


def test_an_empty_group_goes() -> None:
    """A group goes with its last entry."""
    index = {"a": {1: None}, "b": {1: None}}
    take(index, "a", 1)
    assert index == {"b": {1: None}}


def test_what_was_never_there_is_no_trouble() -> None:
    """Removing what is not there changes nothing."""
    index = {"a": {1: None}}
    take(index, "a", 7)
    take(index, "z", 7)
    assert index == {"a": {1: None}}


def test_who_controls_an_object_is_found() -> None:
    """Only an owner that controls it counts, and only one of a resource that is asked for."""
    cache = Cache()
    web = LiveWorkload(metadata=ObjectMeta(namespace="shop", name="web", uid="w"))
    cache.handle(Event(DEPLOYMENTS, ADDED, web))
    owner = OwnerReference(kind="Deployment", name="web", uid="w", controller=True)
    made = ObjectMeta(namespace="shop", name="web-1", owner_references=[owner])
    assert cache.controller(made, LiveWorkload, REPLICA_SETS, DEPLOYMENTS) is web
    assert cache.controller(made, LiveWorkload, REPLICA_SETS) is None
    assert cache.controller(web.metadata, LiveWorkload, DEPLOYMENTS) is None
