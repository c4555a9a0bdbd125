"""One pod of an owner at a time, those first whose replacement finds a place, and no circles."""

from __future__ import annotations

import pytest

from berth.eviction import EvictionRate, EvictionSettings, safety
from berth.eviction.reports import BACKED_OFF
from berth.kube.api_resources import PODS, REPLICA_SETS
from berth.machines.contract import Action, Evict, Get, Outcome
from tests.support.scripts.eviction import EvictionScript, needs_label

RULE = needs_label("user", "b")
FAST = EvictionRate(qps=1000, burst=1000)
EASY = EvictionSettings(rate=FAST, domain_rate=FAST)


def service(settings: EvictionSettings = EASY, replicas: int = 3) -> EvictionScript:
    """A ReplicaSet on a node that is about to lose its label, and a node that has it."""
    world = EvictionScript(settings)
    world.labelled("old", user="b")
    world.labelled("new", user="b")
    owner = world.replica_set("web", replicas)
    for number in range(replicas):
        world.pod(f"w{number}", "old", RULE, owner=owner)
    world.settle()
    return world


def owner_of(world: EvictionScript) -> dict[str, object]:
    owner: dict[str, object] = world.all(PODS)[0]["metadata"]["ownerReferences"][0]
    return owner


def one(world: EvictionScript) -> str:
    (name,) = world.going()
    return name


def test_the_next_pod_goes_when_the_replacement_is_ready() -> None:
    """The next pod of an owner goes only when the replacement of the last is Ready."""
    world = service()
    owner = owner_of(world)
    world.relabel("old", user=None)
    world.advance(60)
    first = one(world)
    world.vanish(first)
    world.pod("n0", "new", RULE, owner=owner, ready=False)
    world.advance(60)
    assert world.going() == set()
    world.set_ready("n0")
    world.settle()
    second = one(world)
    assert second != first
    world.replace(second, "n1", "new", affinity=RULE, owner=owner)
    world.settle()
    world.replace(one(world), "n2", "new", affinity=RULE, owner=owner)
    world.advance(600)
    assert sorted(world.names(PODS)) == ["n0", "n1", "n2"]
    assert len(world.attempts()) == 3


def test_a_replacement_that_starts_is_waited_for_however_long_it_takes() -> None:
    """A replacement that is starting holds up the next eviction without a limit."""
    world = service()
    owner = owner_of(world)
    world.relabel("old", user=None)
    world.settle()
    world.vanish(one(world))
    world.pod("n0", "new", RULE, owner=owner, ready=False)
    world.advance(7200)
    assert world.going() == set()
    world.set_ready("n0")
    world.settle()
    assert len(world.going()) == 1


def test_one_that_gets_no_node_is_given_up_after_a_while() -> None:
    """The rules of the others are broken, and demand that they go."""
    world = service()
    owner = owner_of(world)
    world.relabel("old", user=None)
    world.settle()
    world.vanish(one(world))
    world.pod("n0", "", RULE, owner=owner, ready=False)
    world.advance(590)
    assert world.going() == set()
    world.advance(20)
    assert len(world.going()) == 1


def test_owners_do_not_wait_for_each_other() -> None:
    """Pods of different owners go at the same time."""
    world = service()
    other = world.replica_set("api", 1)
    world.pod("a0", "old", RULE, owner=other, app="api")
    world.relabel("old", user=None)
    world.settle()
    assert len(world.going()) == 2
    assert "a0" in world.going()


def test_pacing_can_be_switched_off() -> None:
    """With pacing off all pods of an owner go at once."""
    world = service(EvictionSettings(rate=FAST, domain_rate=FAST, pace_by_owner=False))
    world.relabel("old", user=None)
    world.settle()
    assert len(world.going()) == 3


def test_an_owner_that_wants_fewer_is_not_waited_for() -> None:
    """An owner that is scaled down to what it has does not hold up the next eviction."""
    world = service()
    world.relabel("old", user=None)
    world.settle()
    world.vanish(one(world))
    world.settle()
    assert world.going() == set()
    world.change(REPLICA_SETS, "web", {"spec": {"replicas": 2}})
    world.settle()
    assert len(world.going()) == 1


