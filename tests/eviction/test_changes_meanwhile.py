"""What changes between a decision and its eviction: refusals, labels, pods, answers, the process itself."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from berth.engine.execution.eviction_set import PodToEvict
from berth.eviction import EvictionSettings
from berth.eviction.reports import HEALED, INVALID, WOULD_EVICT
from berth.kube.api_resources import BUDGETS, NODES, PODS
from berth.machines.contract import Action, Create, Evict, Get, Outcome, Patch
from tests.support.builders import EXECUTION
from tests.support.scripts.eviction import RULE, EvictionScript, interfere_once, needs_label, user_b
from tests.support.scripts.script import Raw


class Killed(Exception):  # noqa: N818
    """The process ends."""


def refused(made: EvictionScript) -> None:
    """A world in which the eviction of the pod was refused once."""
    made.budget("pdb", "web", allowed=0)
    made.relabel("n1", userB=None)
    made.settle()
    assert made.attempts() == ["b"]


def test_a_refused_eviction_is_retried_with_growing_pauses() -> None:
    """A refused eviction is retried after 1, 2, … seconds, at most about once a minute."""
    made = user_b()
    refused(made)
    made.advance(0.9)
    assert len(made.attempts()) == 1
    made.advance(0.2)
    assert len(made.attempts()) == 2
    made.advance(2.0)
    assert len(made.attempts()) == 3
    made.advance(3600)
    assert 60 <= len(made.attempts()) <= 70
    assert made.going() == set()


def test_a_budget_that_changes_is_asked_at_once() -> None:
    """A change of the budget that refused leads to a new attempt at once."""
    made = user_b()
    refused(made)
    made.advance(600)
    made.change(BUDGETS, "pdb", {"status": {"disruptionsAllowed": 1}})
    made.settle()
    assert made.going() == {"b"}


def test_a_label_change_of_the_node_is_a_reason_to_ask_again() -> None:
    """A change of the node's labels leads to a new attempt at once."""
    made = user_b()
    refused(made)
    made.advance(600)
    asked = len(made.attempts())
    made.relabel("n1", unrelated="x")
    made.settle()
    assert len(made.attempts()) == asked + 1


def test_a_refusal_is_told_and_counted_by_pod() -> None:
    """A refusal makes a warning event that names the budget, and is counted by pod."""
    made = user_b()
    refused(made)
    (event,) = made.events("FailedNodeAffinityEviction")
    assert event["type"] == "Warning"
    assert "disruption budget pdb" in event["message"]
    failed = made.metric("pod_failed_eviction_node_affinity_total", pod="b", namespace="default")
    assert failed == 1


def test_a_pod_that_matches_again_is_left_alone() -> None:
    """A pod that matches again stays, and its condition is taken back."""
    made = user_b()
    refused(made)
    made.relabel("n1", userB="allow")
    made.settle()
    assert made.condition("b") == ("False", "AffinityRulesHold")
    asked = len(made.attempts())
    made.advance(3600)
    assert len(made.attempts()) == asked
    assert len(made.said(HEALED)) == 1


def test_a_pod_that_changed_after_it_was_marked_is_judged_again() -> None:
    """The eviction names the version that was judged, so the server refuses it."""
    made = user_b()
    made.relabel("n1", userB=None)
    interfere_once(made, Evict, lambda: made.change(PODS, "b", {"status": {"message": "busy"}}))
    assert made.going() == set()
    made.advance(1)
    assert made.going() == {"b"}


def test_a_label_that_comes_back_before_the_watch_tells_saves_the_pod() -> None:
    """The node is read from the server once more before the eviction."""
    made = user_b()
    made.relabel("n1", userB=None)

    def restore() -> None:
        made.held = {NODES}
        made.relabel("n1", userB="allow")

    interfere_once(made, Get, restore)
    made.advance(30)
    made.deliver()
    made.advance(30)
    assert made.attempts() == []
    assert made.condition("b") == ("False", "AffinityRulesHold")


@pytest.mark.parametrize("step", [Patch, Evict])
def test_a_pod_that_is_gone_meanwhile_is_forgotten(step: type[Action]) -> None:
    """A pod that goes between two requests is not asked for again."""
    made = user_b()
    made.relabel("n1", userB=None)
    interfere_once(made, step, lambda: made.vanish("b"))
    asked = len(made.attempts())
    made.advance(120)
    assert len(made.attempts()) == asked
    assert made.due_later() is None


