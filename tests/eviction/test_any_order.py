"""Whatever happens in whatever order, the invariants hold and nobody goes without a reason."""

from __future__ import annotations

import random

import pytest

from berth.engine.execution.eviction_ceiling import is_replaced
from berth.eviction import EvictionRate, EvictionSettings
from berth.eviction.state import EvictionPhase
from berth.kube.api_resources import BUDGETS, NODES, PODS
from berth.machines.contract import Action, Evict, Outcome
from tests.support.scripts.eviction import EvictionScript, apart_from, near, needs_label

FAST = EvictionRate(qps=100, burst=100)
RULES = (needs_label("disk"), apart_from("a"), near("b"), None)
ANSWERS = (None, None, None, 0, 409, 429, 503)


class AnyOrder:
    """A world in which anything may happen next, also while a request is under way."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - the same cases every time
        settings = EvictionSettings(rate=FAST, domain_rate=FAST, halt_above=3, pace_timeout=5, grace=2)
        self.world = EvictionScript(settings)
        self.world.refuse = self.answer
        for number in range(4):
            self.world.labelled(f"n{number}", self.chance.choice("ab"), disk="ssd")
        self.owner = self.world.replica_set("web", 3)
        self.world.budget("some", "a", allowed=2)

    def change(self) -> None:
        world, chance = self.world, self.chance
        pod, node = f"p{chance.randrange(8)}", f"n{chance.randrange(4)}"
        there = pod in world.names(PODS)
        match chance.randrange(7):
            case 0 | 1:
                world.relabel(node, disk=chance.choice(["ssd", None]))
            case 2 if there:
                world.change(PODS, pod, {"metadata": {"labels": {"app": chance.choice("abc")}}})
            case 3 if there:
                world.delete(PODS, pod)
            case 4 if there:
                world.vanish(pod)
            case 5 if there:
                world.swap(pod, node, chance.choice(RULES), app=chance.choice("abc"))
            case 6:
                world.change(BUDGETS, "some", {"status": {"disruptionsAllowed": chance.randrange(3)}})
            case _ if not there:
                owner = chance.choice([self.owner, None])
                world.pod(pod, node, chance.choice(RULES), app=chance.choice("abc"), owner=owner)
            case _:
                world.set_ready(pod)

    def answer(self, action: Action) -> Outcome | None:
        if self.chance.random() < 0.3:
            self.change()
        code = self.chance.choice(ANSWERS)
        if code is not None:
            return Outcome(at=self.world.now, code=code, reason="Conflict" if code == 409 else "")
        if isinstance(action, Evict) and self.world.machine.confirms(action):
            self.assert_reason(action)
        return None

    def assert_reason(self, action: Evict) -> None:
        """A pod that is about to be evicted breaks a rule now, or is in the way of one that does.

        From a halted domain it goes only if it is replaced, and there is a place for that.
        """
        state = self.world.machine.state
        record = state.records[f"{action.namespace}/{action.name}"]
        assert (record.uid, record.phase) == (action.uid, EvictionPhase.EVICTING)
        assert record.attempt is not None
        owners = {violation.pod for violation in record.attempt.planned.violations}
        assert any(state.records[owner].violations for owner in owners if owner in state.records)
        if self.world.machine.halts.of(record.attempt.planned.domain) is not None:
            assert is_replaced(record.attempt.pod.metadata)
            assert record.attempt.replacement is not None


@pytest.mark.parametrize("seed", range(30))
def test_the_invariants_hold_after_every_step(seed: int) -> None:
    """Invariants hold after every step, and once all is right again nothing is left of any eviction."""
    script = AnyOrder(seed)
    world = script.world
    for _ in range(40):
        script.change()
        world.advance(script.chance.choice((0.0, 0.5, 3.0)))
    world.refuse = lambda _: None
    for pod in world.names(PODS):
        world.vanish(pod)
    for node in world.names(NODES):
        world.relabel(node, disk="ssd")
    world.advance(120)
    state = world.machine.state
    assert [*state.records, *state.active, *state.ended] == []
    assert world.due_later() is None
