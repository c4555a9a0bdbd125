"""What is wrong with the scheduler's state is seen, so that other tests can rely on there being nothing."""

from __future__ import annotations

import pytest

from berth.kube.api_resources import PODS
from berth.machines.contract import Bind
from berth.scheduler.queue import SchedulingPhase
from berth.scheduler.state import SchedulerState
from tests.support.scripts.scheduler import SchedulerScript


@pytest.fixture
def state() -> SchedulerState:
    """One pod that is being bound, and one that finds no node."""
    story = SchedulerScript()
    story.nodes("n1")
    story.held.add(PODS)
    story.pod("large", cpu="1000")
    story.pod("small")
    story.deliver()
    story.held.add(PODS)
    story.settle()
    assert any(isinstance(action, Bind) for action in story.done)
    return story.scheduler.state


LARGE, SMALL = ("default", "large"), ("default", "small")


def test_a_state_in_order_has_nothing_wrong(state: SchedulerState) -> None:
    """Each pod is in the collection of its phase."""
    phases = {key: record.phase for key, record in state.queue.pods.items()}
    assert phases == {LARGE: SchedulingPhase.UNSCHEDULABLE, SMALL: SchedulingPhase.BOUND}
    state.validate()


def test_a_phase_without_its_transition_is_seen(state: SchedulerState) -> None:
    """Counts and collections do not follow a phase that is set by hand."""
    queue = state.queue
    queue.pods[LARGE].phase = SchedulingPhase.ACTIVE
    with pytest.raises(AssertionError, match="the pods of each phase are counted"):
        state.validate()
    queue.counts.update({SchedulingPhase.ACTIVE: 1, SchedulingPhase.UNSCHEDULABLE: -1})
    with pytest.raises(AssertionError, match=r"large'\) is active, but not so by the heap"):
        state.validate()


def test_an_assumed_pod_that_does_not_count_is_seen(state: SchedulerState) -> None:
    """Whoever has a node counts there."""
    state.mirror.forget(SMALL, state.queue.pods[SMALL].pod)
    with pytest.raises(AssertionError, match="bound on n1, but the mirror has None"):
        state.validate()


def test_half_forgotten_pods_are_seen(state: SchedulerState) -> None:
    """A pod without a record is in no collection either."""
    del state.queue.pods[SMALL]
    state.queue.counts[SchedulingPhase.BOUND] -= 1
    with pytest.raises(AssertionError, match=r"who is forgotten is forgotten everywhere: .*'small'"):
        state.validate()
