"""`berth audit` says of the same pods what a dry run of the controllers says."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest

from berth.engine.execution.eviction_ceiling import HaltPolicy, name_of
from berth.engine.offline.audit import Audit, audit
from berth.engine.offline.snapshot import Snapshot
from berth.eviction import EvictionSettings
from berth.eviction.reports import INVALID, WOULD_EVICT
from berth.kube.api_resources import NAMESPACES, NODES, PODS
from berth.kube.objects import KubeObject, Namespace, Node, Pod
from berth.kube.well_known import RELEASE_ANNOTATION
from tests.support.builders import HOSTNAME, ZONE
from tests.support.scripts.eviction import EvictionScript, apart_from, near, needs_label
from tests.support.scripts.script import Raw
from tests.support.snapshots import snapshot

MISSPELT = json.dumps(needs_label("disk")).replace("Exists", "Exist")
ANNOTATION = "metadata.annotations[berth.dev/affinity]"


def seen(world: EvictionScript) -> Snapshot:
    """What the world holds, as a command finds it."""
    views: list[KubeObject] = []
    for resource, kind in ((NODES, Node), (NAMESPACES, Namespace), (PODS, Pod)):
        found: list[Any] = [msgspec.convert(raw, kind) for raw in world.all(resource)]
        views += found
    return snapshot(*views)


def dry(**settings: Any) -> EvictionScript:
    """Without patience, which an audit does not have."""
    return EvictionScript(EvictionSettings(dry_run=True, grace=0.0, **settings))


def compare(world: EvictionScript) -> Audit:
    """Let the controllers speak, and the audit say the same: who goes, why, where from, and what holds it."""
    world.settle()
    found = audit(seen(world), ceiling=world.settings)
    told = {
        decision.subject: (
            decision.details["rule"],
            decision.details.get("halted"),
            decision.details.get("oneByOne"),
        )
        for decision in world.decisions
        if decision.what == WOULD_EVICT
    }
    expected = {
        eviction.entry.key: (
            eviction.violations[0].path,
            name_of(eviction.halt.domain) if eviction.halt and eviction.halted else None,
            name_of(eviction.halt.domain) if eviction.halt and eviction.one_by_one else None,
        )
        for eviction in found.evictions
    }
    assert told == expected
    assert list(world.machine.halts.halts.values()) == found.halts
    invalid = {decision.subject for decision in world.decisions if decision.what == INVALID}
    assert invalid == {entry.key for entry in found.faulty}
    return found


def some_world(chance: random.Random) -> EvictionScript:
    world = dry(
        halt_above=chance.choice((2, 5)),
        max_share=chance.choice((0.3, 0.55, 1.0)),
        policy=chance.choice(tuple(HaltPolicy)),
    )
    owner = world.replica_set("web", 9)
    for i in range(6):
        labels = {"disk": "ssd"} if chance.random() < 0.6 else {}
        world.labelled(f"n{i}", chance.choice("ab"), **labels)
    rules: list[Raw | None] = [
        None,
        needs_label("disk"),
        apart_from("a"),
        apart_from("b", ZONE),
        near("a"),
        near("b", ZONE),
    ]
    for i in range(chance.randint(5, 25)):
        rule = chance.choice(rules)
        annotated = chance.random() < 0.4 and rule is not None
        annotations = {"berth.dev/affinity": json.dumps(rule)} if annotated else {}
        if chance.random() < 0.1:
            annotations = {"berth.dev/affinity": MISSPELT}
        if chance.random() < 0.05:
            annotations["kubernetes.io/config.mirror"] = "x"
        world.pod(
            f"p{chance.randrange(1000)}-{i}",
            f"n{chance.randrange(6)}",
            None if annotated else rule,
            app=chance.choice("ab"),
            priority=chance.choice((0, 0, 5)),
            annotations=annotations,
            owner=chance.choice((owner, None)),
        )
        world.advance(chance.choice((0.0, 1.5)))
    return world


@pytest.mark.parametrize("seed", range(40))
def test_any_cluster(seed: int) -> None:
    """Audit and controller agree on any cluster, with rules, priorities and ages at random."""
    world = some_world(random.Random(seed))  # noqa: S311 - the same cases every time
    world.decisions.clear()
    world.restart()
    compare(world)


def test_the_younger_pod_goes() -> None:
    """The younger pod goes, whatever their names: both know when pods came."""
    world = dry()
    world.labelled("n1")
    world.pod("z", "n1", apart_from("web"))
    world.advance(60)
    world.pod("a", "n1", apart_from("web"))
    (eviction,) = compare(world).evictions
    assert eviction.entry.name == "a"


def test_a_halt_and_its_release() -> None:
    """Of a zone, until a person says otherwise."""
    world = dry()
    for zone in "ab":
        world.labelled(f"n-{zone}", zone)
        for i in range(10):
            world.pod(f"{zone}{i}", f"n-{zone}", needs_label("disk") if zone == "a" and i < 7 else None)
    found = compare(world)
    assert [(halt.domain, halt.going, halt.running) for halt in found.halts] == [("a", 7, 10)]
    assert all(eviction.halt or eviction.stopped_by for eviction in found.evictions)

    world.decisions.clear()
    world.change(NAMESPACES, "kube-system", {"metadata": {"annotations": {RELEASE_ANNOTATION: "a"}}})
    world.restart()
    found = compare(world)
    assert (len(found.evictions), found.halts) == (7, [])
    assert not any(eviction.halt or eviction.stopped_by for eviction in found.evictions)


def test_a_tenant_who_moves() -> None:
    """7 of 10 pods with a place for five: those go one by one, and two stay."""
    world = dry()
    world.labelled("n-a", "a")
    world.labelled("n-b", "b", disk="ssd")
    owner = world.replica_set("web", 7)
    for i in range(10):
        world.pod(
            f"a{i}", "n-a", needs_label("disk") if i < 7 else None, owner=owner if i < 7 else None, cpu="1m"
        )
    for i in range(5):
        world.pod(f"b{i}", "n-b", cpu="1m")
    found = compare(world)
    assert [(halt.domain, halt.one_by_one, halt.staying) for halt in found.halts] == [("a", 5, 2)]
    assert [eviction.one_by_one for eviction in found.evictions] == [True] * 5 + [False] * 2
    assert [eviction.halted for eviction in found.evictions] == [False] * 5 + [True] * 2


def test_rules_are_named_where_they_stand() -> None:
    """Rules are named where they stand, in the annotation, in the spec, or in both."""
    world = dry()
    world.labelled("n1")
    world.pod("one", "n1", annotations={"berth.dev/affinity": json.dumps(needs_label("disk"))})
    rules = needs_label("gpu") | apart_from("db", HOSTNAME)
    world.pod("two", "n1", rules, annotations={"berth.dev/affinity": json.dumps(apart_from("db"))})
    world.pod("db", "n1", app="db", priority=9)
    by_name = {eviction.entry.name: eviction for eviction in compare(world).evictions}
    execution = "requiredDuringSchedulingRequiredDuringExecution"
    assert [violation.path for violation in by_name["one"].violations] == [
        f"{ANNOTATION}.nodeAffinity.{execution}"
    ]
    assert [violation.path for violation in by_name["two"].violations] == [
        f"spec.affinity.nodeAffinity.{execution}",
        f"spec.affinity.podAntiAffinity.{execution}[0]",
        f"{ANNOTATION}.podAntiAffinity.{execution}[0]",
    ]
