"""A record goes from phase to phase as the table says, and no other way."""

from __future__ import annotations

import pytest

from berth.eviction.lifecycle import EvictionLifecycle
from berth.eviction.state import EvictionPhase
from berth.machines.contract import Action, Evict, Get, Outcome, Patch
from tests.support.scripts.eviction import EvictionScript, needs_label

RULE = needs_label("user", "b")


def script() -> EvictionScript:
    """A pod whose node has just lost the label that it requires."""
    made = EvictionScript()
    made.labelled("n", user="b")
    made.pod("p", "n", RULE)
    made.settle()
    made.relabel("n", user=None)
    return made


def phase(made: EvictionScript) -> EvictionPhase:
    return made.machine.state.records["default/p"].phase


def test_an_eviction_goes_through_its_phases_in_order() -> None:
    """Every request finds the record in the phase that waits for its answer."""
    made = script()
    seen: list[tuple[type[Action], EvictionPhase]] = []

    def see(action: Action) -> None:
        if isinstance(action, Patch | Get | Evict):
            seen.append((type(action), phase(made)))

    made.refuse = see
    assert phase(made) is EvictionPhase.STAYING
    made.settle()
    assert seen[:3] == [
        (Patch, EvictionPhase.MARKING),
        (Get, EvictionPhase.CHECKING),
        (Evict, EvictionPhase.EVICTING),
    ]
    assert phase(made) is EvictionPhase.STAYING  # it is terminating: nobody asks for it any more


def test_a_refused_eviction_waits() -> None:
    """A pod whose eviction was refused waits, and stays once the label is back."""
    made = script()
    made.refuse = lambda action: Outcome(at=made.now, code=429) if isinstance(action, Evict) else None
    made.settle()
    assert phase(made) is EvictionPhase.WAITING
    made.relabel("n", user="b")
    made.settle()
    assert phase(made) is EvictionPhase.STAYING


def test_a_pod_that_vanishes_is_remembered_until_the_answer_is_there() -> None:
    """Its record is found by its number, and then forgotten."""
    made = script()
    state = made.machine.state

    def vanish(action: Action) -> None:
        if isinstance(action, Get):
            made.vanish("p")
            assert not state.records
            assert [record.phase for record in state.ended.values()] == [EvictionPhase.CHECKING]

    made.refuse = vanish
    made.settle()
    assert not state.ended


def test_no_phase_is_left_out() -> None:
    """A pod that was neither marked nor looked at cannot be evicted."""
    made = script()
    record = made.machine.state.records["default/p"]
    lifecycle: EvictionLifecycle = made.machine._evictor._lifecycle
    made.refuse = lambda action: Outcome(at=made.now, code=503) if isinstance(action, Patch) else None
    made.settle()
    assert record.phase is EvictionPhase.WAITING
    with pytest.raises(ValueError, match="is waiting and cannot be evicting next"):
        lifecycle.evict(record)
