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
from dataclasses import dataclass
from enum import Enum
from itertools import count

from berth.engine.execution.eviction_ceiling import name_of
from berth.engine.execution.violations import NODE
from berth.eviction import decisions
from berth.eviction.decisions import EvictionDecision
from berth.eviction.desk import Desk
from berth.eviction.finding import details_of, key_of
from berth.eviction.metrics import NODE_KIND
from berth.eviction.pacing import owner_id
from berth.eviction.planning import Planned
from berth.eviction.signals import (
    ABSOLVE,
    EXPLAIN,
    REASONS,
    STEP,
    is_marked,
    is_marked_by_us,
    kind_of,
    mark,
    reasons_of,
    refusal,
)
from berth.kube.api_resources import NODES, PODS
from berth.kube.objects import LivePod, Node, PartialObjectMetadata, PodDisruptionBudget
from berth.kube.selectors import parse_label_selector
from berth.machines.contract import Action, Evict, Get, Outcome

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
# After a conflict the watch has the newer version in a moment.
_FIRST_GLANCE, _LONGEST_GLANCE = 0.1, 5.0
# A rule that is broken so soon after a pod came was broken when it came.
_AT_ONCE = 1.0
# A pod that was evicted is seen to go by then.
_SEEN = 30.0

# Answers after which the eviction may have happened all the same; 0 is none at all, and 500 is what a server
# says whose storage did not answer.
_UNSURE = frozenset({0, 500, 502, 503, 504})

BUDGET, HALTED, PACED, BACKED_OFF, RATE = "refused", "halted", "paced", "owner-backed-off", "rate"


class Phase(Enum):
    WAITING = "waiting"
    MARKING = "marking"
    MARKED = "marked"
    CHECKING = "checking"
    CHECKED = "checked"
    EVICTING = "evicting"
    GONE = "gone"


BUSY = frozenset({Phase.MARKING, Phase.CHECKING, Phase.EVICTING})


@dataclass(slots=True, eq=False)
class Attempt:
    """Attributes:
    number: By which the answers to its requests find it.
    before, version: Of the pod, as it was when it was marked, and as it was marked.
    lands: The node that would take its replacement.
    obstacle: What it waits for.
    """

    planned: Planned
    pod: LivePod
    number: int
    phase: Phase = Phase.WAITING
    before: str = ""
    version: str = ""
    lands: str | None = None
    tries: int = 0
    conflicts: int = 0
    not_before: float = 0.0
    refused: bool = False
    obstacle: str = ""


