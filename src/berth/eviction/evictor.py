"""Evictions, one pod at a time through its steps.

A pod is marked (its `DisruptionTarget` condition, written only if the pod is as it was seen), its node is
read once more from the server, and then it is evicted on condition that it is still the pod, in the version,
that was marked.  Before each step its rules are judged again.  So whatever changes meanwhile, the pod
is looked at anew instead of evicted.

A rule about other pods is judged by the watch alone.  There the mark has to come back through the watch
first: then whatever happened to any pod before it was written is known, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from berth.engine.execution.eviction_set import PodToEvict
from berth.eviction.detection import ViolationDetector
from berth.eviction.lifecycle import EvictionLifecycle, EvictionRequests, is_marked
from berth.eviction.planning import EvictionPlan
from berth.eviction.reports import EvictionReports
from berth.eviction.safety import RATE, EvictionGates, owner_id
from berth.eviction.settings import EvictionSettings
from berth.eviction.state import (
    ANSWERED,
    NODE_KIND,
    REQUESTED,
    EvictionAttempt,
    EvictionPhase,
    EvictionPurpose,
    EvictionState,
    PlannedEviction,
    PodRecord,
)
from berth.kube.api_resources import EVICTION_REQUESTS, PODS
from berth.kube.objects import LivePod, Node, PartialObjectMetadata, PodDisruptionBudget
from berth.kube.selectors import is_guarded
from berth.machines.contract import Action, Create, Evict, Outcome
from berth.machines.rates import earliest

# A rule that is broken so soon after a pod came was broken when it came.
_AT_ONCE = 1.0
# Seconds until a condition that could not be removed, or may have to be, is looked at again.
_RECHECK = 5.0


class Evictor:
    """Takes the pods of the plan through their phases, as far as rules, gates and answers let them."""

    def __init__(
        self,
        state: EvictionState,
        detector: ViolationDetector,
        plan: EvictionPlan,
        gates: EvictionGates,
        reports: EvictionReports,
        settings: EvictionSettings,
    ) -> None:
        self._state = state
        self._detector = detector
        self._plan = plan
        self._gates = gates
        self._reports = reports
        self._lifecycle = EvictionLifecycle(state, gates, reports, asks=settings.uses_requests)
        self._timeout = settings.request_timeout
        self.requests = EvictionRequests()
        self.wake: float | None = None  # when to look again though nothing happens
        self._looked = 0.0  # when the last round was

    # --- one round ----------------------------------------------------------------------------------

    def round(self, now: float) -> list[Action]:
        """Take every pod a step further that can be."""
        self.wake, self._looked = None, now
        order = self._plan.prune()
        self._follow_plan(order, now)
        self._recheck_conditions(now)
        self._gates.new_round()
        begun: list[tuple[PodRecord, EvictionAttempt]] = []
        for record in [self._state.records[planned.pod] for planned in order]:
            if (attempt := record.attempt) is None:
                continue
            if record.phase is EvictionPhase.ASKED:
                self._look_after(record, attempt, now)
            elif record.phase in ANSWERED:
                if self._gates.may_go_on(attempt, now):
                    self._advance(record, attempt, now)
                    continue
                self._lifecycle.hold(record)
            others = [other.planned.target for _, other in begun]
            if record.phase is EvictionPhase.WAITING and self._may_begin(record, attempt, others, now):
                begun.append((record, attempt))
        replacements = self._plan.replacement_nodes([attempt.planned.target for _, attempt in begun])
        for record, attempt in begun:
            self._lifecycle.begin(record, replacements.get(record.name), now)
            if record.phase is EvictionPhase.MARKED:
                self._advance(record, attempt, now)
        # Requests for pods that need not go any more, or are gone, are taken back.
        deletions, when = self.requests.withdraw(self._has_to_go, now)
        self._wake_at(when)
        return [*self._state.take(), *deletions]

    def _look_after(self, record: PodRecord, attempt: EvictionAttempt, now: float) -> None:
        """Take the state of an EvictionRequest over to the pod's record."""
        uid = record.uid or ""
        why = self.requests.failure(uid)
        if self.requests.is_evicted(uid):
            self._lifecycle.evicted(record, now)
        elif why is None and attempt.not_before > now:
            self._wake_at(attempt.not_before)
        else:
            self.requests.give_up(uid)
            silence = f"nobody evicted the pod within {self._timeout:.0f} s of the EvictionRequest"
            self._lifecycle.refused(record, Outcome(at=now, code=409, message=why or silence))

    def _has_to_go(self, pod: str, uid: str) -> bool:
        """Whether a pod is there and breaks a rule, or is on its way for one of another."""
        record = self._state.records.get(pod)
        if record is None or record.uid != uid or record.phase is EvictionPhase.EVICTED:
            return False
        return record.attempt is not None or bool(record.violations)

    def _follow_plan(self, order: Sequence[PlannedEviction], now: float) -> None:
        """Begin an attempt for every pod of the plan, and cancel those of all others."""
        wanted = {planned.pod for planned in order}
        left = [
            record for name, record in self._state.active.items() if record.attempt and name not in wanted
        ]
        for record in (*left, *self._state.ended.values()):
            is_gone = not self._state.is_current(record) or self._state.pod(record.name) is None
            if record.phase is EvictionPhase.ASKED and is_gone:
                self._lifecycle.evicted(record, now)
            if record.phase not in REQUESTED:
                self._lifecycle.cancel(record, now)
        for planned in order:
            pod = self._state.pod(planned.pod)
            if pod is not None:
                self._follow(self._state.records[planned.pod], planned, pod, now)

    def _follow(self, record: PodRecord, planned: PlannedEviction, pod: LivePod, now: float) -> None:
        attempt = record.attempt
        if attempt is None:
            self._lifecycle.plan(record, planned, pod)
            self._notice_return(record, planned, pod, now)
            return
        attempt.planned, attempt.pod = planned, pod
        if record.phase is EvictionPhase.EVICTED:
            if attempt.not_before <= now:
                self._lifecycle.still_there(record)
            else:
                self._wake_at(attempt.not_before)

    def _notice_return(self, record: PodRecord, planned: PlannedEviction, pod: LivePod, now: float) -> None:
        """Notice that a replacement breaks its rules as soon as it arrives."""
        # When a pod arrives its node's labels are known; its peers may be seen a moment later.
        patience = 0.0 if planned.kind == NODE_KIND else _AT_ONCE
        if planned.move is not None or record.arrived is None or planned.since > record.arrived + patience:
            return
        owner = owner_id(pod)
        memory = self._gates.returns.known(owner, now)
        if memory is not None and memory.came_back(record.arrived, now):
            self._reports.came_back(planned, pod, owner, memory, now)

    def _may_begin(
        self, record: PodRecord, attempt: EvictionAttempt, others: list[PodToEvict], now: float
    ) -> bool:
        """Whether a pod can go now, with others; if so it has its place in the rates and the paces."""
        if attempt.planned.kind != NODE_KIND and self._plan.stale:
            return False  # by now another pod may have to go instead
        obstacle, when = self._gates.obstacle(attempt, now)
        halt = self._gates.halts.of(attempt.planned.domain)
        if not obstacle and halt is not None and not self._has_place(attempt, others):
            obstacle, when = self._gates.has_no_place(attempt, halt, now)
        if obstacle:
            self._wake_at(when)
            told, attempt.obstacle = attempt.obstacle, obstacle
            if obstacle not in (told, RATE):
                self._reports.waiting(attempt, now)
            return False
        if not self._detector.rejudge(record, now):
            return False
        attempt.obstacle = ""
        self._gates.enter(attempt, now)
        return True

    def _has_place(self, attempt: EvictionAttempt, others: Sequence[PodToEvict] = ()) -> bool:
        """Whether a node would take its replacement now, if `others` were evicted before it."""
        target = attempt.planned.target
        return self._plan.replacement_nodes([*others, target]).get(target.pod) is not None

    def _advance(self, record: PodRecord, attempt: EvictionAttempt, now: float) -> None:
        if not self._detector.rejudge(record, now):
            self._lifecycle.cancel(record, now)
        elif record.phase is EvictionPhase.CHECKED:
            self._lifecycle.evict(record)
        elif not attempt.seen_version == attempt.pod.metadata.resource_version != attempt.marked_version:
            self._lifecycle.check_node(record)  # else wait: the watch has not shown the mark yet

    def _wake_at(self, when: float | None) -> None:
        self.wake = earliest(self.wake, when)

    # --- conditions ---------------------------------------------------------------------------------

    def take_up(self, record: PodRecord, pod: LivePod, now: float, *, is_going: bool) -> None:
        """Take up what an earlier process did: it may have marked a pod, or evicted another of its owner."""
        if record.violations:
            self._gates.under_way.resume(pod, now)
            if is_marked(pod):
                self._recheck(record, now)
        elif not is_going and is_marked(pod):
            self._lifecycle.clear_condition(record, pod, now)

    def _recheck(self, record: PodRecord, now: float) -> None:
        self._state.recheck(record, now + _RECHECK)
        self._wake_at(record.recheck_at)

    def _recheck_conditions(self, now: float) -> None:
        """Remove conditions that could not be removed before, or that another process left behind."""
        for record in [record for record in self._state.active.values() if record.recheck_at is not None]:
            if record.recheck_at is not None and record.recheck_at > now:
                self._wake_at(record.recheck_at)
                continue
            self._state.recheck(record, None)
            pod = self._state.pod(record.name)
            if pod is None or record.attempt is not None or not is_marked(pod):
                continue
            if record.violations:
                self._recheck(record, now)
            else:
                self._lifecycle.clear_condition(record, pod, now)

    # --- what became of them ------------------------------------------------------------------------

    def confirms(self, action: Action) -> bool:
        """Asked when a request is about to be sent, which may be some time after it was decided."""
        if not (isinstance(action, Evict) or _is_request(action)):
            return True
        record = self._state.find(action)
        if record is None or record.attempt is None or record.phase is not EvictionPhase.EVICTING:
            return False
        attempt = record.attempt
        if self._gates.halts.of(attempt.planned.domain) is not None and not (
            self._gates.may_go_on(attempt, self._looked) and self._has_place(attempt)
        ):
            return False
        if not self._detector.has_to_go(record):
            return False
        return attempt.planned.move is None or self._state.moves.confirms(record.name)

    def done(self, action: Action, outcome: Outcome) -> None:
        record = self._state.find(action)
        if record is None:
            return
        if action.purpose is EvictionPurpose.CLEAR:
            if not outcome.ok and not outcome.missing and self._state.is_current(record):
                self._recheck(record, outcome.at)
        elif action.purpose is EvictionPurpose.STEP:
            self._answered(record, action, outcome)
            if not self._state.is_current(record):
                self._lifecycle.cancel(record, outcome.at)

    def _answered(self, record: PodRecord, action: Action, outcome: Outcome) -> None:
        if outcome.missing and action.resource == PODS:
            self._lifecycle.missing(record, outcome.at)
        elif record.phase is EvictionPhase.CHECKING:
            self._node_read(record, outcome)
        elif outcome.conflict:
            self._lifecycle.changed(record, outcome.at)
        elif _is_request(action) and (outcome.ok or outcome.exists):
            self.requests.begin(record.uid or "")
            self._lifecycle.asked(record, outcome.at + self._timeout)
        elif not outcome.ok:
            self._lifecycle.refused(record, outcome)
        elif record.phase is EvictionPhase.MARKING:
            version = outcome.decode(PartialObjectMetadata).metadata.resource_version
            self._lifecycle.marked(record, version or "")
        else:
            self._lifecycle.evicted(record, outcome.at)

    def _node_read(self, record: PodRecord, outcome: Outcome) -> None:
        """Compare a node as the server has it with the watch; if they differ, the watch is behind."""
        nodes = self._state.mirror.cluster.nodes
        slot = nodes.slot_of.get(record.node)
        seen = None if slot is None else nodes.labels[slot] or {}
        if not outcome.ok and not outcome.missing:
            self._lifecycle.refused(record, outcome)
        elif outcome.ok and (outcome.decode(Node).metadata.labels or {}) == seen:
            self._lifecycle.node_confirmed(record)
        else:
            self._lifecycle.changed(record, outcome.at)

    # --- news ---------------------------------------------------------------------------------------

    def awaits(self, pod: str) -> bool:
        """Whether a change of a pod lets an eviction go on, or ended one."""
        record = self._state.records.get(pod)
        return bool(self._state.ended) or (record is not None and record.phase is EvictionPhase.MARKED)

    def nodes_changed(self, nodes: set[str]) -> bool:
        """The labels of nodes changed: those that were refused there are tried again. Whether some were."""
        return bool(nodes) and self._try_again(lambda attempt: attempt.planned.node in nodes)

    def budget_changed(self, *states: PodDisruptionBudget | None) -> bool:
        """A budget changed: those that it may have protected are tried again. Whether some were."""
        known = [budget for budget in states if budget is not None]
        return self._try_again(
            lambda attempt: attempt.refused and any(is_guarded(attempt.pod.metadata, each) for each in known)
        )

    def _try_again(self, which: Callable[[EvictionAttempt], bool]) -> bool:
        found = [attempt for attempt in self._waiting() if which(attempt)]
        for attempt in found:
            attempt.not_before = 0.0
        return bool(found)

    def _waiting(self) -> list[EvictionAttempt]:
        return [
            record.attempt
            for record in self._state.active.values()
            if record.attempt is not None and record.phase is EvictionPhase.WAITING
        ]

    def obstacles(self) -> Counter[str]:
        """How many pods wait, by what they wait for."""
        return Counter(attempt.obstacle.partition(" ")[0] for attempt in self._waiting() if attempt.obstacle)


def _is_request(action: Action) -> bool:
    return isinstance(action, Create) and action.resource == EVICTION_REQUESTS