def test_an_owner_that_is_gone_is_not_waited_for() -> None:
    """The pods of an owner that was deleted go at once."""
    world = service()
    world.relabel("old", user=None)
    world.settle()
    world.delete(REPLICA_SETS, "web")
    world.settle()
    assert len(world.going()) == 3


def test_a_replacement_that_never_gets_ready_is_not_waited_for_forever() -> None:
    """Without any replacement the next pod goes after the timeout."""
    world = service()
    world.relabel("old", user=None)
    world.advance(599)
    assert len(world.going()) == 1
    world.advance(2)
    assert len(world.going()) == 2


def test_a_refused_pod_does_not_hold_up_the_others_of_its_owner() -> None:
    """A pod that a budget protects lets the next of its owner go."""
    world = service()
    world.change(PODS, "w0", {"metadata": {"labels": {"app": "protected"}}})
    world.budget("never", "protected", allowed=0)
    world.relabel("old", user=None)
    world.advance(5)
    assert len(world.going()) == 1
    assert "w0" not in world.going()


@pytest.mark.parametrize("code", [0, 500, 504])
def test_an_eviction_without_a_sure_answer_may_have_happened(code: int) -> None:
    """After an eviction without an answer the next pod waits for a replacement."""
    world = service()
    world.relabel("old", user=None)
    with world.answers_lost(code):
        world.settle()
    world.vanish(one(world))
    world.advance(60)
    assert world.going() == set()


def test_an_eviction_that_did_not_happen_holds_nobody_up() -> None:
    """Nobody answered, and the pod is still there: it is the next to go."""
    world = service()
    world.relabel("old", user=None)
    lost = Outcome(at=world.now, code=0, message="connection refused")
    world.refuse = lambda action: lost if isinstance(action, Evict) else None
    world.settle()
    world.refuse = lambda _: None
    world.advance(5)
    assert len(world.going()) == 1
    assert len(set(world.attempts())) == 1


def test_after_a_restart_an_owner_that_is_not_whole_is_waited_for() -> None:
    """Its missing pod may be the one that was evicted just before."""
    world = service()
    owner = owner_of(world)
    world.relabel("old", user=None)
    world.settle()
    world.vanish(one(world))
    world.restart()
    world.advance(60)
    assert world.going() == set()
    world.pod("n0", "new", RULE, owner=owner)
    world.settle()
    assert len(world.going()) == 1


def test_a_pod_that_is_replaced_under_its_name_holds_nobody_up() -> None:
    """It was marked, and had another uid by the time its eviction would have been sent."""
    world = service()
    owner = owner_of(world)
    swapped: list[str] = []

    def swap(action: Action) -> Outcome | None:
        if isinstance(action, Get) and not swapped:
            swapped.append(one_marked(world))
            world.swap(swapped[0], "old", RULE, owner=owner)
        return None

    world.refuse = swap
    world.relabel("old", user=None)
    world.settle()
    assert swapped
    assert len(world.going()) == 1


def one_marked(world: EvictionScript) -> str:
    (name,) = [name for name in world.names(PODS) if world.condition(name)[0] == "True"]
    return name


def test_daemons_are_not_paced() -> None:
    """The pod of a node has no replacement anywhere else."""
    world = EvictionScript(EASY)
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
    for number in range(3):
        world.labelled(f"n{number}", user="b")
        world.pod(f"d{number}", f"n{number}", RULE, owner=owner)
    world.settle()
    for number in range(3):
        world.relabel(f"n{number}", user=None)
    world.settle()
    assert len(world.going()) == 3


# --- replacements -----------------------------------------------------------------------------------