@pytest.mark.parametrize("step", [Patch, Get, Evict])
def test_a_pod_of_the_same_name_is_another_pod(step: type[Action]) -> None:
    """Deleted and made again, on a node that matches, while the first was about to be evicted."""
    made = user_b()
    made.relabel("n1", userB=None)

    def swap() -> None:
        made.held = {PODS}
        made.vanish("b")
        made.pod("b", "n2", RULE)

    interfere_once(made, step, swap)
    made.deliver()
    made.advance(120)
    assert made.going() == set()


def test_a_server_that_is_away_is_asked_again() -> None:
    """An eviction that could not be sent is sent once the server is back."""
    made = user_b()
    outage = True
    made.refuse = lambda _: Outcome(at=made.now, code=0, message="connection refused") if outage else None
    made.relabel("n1", userB=None)
    made.advance(30)
    assert made.going() == set()
    outage = False
    made.advance(60)
    assert made.going() == {"b"}


@pytest.mark.parametrize("step", [Patch, Get, Evict])
def test_nothing_is_forgotten_when_the_process_is_killed(step: type[Action]) -> None:
    """Whatever it was about to do, the next one finds it."""
    made = user_b()
    made.relabel("n1", userB=None)

    def kill(action: Action) -> None:
        if isinstance(action, step):
            raise Killed

    made.refuse = kill
    with pytest.raises(Killed):
        made.settle()
    assert made.going() == set()
    made.refuse = lambda _: None
    made.restart()
    made.settle()
    assert made.going() == {"b"}


@pytest.mark.parametrize("code", [0, 409, 503])
def test_a_condition_that_could_not_be_taken_back_is_taken_back_later(code: int) -> None:
    """The server was away or busy at that moment."""
    made = user_b()
    refused(made)
    away = Outcome(at=made.now, code=code, reason="Conflict" if code == 409 else "")
    made.refuse = lambda action: away if isinstance(action, Patch) and action.resource == PODS else None
    made.relabel("n1", userB="allow")
    made.settle()
    assert made.condition("b")[0] == "True"
    made.refuse = lambda _: None
    made.advance(10)
    assert made.condition("b")[0] == "False"


def test_a_condition_left_by_a_process_that_was_killed_is_taken_back() -> None:
    """If the rules hold by the time the next one starts."""
    made = user_b()
    refused(made)
    assert made.condition("b")[0] == "True"
    made.machines = []
    made.relabel("n1", userB="allow")
    made.restart()
    made.settle()
    assert made.condition("b")[0] == "False"


def test_a_label_that_returns_before_the_eviction_is_sent_keeps_the_pod() -> None:
    """Requests may have to wait for their turn: what is known by then decides."""
    made = user_b()
    made.relabel("n1", userB=None)
    interfere_once(made, Evict, lambda: made.relabel("n1", userB="allow"))
    made.advance(60)
    assert made.going() == set()
    assert made.condition("b")[0] == "False"
    assert made.metric("pod_failed_eviction_node_affinity_total", pod="b", namespace="default") == 0


def test_an_annotation_that_cannot_be_read_is_reported_once() -> None:
    """Its rules cannot be enforced, those in the spec are."""
    made = user_b()
    made.change(PODS, "b", {"metadata": {"annotations": {"berth.dev/affinity": "{"}}})
    made.advance(600)
    assert made.metric("affinity_invalid_annotations") == 1
    (event,) = made.events("InvalidAffinityAnnotation")
    assert event["involvedObject"]["name"] == "b"
    (decision,) = made.said(INVALID)
    assert decision.warns
    made.relabel("n1", userB=None)
    made.settle()
    assert made.going() == {"b"}


@pytest.mark.parametrize("expression", [{"operator": "in", "values": ["allow"]}, {"operator": "In"}])
def test_nobody_goes_for_a_rule_that_no_server_would_take(expression: Raw) -> None:
    """A misspelt rule can never hold."""
    made = user_b()
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "userB", **expression}]}]}
    rule = json.dumps({"nodeAffinity": {EXECUTION: terms}})
    made.change(PODS, "other", {"metadata": {"annotations": {"berth.dev/affinity": rule}}})
    made.advance(600)
    assert made.attempts() == []
    (event,) = made.events("InvalidAffinityAnnotation")
    assert "operator" in event["message"] or "values" in event["message"]