class Evicting:
    """Attributes:
    attempts: The pods that have to go, by name.
    wake: When to look again though nothing happens.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._later: list[Action] = []
        self._paced: set[str] = set()  # owners that are waited for in this round
        self._numbers = count(1)
        self._asked: dict[int, Attempt] = {}  # attempts with a request under way, by their numbers
        self._unabsolved: dict[str, float] = {}  # pods whose condition is still there -> when to try again
        self.attempts: dict[str, Attempt] = {}
        self.wake: float | None = None

    # --- one round ----------------------------------------------------------------------------------

    def round(self, now: float) -> list[Action]:
        """Take every pod a step further that can be."""
        self.wake = None
        order = self._desk.planning.prune()
        self._match(order, now)
        self._absolve_again(now)
        begun: list[Attempt] = []
        self._paced.clear()
        for attempt in self._in_order(order):
            if attempt.phase in (Phase.MARKED, Phase.CHECKED):
                if self._desk.brake.stops(attempt.planned.domain) is None:
                    self._advance(attempt, now)
                    continue
                self._return_tokens(attempt)
                attempt.phase = Phase.WAITING
            if attempt.phase is Phase.WAITING and self._is_settled(attempt) and self._may_begin(attempt, now):
                begun.append(attempt)
        if begun:
            lands = self._desk.planning.replacement_nodes([attempt.planned.departure for attempt in begun])
            for attempt in begun:
                attempt.lands = lands.get(attempt.planned.pod)
                self._begin(attempt, now)
        return self.take()

    def take(self) -> list[Action]:
        """What was decided and is not asked of the server yet."""
        actions, self._later = self._later, []
        return actions

    def _in_order(self, order: Sequence[Planned]) -> list[Attempt]:
        return [self.attempts[planned.pod] for planned in order]

    def _match(self, order: Sequence[Planned], now: float) -> None:
        """Have an attempt for everyone who has to go, and for nobody else."""
        wanted = {planned.pod: planned for planned in order}
        for name, attempt in list(self.attempts.items()):
            if name not in wanted and attempt.phase not in BUSY:
                self._give_up(attempt, now)
        for name, planned in wanted.items():
            pod = self._desk.finding.pod(name)
            if pod is not None:
                self._renew(planned, pod, now)

    def _renew(self, planned: Planned, pod: LivePod, now: float) -> None:
        attempt = self.attempts.get(planned.pod)
        if attempt is None or attempt.pod.metadata.uid != pod.metadata.uid:
            if attempt is not None and attempt.phase in (Phase.MARKED, Phase.CHECKED):
                self._return_tokens(attempt)  # of those who are asked for the answer does it
            self.attempts[planned.pod] = Attempt(planned, pod, next(self._numbers))
            self._notice_return(planned, pod, now)
            return
        attempt.planned, attempt.pod = planned, pod
        if attempt.phase is Phase.GONE:
            if attempt.not_before <= now:
                attempt.phase = Phase.WAITING  # it was said to go, and is still here
            else:
                self._wake_at(attempt.not_before)

    def _notice_return(self, planned: Planned, pod: LivePod, now: float) -> None:
        """A pod that has to go as soon as it is there, in the place of one that we evicted."""
        desk, owner = self._desk, owner_id(pod)
        arrived = desk.finding.arrivals.get(planned.pod)
        if arrived is None or planned.since > arrived + _AT_ONCE:
            return
        until = desk.returns.came_back(owner, now)
        if until is not None:
            desk.metrics.returns.inc()
            desk.signals.came_back(pod, desk.returns, now)
            details = {"owner": owner, "node": planned.node, "seconds": round(until - now)}
            desk.tell(EvictionDecision(now, decisions.BACKED_OFF, planned.pod, details))

    def _is_settled(self, attempt: Attempt) -> bool:
        """Whether it is this pod that has to go, though the plan may be out of date."""
        departure = attempt.planned.departure
        own = any(breach.kind == NODE and breach.pod == departure.pod for breach in departure.violations)
        return own or not self._desk.planning.stale

    def _may_begin(self, attempt: Attempt, now: float) -> bool:
        obstacle, when = self._obstacle(attempt, now)
        if obstacle:
            self._wake_at(when)
            told, attempt.obstacle = attempt.obstacle, obstacle
            if obstacle not in (told, RATE):
                self._say(decisions.WAITING, attempt, now, reason=obstacle)
            return False
        if not self._still(attempt, now):
            return False
        attempt.obstacle = ""
        # Taken at once, so that those who come after in this round know.
        self._desk.limits.take(attempt.planned.domain, now)
        self._desk.pacing.begin(attempt.pod)
        return True

    def _obstacle(self, attempt: Attempt, now: float) -> tuple[str, float | None]:
        """What a pod has to wait for, and until when at the longest."""
        planned, pod = attempt.planned, attempt.pod
        if (halt := self._desk.brake.stops(planned.domain)) is not None:
            return f"{HALTED} in {name_of(halt.domain)}", None
        if attempt.not_before > now:
            return BUDGET if attempt.refused else attempt.obstacle or RATE, attempt.not_before
        owner = owner_id(pod)
        if (until := self._desk.returns.until(owner)) > now:
            return BACKED_OFF, until
        if owner in self._paced or self._desk.pacing.waits(pod, now):
            self._paced.add(owner)
            return PACED, self._desk.pacing.due(pod, now)
        if (when := self._desk.limits.available(planned.domain, now)) > now:
            return RATE, when
        return "", None

    def _wake_at(self, when: float | None) -> None:
        if when is not None and (self.wake is None or when < self.wake):
            self.wake = when

    def _still(self, attempt: Attempt, now: float) -> bool:
        """Whether the pod has to go as far as is known at this moment."""
        breaches = attempt.planned.departure.violations
        for pod in {breach.pod for breach in breaches}:
            if self._desk.finding.rejudge(pod, now):
                self._desk.planning.stale = True
        return self._is_demanded(attempt)

    def _is_demanded(self, attempt: Attempt) -> bool:
        name, finding = attempt.planned.pod, self._desk.finding
        pod = finding.pod(name)
        if pod is None or pod.metadata.uid != attempt.pod.metadata.uid:
            return False
        return any(finding.demands(breach, name) for breach in attempt.planned.departure.violations)

    def confirms(self, action: Action) -> bool:
        """Asked when a request is about to be sent, which may be some time after it was decided."""
        attempt = self._asked.get(action.attempt)
        if attempt is None or not isinstance(action, Evict):
            return True
        return self._desk.brake.stops(attempt.planned.domain) is None and self._is_demanded(attempt)

    # --- the steps ----------------------------------------------------------------------------------

    def _begin(self, attempt: Attempt, now: float) -> None:
        departure, pod = attempt.planned.departure, attempt.pod
        self._say(decisions.EVICTING, attempt, now, replacement=attempt.lands or "nowhere")
        attempt.before = pod.metadata.resource_version or ""
        kind = kind_of(departure)
        if kind == NODE_KIND and is_marked(pod, departure):
            attempt.phase, attempt.version = Phase.MARKED, attempt.before
            self._advance(attempt, now)
            return
        attempt.phase = Phase.MARKING
        reason, message = REASONS[kind], reasons_of(departure)
        self._ask(
            attempt, mark(pod, purpose=STEP, reason=reason, message=message, now=now, attempt=attempt.number)
        )

    def _advance(self, attempt: Attempt, now: float) -> None:
        if not self._still(attempt, now):
            self._give_up(attempt, now)
            return
        metadata, departure = attempt.pod.metadata, attempt.planned.departure
        if attempt.phase is Phase.MARKED:
            if attempt.before == metadata.resource_version != attempt.version:
                return  # the watch has not shown the mark yet
            attempt.phase = Phase.CHECKING
            node = attempt.planned.node
            self._ask(
                attempt, Get(resource=NODES, key=("", node), name=node, purpose=STEP, attempt=attempt.number)
            )
            return
        attempt.phase = Phase.EVICTING
        namespace, name = key_of(attempt.planned.pod)
        self._ask(
            attempt,
            Evict(
                resource=PODS,
                key=(namespace, name),
                namespace=namespace,
                name=name,
                uid=metadata.uid,
                resource_version=attempt.version or None,
                attempt=attempt.number,
                purpose=STEP,
                why=reasons_of(departure),
            ),
        )

    def _ask(self, attempt: Attempt, action: Action) -> None:
        self._asked[attempt.number] = attempt
        self._later.append(action)

    def _give_up(self, attempt: Attempt, now: float) -> None:
        """Nobody asks for it any more."""
        if attempt.phase in (Phase.MARKED, Phase.CHECKED):
            self._return_tokens(attempt)
        pod = self._desk.finding.pod(attempt.planned.pod)
        if self.attempts.get(attempt.planned.pod) is attempt:
            del self.attempts[attempt.planned.pod]
        if pod is None or pod.metadata.uid != attempt.pod.metadata.uid or attempt.phase is Phase.GONE:
            return
        self._desk.pacing.cancel(pod)  # that nobody answered does not matter any more: it is there
        if attempt.version or is_marked_by_us(pod):
            self.absolve(pod, now)

    def absolve(self, pod: LivePod, now: float) -> None:
        """Take the condition back: the rules hold."""
        message = "The affinity rules of the pod hold again"
        self._later.append(
            mark(
                pod,
                purpose=ABSOLVE,
                reason="AffinityRulesHold",
                message=message,
                now=now,
                status="False",
            )
        )

    def doubt(self, pod: str, now: float) -> None:
        """Its condition may have to be taken back: look again in a while."""
        self._unabsolved[pod] = now + _LONGEST_GLANCE
        self._wake_at(self._unabsolved[pod])

    def _absolve_again(self, now: float) -> None:
        for name, when in list(self._unabsolved.items()):
            if when > now:
                self._wake_at(when)
                continue
            del self._unabsolved[name]
            pod = self._desk.finding.pod(name)
            if pod is None or name in self.attempts or not is_marked_by_us(pod):
                continue
            if name in self._desk.finding.ledger:
                self.doubt(name, now)
            else:
                self.absolve(pod, now)

    def _return_tokens(self, attempt: Attempt) -> None:
        self._desk.limits.give_back(attempt.planned.domain)
        self._desk.pacing.cancel(attempt.pod)

    # --- what became of them ------------------------------------------------------------------------

    def done(self, action: Action, outcome: Outcome) -> None:
        if action.purpose is ABSOLVE and not (outcome.ok or outcome.missing):
            self.doubt("/".join(action.key), outcome.at)
        attempt = self._asked.pop(action.attempt, None)
        if attempt is None:
            return
        if self.attempts.get(attempt.planned.pod) is not attempt:
            if isinstance(action, Evict) and outcome.ok:
                self._evicted(attempt, outcome.at)
            else:
                self._return_tokens(attempt)  # another pod has its name now
            return
        if outcome.missing and action.resource == PODS:
            self._return_tokens(attempt)
            attempt.phase, attempt.not_before = Phase.GONE, outcome.at + _SEEN
        elif attempt.phase is Phase.CHECKING:
            self._checked(attempt, outcome)
        elif outcome.conflict:
            self._glance(attempt, outcome.at)
        elif not outcome.ok:
            self._failed(attempt, outcome)
        elif attempt.phase is Phase.MARKING:
            version = outcome.decode(PartialObjectMetadata).metadata.resource_version
            attempt.phase, attempt.version = Phase.MARKED, version or ""
        else:
            self._evicted(attempt, outcome.at)

    def _checked(self, attempt: Attempt, outcome: Outcome) -> None:
        """The node as the server has it: where it differs from what is known, the watch is behind."""
        known = self._desk.cache.get(NODES, ("", attempt.planned.node), Node)
        if outcome.ok and known is not None:
            labels = outcome.decode(Node).metadata.labels or {}
            if labels == (known.metadata.labels or {}):
                attempt.phase = Phase.CHECKED
                return
        elif not outcome.ok and not outcome.missing:
            self._failed(attempt, outcome)
            return
        self._glance(attempt, outcome.at)

    def _glance(self, attempt: Attempt, at: float) -> None:
        """Something is different from what was seen: look again in a moment."""
        self._return_tokens(attempt)
        pause = min(_FIRST_GLANCE * 2.0 ** min(attempt.conflicts, 10), _LONGEST_GLANCE)
        attempt.conflicts += 1
        attempt.phase, attempt.not_before, attempt.refused = Phase.WAITING, at + pause, False
        attempt.obstacle = "changed"

    def _failed(self, attempt: Attempt, outcome: Outcome) -> None:
        if attempt.phase is Phase.EVICTING and outcome.code in _UNSURE:
            self._desk.pacing.went(attempt.pod, outcome.at)  # perhaps it did
        else:
            self._return_tokens(attempt)
        pause = min(FIRST_PAUSE * 2.0 ** min(attempt.tries, 10), LONGEST_PAUSE)
        attempt.tries += 1
        attempt.phase, attempt.refused = Phase.WAITING, True
        attempt.not_before = outcome.at + max(pause, min(outcome.retry_after or 0.0, LONGEST_PAUSE))
        attempt.obstacle = BUDGET
        departure, why = attempt.planned.departure, refusal(outcome)
        namespace, name = key_of(attempt.planned.pod)
        self._desk.metrics.failures[kind_of(departure)].inc(name, namespace)
        self._desk.signals.failed(attempt.pod, departure, why, outcome.at)
        self._say(decisions.REFUSED, attempt, outcome.at, code=outcome.code, err=why)

    def _evicted(self, attempt: Attempt, at: float) -> None:
        planned, pod = attempt.planned, attempt.pod
        departure = planned.departure
        attempt.phase, attempt.not_before, attempt.tries = Phase.GONE, at + _SEEN, 0
        kind = kind_of(departure)
        self._desk.metrics.evictions[kind].inc()
        self._desk.metrics.seconds.labels(kind).observe(max(at - planned.since, 0.0))
        self._desk.signals.evicted(pod, departure, attempt.lands, at)
        self._desk.pacing.went(pod, at)
        self._desk.returns.went(owner_id(pod), at)
        self._desk.brake.went(planned.domain, at)
        self._say(decisions.EVICTED, attempt, at, replacement=attempt.lands or "nowhere")
        # The Eviction API writes a reason of its own; the pod's last words are to be the cause.
        message = reasons_of(departure)
        self._later.append(
            mark(
                pod,
                purpose=EXPLAIN,
                reason=REASONS[kind],
                message=message,
                now=at,
            )
        )

    def _say(self, what: str, attempt: Attempt, at: float, **details: object) -> None:
        breaches = attempt.planned.departure.violations
        broken = details_of(breaches[0]) if breaches else {}
        if breaches and breaches[0].pod != attempt.planned.pod:
            broken["of"] = breaches[0].pod
        self._desk.tell(EvictionDecision(at, what, attempt.planned.pod, {**broken, **details}))

    # --- news ---------------------------------------------------------------------------------------

    @property
    def pending(self) -> bool:
        """Whether there is something to do at once."""
        return bool(self._later)

    def awaits(self, pod: str) -> bool:
        """Whether a change of a pod is waited for."""
        attempt = self.attempts.get(pod)
        return attempt is not None and attempt.phase is Phase.MARKED

    def hasten(self, nodes: set[str]) -> bool:
        """The labels of nodes changed: those that were refused there are tried again. Whether some were."""
        return bool(nodes) and self._try_again(lambda attempt: attempt.planned.node in nodes)

    def budget_changed(self, *states: PodDisruptionBudget | None) -> bool:
        """A budget changed: those that it may have protected are tried again. Whether some were."""
        return self._try_again(lambda attempt: attempt.refused and _concerned(attempt.pod, states))

    def _try_again(self, which: Callable[[Attempt], bool]) -> bool:
        found = [a for a in self.attempts.values() if a.phase is Phase.WAITING and which(a)]
        for attempt in found:
            attempt.not_before = 0.0
        return bool(found)

    def waiting(self) -> Counter[str]:
        """How many wait, by what for."""
        return Counter(
            attempt.obstacle.partition(" ")[0]
            for attempt in self.attempts.values()
            if attempt.phase is Phase.WAITING and attempt.obstacle
        )


def _concerned(pod: LivePod, budgets: Sequence[PodDisruptionBudget | None]) -> bool:
    metadata = pod.metadata
    return any(
        budget is not None
        and budget.metadata.namespace == metadata.namespace
        and parse_label_selector(budget.spec.selector).matches(metadata.labels or {})
        for budget in budgets
    )