def test_those_that_would_fit_nowhere_go_last_and_it_is_said() -> None:
    """Pods whose replacement fits nowhere go last, and their event says so."""
    world = EvictionScript(EvictionSettings(rate=EvictionRate(qps=0.1, burst=1), domain_rate=FAST))
    world.labelled("old", user="b")
    world.labelled("new", user="b")
    world.pod("filler", "new", cpu="3")
    world.pod("a-large", "old", RULE, cpu="2")
    world.pod("b-small", "old", RULE, cpu="500m")
    world.settle()
    world.relabel("old", user=None)
    world.settle()
    assert world.going() == {"b-small"}
    world.advance(11)
    assert world.going() == {"a-large", "b-small"}
    first, second = (event["message"] for event in world.events("NodeAffinityEviction"))
    assert "would go to node new" in first
    assert "No node could take its replacement" in second


def test_the_pods_of_a_round_are_taken_for_moved() -> None:
    """There is room for one of them only."""
    world = EvictionScript(EASY)
    world.labelled("old", user="b")
    world.labelled("new", user="b")
    world.pod("filler", "new", cpu="1")
    for name in ("a", "b"):
        world.pod(name, "old", RULE, cpu="2")
    world.settle()
    world.relabel("old", user=None)
    world.settle()
    messages = [event["message"] for event in world.events("NodeAffinityEviction")]
    assert sum("would go to node new" in message for message in messages) == 1
    assert sum("No node could take its replacement" in message for message in messages) == 1


# --- circles ----------------------------------------------------------------------------------------


def test_an_owner_that_comes_back_is_backed_off_and_reported() -> None:
    """As with a scheduler that knows nothing of the rule: it puts the replacement where the pod was."""
    world = service(replicas=1)
    owner = owner_of(world)
    world.relabel("old", user=None)
    world.settle()
    times = []
    for number in range(9):
        start = world.now
        world.replace(one(world), f"r{number}", "old", affinity=RULE, owner=owner)
        while not world.going():
            world.advance(1)
        times.append(round(world.now - start))
    assert times == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert world.metric("affinity_eviction_returns_total") == 9
    assert len(world.said(BACKED_OFF)) == 9
    events = world.events("EvictionBackOff")
    assert "a scheduler that knows its rules" in events[0]["message"]
    assert all(event["type"] == "Warning" for event in events)


def test_a_replacement_of_the_same_name_that_is_right_is_no_return() -> None:
    """The eviction of its predecessor was refused, and somebody else removed it."""
    world = service(replicas=1)
    owner = owner_of(world)
    world.relabel("old", user=None)
    world.settle()
    world.replace("w0", "w0", "new", affinity=RULE, owner=owner)
    world.budget("pdb", "web", allowed=0)
    world.advance(60)
    world.relabel("new", user=None)
    world.labelled("newer", user="b")
    world.settle()
    assert world.attempts() == ["w0", "w0"]
    world.swap("w0", "newer", RULE, owner=owner)
    world.advance(60)
    assert world.events("EvictionBackOff") == []
    assert world.attempts() == ["w0", "w0"]


def test_a_rule_that_breaks_later_is_no_return() -> None:
    """A replacement that is violated by a later change is evicted without backoff."""
    world = service(replicas=1)
    owner = owner_of(world)
    world.labelled("third", user="b")
    world.relabel("old", user=None)
    world.settle()
    world.replace(one(world), "r", "new", affinity=RULE, owner=owner)
    world.advance(60)
    world.relabel("new", user=None)
    world.settle()
    assert world.going() == {"r"}
    assert world.said(BACKED_OFF) == []


def test_owners_that_need_not_wait_any_more_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many workloads lose a pod over the months: only those that wait for one are remembered."""
    monkeypatch.setattr(safety, "_MOST_UNDER_WAY", 2)
    world = EvictionScript(EASY)
    world.labelled("old", user="b")
    world.labelled("new", user="b")
    owners = {f"w{number}": world.replica_set(f"web-{number}", 1) for number in range(9)}
    for name, owner in owners.items():
        world.pod(name, "old", RULE, owner=owner)
    world.settle()
    for name, owner in owners.items():
        world.change(PODS, name, {"spec": {"affinity": needs_label("user", "c")}})
        world.settle()
        assert one(world) == name
        world.replace(name, f"{name}-new", "new", affinity=RULE, owner=owner)
        world.settle()
    assert len(world.machine._gates.under_way._of_owner) <= 3