def test_another_pod_with_the_same_mistake_is_reported_as_well() -> None:
    """A new pod of the same name with a bad annotation is reported again."""
    made = user_b()
    for _ in range(2):
        made.pod("wrong", "n2", annotations={"berth.dev/affinity": "{"})
        made.settle()
        made.vanish("wrong")
    made.settle()
    assert len(made.events("InvalidAffinityAnnotation")) == 2
    assert made.metric("affinity_invalid_annotations") == 0


def test_an_annotation_that_can_be_read_again_counts_again() -> None:
    """An annotation that is repaired is judged and no longer counted as invalid."""
    made = user_b()
    rule = json.dumps(needs_label("gone"))
    made.change(PODS, "other", {"metadata": {"annotations": {"berth.dev/affinity": "{"}}})
    made.settle()
    made.change(PODS, "other", {"metadata": {"annotations": {"berth.dev/affinity": rule}}})
    made.settle()
    assert made.going() == {"other"}
    assert made.metric("affinity_invalid_annotations") == 0


def test_what_is_left_to_say_is_said_at_the_end() -> None:
    """The eviction was answered when the process was told to end."""
    made = user_b()
    made.relabel("n1", userB=None)
    machine = made.machine
    learn = machine.done

    def learn_and_end(action: Action, outcome: Outcome) -> None:
        learn(action, outcome)
        if isinstance(action, Evict):
            raise Killed

    machine.done = learn_and_end  # type: ignore[method-assign]
    with pytest.raises(Killed):
        made.settle()
    machine.drain()
    last = machine.reconcile(made.now)
    assert [type(action) for action in last] == [Patch, Create]


def test_in_a_dry_run_nothing_is_written() -> None:
    """In a dry run nothing is written, and what would go is told and counted once."""
    made = user_b(EvictionSettings(dry_run=True))
    made.relabel("n1", userB=None)
    made.advance(600)
    assert made.done == []
    (decision,) = made.said(WOULD_EVICT)
    assert decision.subject == "default/b"
    assert decision.details["replacement"] == "n2"
    assert made.metric("affinity_evictions_dry_run_total", kind="node") == 1
    assert made.metric("affinity_violations", kind="node") == 1


def test_a_dry_run_rests_where_another_process_has_left_its_mark() -> None:
    """It takes no condition back, and so has nothing to wake up for."""
    made = user_b()
    refused(made)
    made.settings = EvictionSettings(dry_run=True)
    made.done.clear()
    made.restart()
    made.advance(60)
    assert made.done == []
    due = made.due_later()
    assert due is not None
    assert due > made.now


def test_a_dry_run_looks_for_places_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run looks for places once, whatever else happens in the cluster meanwhile."""
    made = user_b(EvictionSettings(dry_run=True))
    asked: list[str] = []
    find = made.machine.plan.replacement_nodes

    def counted(targets: Sequence[PodToEvict]) -> dict[str, str | None]:
        asked.extend(target.pod for target in targets)
        return find(targets)

    made.relabel("n1", userB=None)
    made.settle()
    monkeypatch.setattr(made.machine.plan, "replacement_nodes", counted)
    for number in range(5):
        made.relabel("n2", other=str(number))
        made.settle()
    assert asked == []


def test_an_answer_that_comes_after_the_next_pod_counts() -> None:
    """The pod is gone, and another one has its name and has to go as well, before the answer is there."""
    made = user_b()
    made.relabel("n1", userB=None)
    answered: list[str] = []

    def late(action: Action) -> Outcome | None:
        if not isinstance(action, Evict) or answered:
            return None
        answered.append(action.uid or "")
        made.swap("b", "n1", RULE)
        made.settle()
        return Outcome(at=made.now)

    made.refuse = late
    made.settle()
    assert made.going() == {"b"}
    assert made.metric("evictions_node_affinity_total") == 2


def test_after_a_node_returns_its_pods_are_judged() -> None:
    """Pods of a node that comes back without the label are evicted."""
    made = user_b()
    made.delete(NODES, "n1")
    made.settle()
    made.labelled("n1")
    made.settle()
    assert made.going() == {"b"}
