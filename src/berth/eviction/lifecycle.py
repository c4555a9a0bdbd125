"""The life of an eviction: every transition from phase to phase of a record, with what it asks for.

| phase      | transition        | next       | when                                                         |
|------------|-------------------|------------|--------------------------------------------------------------|
| `STAYING`  | `plan`            | `WAITING`  | the plan says that the pod has to go                         |
| `WAITING`  | `begin`           | `MARKING`  | nothing keeps it from going: its condition is written        |
| `WAITING`  | `begin`           | `MARKED`   | the same, and the condition is there already                 |
| `MARKING`  | `marked`          | `MARKED`   | the condition was written to the pod as it had been seen     |
| `MARKED`   | `check_node`      | `CHECKING` | the watch shows the mark: its node is read from the server   |
| `CHECKING` | `node_confirmed`  | `CHECKED`  | the node has the labels by which the pod was judged          |
| `CHECKED`  | `evict`           | `EVICTING` | the pod still has to go: its eviction is asked for           |
| `EVICTING` | `evicted`         | `EVICTED`  | the server took the eviction                                 |
| `EVICTING` | `asked`           | `ASKED`    | the server took an EvictionRequest instead                   |
| `ASKED`    | `evicted`         | `EVICTED`  | the pod goes, or the request says that it has gone           |
| `ASKED`    | `refused`         | `WAITING`  | the request failed, was withdrawn, or nobody answered it     |
| requested  | `missing`         | `EVICTED`  | the server no longer has the pod                             |
| requested  | `changed`         | `WAITING`  | pod or node are not as they were seen: look again            |
| requested  | `refused`         | `WAITING`  | the server said no, or nothing                               |
| answered   | `hold`            | `WAITING`  | its domain was halted meanwhile, and it is not its turn      |
| `EVICTED`  | `still_there`     | `WAITING`  | the pod did not go for all that                              |
| any but requested | `cancel`   | `STAYING`  | nobody asks for it any more, or the pod is gone              |

Requested are `MARKING`, `CHECKING` and `EVICTING`, answered `MARKED` and `CHECKED`.  From `begin` on a pod
holds its place in the rates and in the pace of its owner; who does not go gives that back.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any

from berth.eviction.reports import EvictionReports
from berth.eviction.safety import CHANGED, REFUSED, EvictionGates
from berth.eviction.state import (
    ANSWERED,
    BEGUN,
    NODE_KIND,
    POD_KIND,
    REQUESTED,
    SPREAD_KIND,
    EvictionAttempt,
    EvictionPhase,
    EvictionPurpose,
    EvictionState,
    PlannedEviction,
    PodRecord,
)
from berth.kube.api_resources import EVICTION_REQUESTS, NODES, PODS
from berth.kube.objects import EvictionRequest, LivePod, Pod, RawObject, UntimedCondition
from berth.kube.pods import pod_condition, true_condition
from berth.kube.times import stamp
from berth.kube.well_known import DELETED, DISRUPTION_TARGET, FAILED
from berth.machines.contract import Action, Create, Event, Evict, Get, Outcome
from berth.machines.mirror import pod_key
from berth.machines.rates import Backoff
from berth.machines.requests import delete, new_condition, new_object, status_report

# The pod condition that says of a pod that it is about to go, and why.
REASONS = {
    NODE_KIND: "RequiredNodeAffinityViolation",
    POD_KIND: "RequiredPodAffinityViolation",
    SPREAD_KIND: "Rebalancing",
}

STAYING, WAITING, MARKING, MARKED, CHECKING, CHECKED, EVICTING, ASKED, EVICTED = EvictionPhase

_REFUSALS = Backoff(first=1.0, longest=60.0)
# Seconds until the watch should show the newer version after a conflict.
_CONFLICTS = Backoff(first=0.1, longest=5.0)
# Seconds in which the watch should show that an evicted pod terminates.
_SEEN = 30.0
# Answers after which the eviction may have happened all the same; 0 is none at all, and 500 is what a server
# says whose storage did not answer.
_UNSURE = frozenset({0, 500, 502, 503, 504})
_RULES_HOLD = ("False", "AffinityRulesHold", "The affinity rules of the pod hold again")


class EvictionLifecycle:
    """Changes the phase of records, which nobody else does; who calls has asked the rules and the gates."""

    def __init__(
        self, state: EvictionState, gates: EvictionGates, reports: EvictionReports, *, asks: bool
    ) -> None:
        self._asks = asks  # for evictions by EvictionRequests
        self._state = state
        self._gates = gates
        self._reports = reports

    # --- towards the eviction -----------------------------------------------------------------------

    def plan(self, record: PodRecord, planned: PlannedEviction, pod: LivePod) -> None:
        record.attempt = EvictionAttempt(planned, pod)
        self._to(record, WAITING, {STAYING})

    def begin(self, record: PodRecord, replacement: str | None, now: float) -> None:
        """No gate holds the pod; `replacement` is the node that would take its replacement."""
        attempt = _attempt_of(record)
        planned, pod = attempt.planned, attempt.pod
        attempt.replacement = replacement
        attempt.seen_version = pod.metadata.resource_version or ""
        self._reports.evicting(attempt, now)
        if planned.kind == NODE_KIND and is_marked(pod, NODE_KIND):
            attempt.marked_version = attempt.seen_version
            self._to(record, MARKED, {WAITING})
            return
        self._to(record, MARKING, {WAITING})
        self._write_condition(record, pod, EvictionPurpose.STEP, now)

    def marked(self, record: PodRecord, version: str) -> None:
        """The condition was written, and made this version of the pod."""
        _attempt_of(record).marked_version = version
        self._to(record, MARKED, {MARKING})

    def check_node(self, record: PodRecord) -> None:
        self._to(record, CHECKING, {MARKED})
        self._ask(Get, record, resource=NODES, at=("", record.node))

    def node_confirmed(self, record: PodRecord) -> None:
        self._to(record, CHECKED, {CHECKING})

    def evict(self, record: PodRecord) -> None:
        """Ask for the eviction of the pod: in the version that was marked, or by a request."""
        attempt = _attempt_of(record)
        self._to(record, EVICTING, {CHECKED})
        why = attempt.planned.reasons
        # Requests for members of a PodGroup are not supported.
        if self._asks and attempt.pod.spec.scheduling_group is None:
            at, body = (pod_key(record.name)[0], ""), request_of(attempt.pod)
            self._ask(Create, record, resource=EVICTION_REQUESTS, at=at, body=body, why=why)
        else:
            version = attempt.marked_version or None
            self._ask(Evict, record, resource=PODS, uid=record.uid, resource_version=version, why=why)

    def asked(self, record: PodRecord, until: float) -> None:
        """The server took the request; whoever responds to it has until then."""
        _attempt_of(record).not_before = until
        self._to(record, ASKED, {EVICTING})

    def evicted(self, record: PodRecord, at: float) -> None:
        """The server took the eviction, or the pod that was asked for goes."""
        attempt = _attempt_of(record)
        attempt.not_before, attempt.failures = at + _SEEN, 0
        self._gates.evicted(attempt, at)
        self._reports.evicted(attempt, at)
        # The Eviction API overwrites the condition with a reason of its own: write the cause once more.
        self._write_condition(record, attempt.pod, EvictionPurpose.EXPLAIN, at)
        self._to(record, EVICTED, {EVICTING, ASKED})

    # --- back ---------------------------------------------------------------------------------------

    def missing(self, record: PodRecord, at: float) -> None:
        """The server no longer has the pod; the watch will show that."""
        attempt = _attempt_of(record)
        self._gates.turn_back(attempt)
        attempt.not_before = at + _SEEN
        self._to(record, EVICTED, REQUESTED)

    def changed(self, record: PodRecord, at: float) -> None:
        """Pod or node differ from what was seen: look again in a moment."""
        attempt = _attempt_of(record)
        self._gates.turn_back(attempt)
        attempt.conflicts += 1
        attempt.not_before = at + _CONFLICTS.after(attempt.conflicts)
        attempt.refused, attempt.obstacle = False, CHANGED
        self._to(record, WAITING, REQUESTED)

    def refused(self, record: PodRecord, outcome: Outcome) -> None:
        """The server said no, or nothing, or nothing came of a request: try again later, later each time."""
        attempt = _attempt_of(record)
        if record.phase is EVICTING and outcome.code in _UNSURE:
            self._gates.under_way.evicted(attempt.pod, outcome.at)
        else:
            self._gates.turn_back(attempt)
        attempt.failures += 1
        asked = min(outcome.retry_after or 0.0, _REFUSALS.longest)
        attempt.not_before = outcome.at + max(_REFUSALS.after(attempt.failures), asked)
        attempt.refused, attempt.obstacle = True, REFUSED
        self._to(record, WAITING, REQUESTED | {ASKED})
        self._reports.refused(attempt, outcome)

    def hold(self, record: PodRecord) -> None:
        self._gates.turn_back(_attempt_of(record))
        self._to(record, WAITING, ANSWERED)

    def still_there(self, record: PodRecord) -> None:
        self._to(record, WAITING, {EVICTED})

    def cancel(self, record: PodRecord, now: float) -> None:
        """Nobody asks for it any more, or there is no such pod."""
        before, attempt = record.phase, _attempt_of(record)
        if before in BEGUN:
            self._gates.turn_back(attempt)
        record.attempt = None
        self._to(record, STAYING, frozenset(EvictionPhase) - REQUESTED)
        pod = self._state.pod(record.name)
        if pod is None or not self._state.is_current(record) or before is EVICTED:
            return
        self._gates.under_way.cancel(pod)  # the pod is still there, so the unanswered eviction did not happen
        if attempt.marked_version or is_marked(pod):
            self.clear_condition(record, pod, now)

    def clear_condition(self, record: PodRecord, pod: LivePod, now: float) -> None:
        """Take the condition back: the rules hold."""
        self._write_condition(record, pod, EvictionPurpose.CLEAR, now)

    # --- parts of them ------------------------------------------------------------------------------

    def _to(self, record: PodRecord, phase: EvictionPhase, allowed: AbstractSet[EvictionPhase]) -> None:
        if record.phase not in allowed:
            raise ValueError(f"{record.name} is {record.phase.value} and cannot be {phase.value} next")
        record.phase = phase
        self._state.index(record)

    def _write_condition(self, record: PodRecord, pod: LivePod, purpose: EvictionPurpose, now: float) -> None:
        """Set the pod's condition: as a step of its eviction only if the pod is still as it was seen."""
        status, reason, message = _RULES_HOLD
        if purpose is not EvictionPurpose.CLEAR:
            planned = _attempt_of(record).planned
            status, reason, message = "True", REASONS[planned.kind], planned.reasons
        known = pod_condition(pod, DISRUPTION_TARGET)
        entry = new_condition(DISRUPTION_TARGET, status, reason, message[:1024], now, known)
        change = {"conditions": [{**entry, "lastProbeTime": stamp(now)}]}
        in_version, number = purpose is EvictionPurpose.STEP, record.number
        self._state.ready.append(
            status_report(PODS, pod, change, message, in_version=in_version, purpose=purpose, attempt=number)
        )

    def _ask(self, request: type[Action], record: PodRecord, **fields: Any) -> None:  # noqa: ANN401
        key, number = pod_key(record.name), record.number
        self._state.ready.append(request(key=key, purpose=EvictionPurpose.STEP, attempt=number, **fields))


