"""The machine in a scripted world: what it writes, when, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec import structs

from berth.engine.state.options import Options
from berth.eviction import AffinityEviction, EvictionSettings
from berth.kube.api_resources import DEPLOYMENTS, NODES, PODS, REPLICA_SETS, Resource
from berth.kube.gates import DEFAULT_GATES
from berth.kube.objects import LivePod, LiveWorkload, ObjectMeta, OwnerReference
from berth.kube.well_known import ADDED, DELETED, MODIFIED, POD_DELETION_COST
from berth.machines.cache import Cache
from berth.machines.contract import Action, Event, Outcome, Patch
from berth.spreading import SpreadController, SpreadingSettings
from berth.spreading.deletion_costs import OURS
from tests.support.builders import ZONE, make_pod
from tests.support.snapshots import zone_node


class World:
    """The eviction machine, whose mirror is used, and the one under test; what is written is done at once."""

    def __init__(self, *, enabled: bool = True) -> None:
        options = Options(gates=replace(DEFAULT_GATES, keep_spread=enabled))
        self.cache = Cache()
        self.eviction = AffinityEviction(self.cache, EvictionSettings(options=options))
        self.machine = SpreadController(
            self.cache, self.eviction.state.mirror, SpreadingSettings(options=options)
        )
        self.objects: dict[tuple[Resource, str], Any] = {}
        self.now = 1000.0
        self.writes: list[tuple[str, dict[str, Any]]] = []
        for zone in "abc":
            self.put(NODES, zone_node(f"{zone}1", zone).build())

    def put(self, resource: Resource, item: Any) -> None:
        key = (resource, item.metadata.name)
        old = self.objects.get(key)
        self.objects[key] = item
        self._tell(Event(resource, MODIFIED if old is not None else ADDED, item, old))

    def remove(self, resource: Resource, name: str) -> None:
        item = self.objects.pop((resource, name))
        self._tell(Event(resource, DELETED, item, item))

    def _tell(self, event: Event) -> None:
        self.cache.handle(event)
        for machine in (self.eviction, self.machine):
            if event.resource in machine.watches:
                machine.handle(event)
        self.machine.validate()

    def group(self, nodes: list[str], **annotations: str) -> None:
        owner = OwnerReference(api_version="apps/v1", kind="Deployment", name="web", uid="d", controller=True)
        meta = ObjectMeta(name="web", namespace="default", uid="d", annotations=annotations or None)
        self.put(DEPLOYMENTS, LiveWorkload(metadata=meta))
        meta = ObjectMeta(name="web-1", namespace="default", uid="r", owner_references=[owner])
        self.put(REPLICA_SETS, LiveWorkload(metadata=meta))
        for i, node in enumerate(nodes):
            self.pod(f"p{i}", node)

    def pod(self, name: str, node: str, **annotations: str) -> None:
        built = (
            make_pod(name)
            .labels({"app": "web"})
            .on(node)
            .spread(ZONE, app="web")
            .owned_by("ReplicaSet", "web-1")
        )
        pod = built.build()
        owner = structs.replace((pod.metadata.owner_references or [])[0], uid="r")
        meta = structs.replace(pod.metadata, owner_references=[owner], annotations=annotations or None)
        self.put(PODS, LivePod(metadata=meta, spec=pod.spec))

    def settle(self, seconds: float = 5.0, code: int = 200) -> list[str]:
        """Let time pass; the pods that were written to."""
        before = len(self.writes)
        end = self.now + seconds
        while self.now < end:
            for action in self.machine.reconcile(self.now):
                self._perform(action, code)
            self.now += 0.1
        return [name for name, _ in self.writes[before:]]

    def _perform(self, action: Action, code: int) -> None:
        if isinstance(action, Patch) and action.resource == PODS:
            annotations = action.body["metadata"]["annotations"]  # type: ignore[call-overload]
            self.writes.append((action.name, annotations))
            pod = self.objects.get((PODS, action.name))
            if code == 200 and pod is not None:
                merged = {**(pod.metadata.annotations or {}), **annotations}
                kept = {key: value for key, value in merged.items() if value is not None}
                self.put(PODS, structs.replace(pod, metadata=structs.replace(pod.metadata, annotations=kept)))
        self.machine.done(action, Outcome(self.now, code))

    def order(self) -> list[str]:
        costs = {
            name: int((pod.metadata.annotations or {})[POD_DELETION_COST])
            for (resource, name), pod in self.objects.items()
            if resource == PODS and POD_DELETION_COST in (pod.metadata.annotations or {})
        }
        return sorted(costs, key=lambda name: costs[name])


def test_a_group_gets_costs_once_and_then_rest() -> None:
    """Every pod is given one, the fullest zone goes first, and nothing is written again without a reason."""
    world = World()
    world.group(["a1", "a1", "a1", "b1", "c1"])
    assert sorted(world.settle()) == ["p0", "p1", "p2", "p3", "p4"]
    assert set(world.order()[:2]) <= {"p0", "p1", "p2"}
    assert world.settle(60) == []


def test_a_newcomer_is_one_write() -> None:
    """A pod that comes is given a cost among those of the others."""
    world = World()
    world.group(["a1", "b1", "c1"])
    world.settle()
    world.pod("p9", "a1")
    assert "p9" in world.settle()
    assert world.order()[0] in {"p0", "p9"}


def test_a_zone_that_comes_back_changes_the_order() -> None:
    """With an empty zone the pods of the full ones are the first to go; with pods there they are not."""
    world = World()
    world.group(["a1", "a1", "b1", "c1"])
    world.settle()
    world.remove(PODS, "p1")
    world.pod("p5", "b1")
    world.settle()
    assert world.order()[0] in {"p2", "p5"}


def test_a_workload_that_opts_out_is_left_alone_and_cleaned() -> None:
    """`berth.dev/keep-spread: "false"` on the Deployment: no costs, and those of ours are taken back."""
    world = World()
    world.group(["a1", "b1"])
    world.settle()
    assert world.order()
    meta = ObjectMeta(
        name="web", namespace="default", uid="d", annotations={"berth.dev/keep-spread": "false"}
    )
    world.put(DEPLOYMENTS, LiveWorkload(metadata=meta))
    world.settle()
    assert world.order() == []
    assert world.settle(60) == []


def test_costs_of_others_are_never_touched() -> None:
    """A pod with a cost that somebody else wrote keeps it; the rest is ordered all the same."""
    world = World()
    world.group(["a1", "b1"])
    world.pod("theirs", "a1", **{POD_DELETION_COST: "77"})
    assert "theirs" not in world.settle()
    assert world.objects[PODS, "theirs"].metadata.annotations == {POD_DELETION_COST: "77"}
    assert {"p0", "p1"} <= set(world.order())


def test_switched_off_it_takes_its_costs_back_and_nothing_else() -> None:
    """With the gate off the costs that carry our mark go, and those of others stay."""
    world = World(enabled=False)
    world.group([])
    world.pod("ours", "a1", **{POD_DELETION_COST: "5", OURS: "5"})
    world.pod("theirs", "a1", **{POD_DELETION_COST: "5"})
    assert world.settle() == ["ours"]
    assert not world.objects[PODS, "ours"].metadata.annotations
    assert world.settle(60) == []


def test_a_write_that_fails_is_tried_again_later_each_time() -> None:
    """An API server that refuses is asked again, but not in a loop."""
    world = World()
    world.group(["a1", "b1"])
    first = world.settle(10, code=500)
    assert 2 <= len(first) <= 10
    assert set(world.settle(120)) == {"p0", "p1"}
    assert len(world.order()) == 2


def test_pods_of_nobody_and_of_other_kinds_are_not_touched() -> None:
    """Pods without constraints, or that no ReplicaSet owns, get nothing."""
    world = World()
    plain = make_pod("plain").on("a1").owned_by("ReplicaSet", "web-1").build()
    world.put(PODS, LivePod(metadata=plain.metadata, spec=plain.spec))
    alone = make_pod("alone").labels({"app": "web"}).on("a1").spread(ZONE, app="web").build()
    world.put(PODS, LivePod(metadata=alone.metadata, spec=alone.spec))
    state = (
        make_pod("db-0")
        .labels({"app": "web"})
        .on("a1")
        .spread(ZONE, app="web")
        .owned_by("StatefulSet", "db")
        .build()
    )
    world.put(PODS, LivePod(metadata=state.metadata, spec=state.spec))
    assert world.settle() == []