def _attempt_of(record: PodRecord) -> EvictionAttempt:
    if record.attempt is None:
        raise ValueError(f"{record.name} is not to be evicted")
    return record.attempt


def is_marked(pod: LivePod, *kinds: str) -> bool:
    """Whether the pod is said to go for a rule of these kinds; of any, if none is given."""
    marked = true_condition(pod.status.conditions if pod.status else None, DISRUPTION_TARGET)
    return marked is not None and marked.reason in [REASONS[kind] for kind in kinds or REASONS]


# --- EvictionRequests (`lifecycle.k8s.io`): asking others to evict a pod, in the order that it says ---
# A request is an object of ours that names a pod.  Whoever responds to it may take as long as it needs; the
# object's conditions say what became of it, and to delete it is to withdraw it.  What is not wanted any more
# is deleted, whoever made it under our name: a process before us may have left it behind.

REQUESTER = "berth.dev/controllers"
_AGAIN = 5.0  # seconds until a deletion that had no effect is asked for once more
GONE = "the EvictionRequest was withdrawn by somebody else"


class EvictionRequests:
    """Our EvictionRequests, as watched, by the UIDs of their pods."""

    def __init__(self) -> None:
        self._seen: dict[str, EvictionRequest] = {}
        self._expired: set[str] = set()
        self._gone: set[str] = set()
        self._asked: dict[str, float] = {}  # when the deletion may be asked for again

    def handle(self, event: Event) -> None:
        request: EvictionRequest = event.object
        pod = request.spec.target.pod if request.spec.target else None
        if request.spec.requester != REQUESTER or pod is None:
            return
        uid = pod.uid or ""
        if event.change != DELETED:
            self._seen[uid] = request
        elif self._seen.pop(uid, None) is not None:
            self._expired.discard(uid)
            if self._asked.pop(uid, None) is None:
                self._gone.add(uid)

    def begin(self, uid: str) -> None:
        """The eviction of a pod was asked for: what was before does not count."""
        self._gone.discard(uid)

    def give_up(self, uid: str) -> None:
        """Stop waiting for the request: it has failed."""
        self._gone.discard(uid)
        if uid in self._seen:
            self._expired.add(uid)

    def is_evicted(self, uid: str) -> bool:
        return self._condition(uid, "TargetEvicted") is not None

    def failure(self, uid: str) -> str | None:
        """Why the request has failed; None while some responder may still evict the pod."""
        if uid in self._gone:
            return GONE
        if (failed := self._condition(uid, FAILED)) is not None:
            said = " ".join(filter(None, (failed.reason, failed.message)))
            return f"the EvictionRequest failed: {said}"
        request = self._seen.get(uid)
        return GONE if request is not None and request.spec.intent == "Withdrawn" else None

    def _condition(self, uid: str, kind: str) -> UntimedCondition | None:
        """A condition with status True."""
        request = self._seen.get(uid)
        return true_condition(request.status.conditions if request and request.status else None, kind)

    # --- cleaning up --------------------------------------------------------------------------------

    def withdraw(
        self, is_wanted: Callable[[str, str], bool], now: float
    ) -> tuple[list[Action], float | None]:
        """Deletions of the requests that are settled or not wanted, and when to look again.

        `is_wanted` is asked with the name of a pod, ``namespace/name``, and its UID.
        """
        deletions: list[Action] = []
        for uid, request in self._seen.items():
            pod = request.spec.target.pod if request.spec.target else None
            name = f"{request.metadata.namespace}/{pod.name if pod else ''}"
            if is_wanted(name, uid) and not self._is_settled(uid):
                self._asked.pop(uid, None)
                continue
            if self._asked.get(uid, 0.0) <= now:
                self._asked[uid] = now + _AGAIN
                deletions.append(delete(EVICTION_REQUESTS, request, "the pod is gone, or need not go"))
        return deletions, min((when for when in self._asked.values() if when > now), default=None)

    def _is_settled(self, uid: str) -> bool:
        return uid in self._expired or self.is_evicted(uid) or self.failure(uid) is not None


def request_of(pod: Pod) -> RawObject:
    """The EvictionRequest for a pod; its name depends on the pod alone, so that there is never a second."""
    metadata = pod.metadata
    pod_reference = {"name": metadata.name, "uid": metadata.uid}
    spec = {"target": {"pod": pod_reference}, "requester": REQUESTER, "intent": "Eviction"}
    named = {"name": f"berth-{metadata.uid}", "namespace": metadata.namespace}
    return new_object(EVICTION_REQUESTS, named, spec=spec)
