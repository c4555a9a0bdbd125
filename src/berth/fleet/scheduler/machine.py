"""Schedules bindings: a queue by priority, one decision at a time, one write at a time for each binding.

What is decided counts at once for the next decision, before the server has answered; if the write
fails it no longer does.  What fits nowhere waits for a change that may help.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from berth.fleet.scheduler import group_failover, patches
from berth.fleet.scheduler.binding_events import BindingEvents
from berth.fleet.scheduler.changed_clusters import ChangedClusters
from berth.fleet.scheduler.fleet_cache import BINDINGS, FleetCache
from berth.fleet.scheduler.group_claims import GroupClaims
from berth.fleet.scheduler.metrics import FleetMetrics
from berth.fleet.scheduler.patches import ScheduledCondition
from berth.fleet.scheduler.reasons import RECONCILE, is_ours, reason_to_schedule
from berth.fleet.scheduler.settings import FleetSettings
from berth.fleet.scheduler.unschedulable import NO_ROOM, UnschedulableBindings
from berth.fleet.state.errors import NO_CLUSTER_FIT, SCHEDULER_ERROR, UNSCHEDULABLE
from berth.kube.api_resources import CLUSTER_POLICIES, CLUSTERS, NAMESPACES, POLICIES, Resource
from berth.kube.karmada import Binding, Placement
from berth.machines.contract import DELETED, Action, Event, Get, Key, Outcome, Patch
from berth.machines.queue import Queue
from berth.machines.recorder import EVENT
from berth.machines.story import Story

if TYPE_CHECKING:
    from collections.abc import Sequence

    from berth.fleet.placement.decision import PlacementDecision
    from berth.fleet.state.index import IndexedWorkload
    from berth.kube.karmada import TargetCluster

# Decisions between two looks at what happened.
_BATCH = 32
# How long a binding waits for the labels of its workload, which another watch brings.
PATIENCE = 2.0
# Seconds after which the watch should have shown who was faster.
_SOON = 0.05
SPEC, STATUS = "spec", "status"


Tell = Callable[
    [Key, str, "PlacementDecision"], None
]  # a binding, why it was looked at, and what was decided


@dataclass(slots=True)
class _Work:
    """A decision on its way to the server."""

    kind: str
    verdict: ScheduledCondition
    targets: Sequence[TargetCluster]
    since: float
    follows: tuple[Key, ...] = ()


class FleetScheduler:
    """A state machine that a runner feeds.

    Attributes:
        story: What was decided and why, kept for a while.
    """

    name = "berth-fleet"
    watches: tuple[Resource, ...] = (CLUSTERS, *BINDINGS, POLICIES, CLUSTER_POLICIES, NAMESPACES)

    def __init__(
        self,
        settings: FleetSettings | None = None,
        *,
        identity: str = "berth-fleet",
        metrics: FleetMetrics | None = None,
        timer: Callable[[], float] = time.perf_counter,
        tell: Tell | None = None,
    ) -> None:
        self.settings = settings or FleetSettings()
        self.metrics = metrics or FleetMetrics()
        self.story = Story()
        self.waiting = UnschedulableBindings()
        self.keeping = FleetCache(self.settings.options, self._moved)
        self.fleet = self.keeping.fleet
        self.reports = BindingEvents(min(self.settings.scheduler_names, default=self.name), self.story)
        self._ripples = ChangedClusters(self.fleet.clusters)
        self._claiming = GroupClaims(self.keeping, identity)
        self._queue: Queue[Key] = Queue()
        self._ready: list[tuple[int, int, Key]] = []
        self._count = 0
        self._forced: dict[Key, str] = {}
        self._again: dict[Key, float] = {}  # when to decide once more, whatever is said meanwhile
        self._settled: dict[Key, int] = {}
        self._work: dict[Key, _Work] = {}
        self._owed: dict[Key, ScheduledCondition] = {}
        self._unsure: set[Key] = set()
        self._after: dict[Key, dict[Key, None]] = {}
        self._asked: set[Key] = set()
        self._timer = timer
        self._tell = tell
        self._patience: dict[Key, float] = {}
        self.metrics.blocked.set_function(lambda: len(self.waiting))
        self.metrics.index.set_function(lambda: len(self.fleet.index))

    # --- keeping up ---------------------------------------------------------------

    def handle(self, event: Event) -> None:
        if event.resource in BINDINGS:
            self._binding_changed(event)
        elif event.resource == CLUSTERS:
            self._cluster_changed(event)
        elif event.resource == NAMESPACES:
            self._namespace_changed(event)
        else:
            for key in self.keeping.handle(event):
                self._learned(key)
                if key in self._patience:
                    self._queue.add(key)

    def _binding_changed(self, event: Event) -> None:
        key, binding = event.key, event.object
        if event.change == DELETED:
            self._forget(key)
            return
        known, entry = self.keeping.bindings.get(key), self.fleet.index.get(key)
        if not self.keeping.see(key, binding):
            return
        ours = is_ours(binding, self.settings)
        if not ours or binding.metadata.deletion_timestamp is not None:
            self._claiming.forget(key)  # it will not found its group: others may
        if not ours:
            return
        if known is None or known.metadata.uid != binding.metadata.uid:
            self._enqueue(key, "BindingAdd")
        elif known.metadata.generation != binding.metadata.generation:
            self._enqueue(key, "BindingUpdate")
        elif key in self._owed:
            self._queue.add(key)
        elif entry is not self.fleet.index.get(key) and self.settings.retry_blocked:
            self._learned(key)

    def _forget(self, key: Key) -> None:
        self.keeping.forget(key)
        self._confirmed(key)
        self.waiting.remove(key)
        self._queue.forget(key)
        self._claiming.forget(key)
        self._unsure.discard(key)
        known: dict[Key, Any]
        for known in (self._forced, self._again, self._settled, self._owed, self._patience):
            known.pop(key, None)

    def _learned(self, key: Key) -> None:
        """Other rules or labels: they matter to who is not placed, and to whoever waits for a peer."""
        binding = self.keeping.bindings.get(key)
        if binding is None or not is_ours(binding, self.settings):
            return
        if key in self.waiting or not binding.spec.clusters:
            self._force(key, "its workload or policy changed", "PolicyChanged")

    def _cluster_changed(self, event: Event) -> None:
        clusters = self.fleet.clusters
        shape, version = clusters.shape, clusters.version
        self.keeping.handle(event)
        if clusters.shape != shape:
            self._ripples.changed(event.key[1])
        elif clusters.version != version and self.settings.retry_blocked:
            self._ripples.reported()

    def _namespace_changed(self, event: Event) -> None:
        version = self.fleet.index.version
        self.keeping.handle(event)
        if self.fleet.index.version != version and self.settings.retry_blocked:
            for key in self.waiting:
                self._queue.add(key)

    def _moved(self, entry: IndexedWorkload) -> None:
        if self.settings.retry_blocked:
            for key in list(self.waiting.concerned(entry)):
                if key != entry.key:
                    self._queue.add(key)

    def _enqueue(self, key: Key, why: str) -> None:
        self.metrics.incoming.labels(why).inc()
        self._queue.add(key)

    def _force(self, key: Key, reason: str, why: str) -> None:
        self._forced[key] = reason
        self._enqueue(key, why)

    def _retry_at(self, key: Key, when: float) -> None:
        self._again[key] = when
        self._queue.add_at(key, when)

    def due(self) -> float | None:
        if self._ready or self._claiming.released:
            return 0.0
        times = (self._queue.due(), self.reports.recorder.due(), self._ripples.due())
        return min((when for when in times if when is not None), default=None)

    # --- deciding -----------------------------------------------------------------

    def reconcile(self, now: float) -> list[Action]:
        while self._claiming.released:
            self._queue.add(self._claiming.released.pop())
        for key in self._ripples.take(now, self.keeping.bindings, self.waiting, self.settings):
            self._settled.pop(key, None)
            self._enqueue(key, "ClusterChanged")
        for key in self._queue.take(now):
            binding = self.keeping.bindings.get(key)
            if binding is not None:
                priority = binding.spec.schedule_priority
                rank = -((priority.priority if priority is not None else None) or 0)
                self._count += 1
                heapq.heappush(self._ready, (rank, self._count, key))
        actions: list[Action] = []
        for _ in range(min(_BATCH, len(self._ready))):
            key = heapq.heappop(self._ready)[2]
            if key in self._asked:
                self._queue.add(key)
                continue
            action = self._step(key, now)
            if action is not None:
                self._asked.add(key)
                self._queue.started(key, 1)
                actions.append(action)
        return actions + self.reports.recorder.take(now)

    def _step(self, key: Key, now: float) -> Action | None:
        """The next request for a binding, if it needs one."""
        binding = self.keeping.bindings.get(key)
        if binding is None or key in self._work:
            return None
        if key in self._unsure:  # others may be waiting to know where it is
            return Get(resource=patches.resource_of(key), key=key, namespace=key[0], name=key[1])
        if not is_ours(binding, self.settings):
            return None
        said = self._say(key, binding, self._owed[key], now) if key in self._owed else None
        if said is not None:
            return said
        if self._claiming.busy(key):
            return self._claiming.next(key, now)
        lasting = binding.metadata.deletion_timestamp is None and binding.spec.placement is not None
        return self._consider(key, binding, now) if lasting and not self._early(key, now) else None

    def _early(self, key: Key, now: float) -> bool:
        """Whether to wait for the workload of a binding: its labels may decide."""
        if not self.keeping.unseen(key):
            self._patience.pop(key, None)
            return False
        until = self._patience.setdefault(key, now + PATIENCE)
        if now < until:
            self._queue.add_at(key, until)
        return now < until

    def _consider(self, key: Key, binding: Binding, now: float) -> Action | None:
        wanted = self._reason(key, binding)
        if wanted is None:
            if (binding.status.scheduler_observed_generation or 0) != (binding.metadata.generation or 0):
                return self._patch(key, patches.observed_patch(binding), "status")
            return None
        return self._schedule(key, binding, wanted, now)

    def _reason(self, key: Key, binding: Binding) -> tuple[str, str] | None:
        if key in self._forced:
            return RECONCILE, self._forced.pop(key)
        if key in self.waiting:
            return RECONCILE, "it may fit now"
        if self._is_settled(key):
            return None
        return reason_to_schedule(binding, self.fleet.clusters, compat=self.settings.options.compat)

    def _is_settled(self, key: Key) -> bool:
        """Whether the newest generation of a binding was decided on."""
        binding = self.keeping.bindings.get(key)
        return binding is None or self._settled.get(key) == binding.metadata.generation

    def _schedule(self, key: Key, binding: Binding, wanted: tuple[str, str], now: float) -> Action | None:
        self._again.pop(key, None)
        if self._must_wait(key):
            self._forced[key] = wanted[1]
            return None
        started = self._timer()
        decision = self.fleet.decide(key)
        self.metrics.seconds.observe(self._timer() - started)
        founding = decision.decisive.founding if self.settings.claim_groups else []
        claim = self._claiming.begin(key, binding, founding, now)
        if claim is not None:
            self._forced[key] = wanted[1]
            return claim
        self.story.tell(now, key, "decided", f"{wanted[1]}: {decision.error or _said(decision)}")
        if self._tell is not None and not patches.stays(binding, decision.targets):
            self._tell(key, wanted[1], decision)
        if decision.error is not None:
            return self._failed(key, binding, decision, wanted[0], now)
        return self._succeeded(key, binding, decision, wanted[0], now)

    def _must_wait(self, key: Key) -> bool:
        """Whether a peer is on its way to a place that this binding would follow it to."""
        if self._claiming.others(key):
            return True
        peer = self.keeping.unconfirmed(key)
        if peer is None:
            return False
        self._after.setdefault(peer, {})[key] = None
        return True

    def _confirmed(self, key: Key) -> None:
        """It is known now where a binding is: who waited to follow it may."""
        self.keeping.settle(key)
        for follower in self._after.pop(key, ()):
            self._queue.add(follower)

    def _succeeded(
        self, key: Key, binding: Binding, decision: PlacementDecision, kind: str, now: float
    ) -> Action | None:
        targets = decision.targets or []
        several = (binding.spec.placement or Placement()).cluster_affinities
        name = decision.decisive.affinity_name if several else None
        verdict = ScheduledCondition(patches.SUCCESS, patches.SUCCESS_MESSAGE, name)
        self.waiting.remove(key)
        self.reports.attempts_failed(key, binding, decision, now)
        leave = group_failover.left_behind(self.fleet, key, binding, targets)
        patch = patches.spec_patch(binding, targets, leave)
        if not patches.changes_anything(binding, patch):
            self.metrics.attempts.labels("scheduled", kind).inc()
            self._claiming.forget(key)
            self._settled[key] = binding.metadata.generation or 0
            if not patches.already_said(binding, verdict):
                self.reports.succeeded(key, binding, targets, now)
            return self._say(key, binding, verdict, now)
        self.keeping.assume(key, targets)
        self._work[key] = _Work(
            kind, verdict, targets, self._timer(), group_failover.companions(self.fleet, key)
        )
        return self._patch(key, patch)

    def _failed(
        self, key: Key, binding: Binding, decision: PlacementDecision, kind: str, now: float
    ) -> Action | None:
        error = decision.error
        if error is None:
            raise ValueError(decision)
        self.metrics.attempts.labels("error", kind).inc()
        self._claiming.forget(key)
        entry = self.fleet.index.get(key)
        if entry is not None:
            self.waiting.add(key, entry)
        self.reports.failed(key, binding, error.message, now)
        verdict = ScheduledCondition(error.reason, error.message)
        if error.reason == UNSCHEDULABLE:
            self._retry_at(key, now + NO_ROOM)
        elif error.reason == SCHEDULER_ERROR:
            self._retry_at(key, now + self.waiting.delay(key))
        elif not self.settings.options.keep_when_unfit and error.reason == NO_CLUSTER_FIT:
            patch = patches.spec_patch(binding, [])
            if patches.changes_anything(binding, patch):
                self.keeping.assume(key, [])
                self._work[key] = _Work(kind, verdict, [], self._timer())
                return self._patch(key, patch)
        self._settled[key] = binding.metadata.generation or 0
        return self._say(key, binding, verdict, now)

    # --- writing ------------------------------------------------------------------

    def _patch(self, key: Key, body: dict[str, object], subresource: str = "") -> Patch:
        resource = patches.resource_of(key)
        return Patch(
            resource=resource, key=key, namespace=key[0], name=key[1], body=body, subresource=subresource
        )

    def _say(self, key: Key, binding: Binding, verdict: ScheduledCondition, now: float) -> Action | None:
        if patches.already_said(binding, verdict):
            self._owed.pop(key, None)
            return None
        self._owed[key] = verdict
        return self._patch(key, patches.status_patch(binding, verdict, now), "status")

    def done(self, action: Action, outcome: Outcome) -> None:
        if action.purpose is EVENT:
            self.reports.recorder.done(action, outcome)
            return
        key: Key = action.key
        self._asked.discard(key)
        if key in self._unsure and isinstance(action, Get):
            self._looked_up(key, outcome)
            return
        if self._claiming.answered(key, action, outcome):
            self._queue.finished(key, ok=True, at=outcome.at)
            if key in self.keeping.bindings:
                self._complain(key, outcome.at)
                self._queue.add_at(key, self._claiming.again_at(key, outcome.at))
            return
        work = self._work.pop(key, None) if isinstance(action, Patch) and not action.subresource else None
        if work is not None:
            self._written(key, work, outcome)
        elif outcome.ok:
            self._owed.pop(key, None)
            self._absorb(key, outcome)
            # To say it took a turn in which something else may have been due.
            if key in self._forced or key in self._again or not self._is_settled(key):
                self._queue.add_at(key, self._again.get(key, outcome.at))
        busy = outcome.code in (0, 429) or outcome.code >= 500
        retry = not outcome.ok and not outcome.missing and key in self.keeping.bindings
        self._queue.finished(key, ok=not busy, at=outcome.at, wait=outcome.retry_after)
        if retry and not busy:
            wait = _SOON if outcome.conflict else self.waiting.delay(key)
            retry_at = self._queue.add_at if work is None else self._retry_at
            retry_at(key, outcome.at + wait)

    def _complain(self, key: Key, now: float) -> None:
        """Say what keeps a binding from claiming its group, if waiting alone will not help."""
        problem = self._claiming.problem(key)
        if not problem:
            return
        binding = self.keeping.bindings[key]
        verdict = ScheduledCondition(SCHEDULER_ERROR, f"cannot claim its affinity group: {problem}")
        if not patches.already_said(binding, verdict):
            self._owed[key] = verdict
            self.reports.failed(key, binding, verdict.message, now)

    def _written(self, key: Key, work: _Work, outcome: Outcome) -> None:
        result = "scheduled" if outcome.ok and work.verdict.ok else "error"
        if outcome.ok:
            self._absorb(key, outcome)
            binding = self.keeping.bindings.get(key)
            if binding is not None:
                self._settled[key] = binding.metadata.generation or 0
                self._owed[key] = work.verdict
                self._queue.add(key)
                if work.verdict.ok:
                    self.reports.succeeded(key, binding, work.targets, outcome.at)
            self._claiming.forget(key)
        elif outcome.code == 0 or outcome.code >= 500:
            self._unsure.add(key)  # it may have been done: until that is known, it counts as done
        else:
            self._refused(key, outcome)
        if key not in self._unsure:
            self._confirmed(key)
        for peer in work.follows if outcome.ok else ():
            self._force(peer, "its affinity group moves", "GroupFailover")
        self.metrics.attempts.labels(result, work.kind).inc()
        self.metrics.end_to_end.labels(result, work.kind).observe(self._timer() - work.since)

    def _looked_up(self, key: Key, outcome: Outcome) -> None:
        """What became of a write that nobody answered."""
        ok = outcome.ok or outcome.missing
        if ok:
            self._unsure.discard(key)
            self._absorb(key, outcome)
            self._confirmed(key)
            self._forced[key] = "the last decision may not have been written"
        self._queue.finished(key, ok=ok, at=outcome.at, wait=outcome.retry_after)
        if ok and key in self.keeping.bindings:
            self._queue.add(key)

    def _refused(self, key: Key, outcome: Outcome) -> None:
        """The server did not take a decision: it is made again, on what is known by then."""
        self._forced[key] = "the last decision could not be written"
        binding = self.keeping.bindings.get(key)
        if binding is None or outcome.missing or outcome.conflict or outcome.code == 429:
            return
        quota = outcome.code == 403 and "FederatedResourceQuota" in f"{outcome.reason} {outcome.message}"
        reason = patches.QUOTA_EXCEEDED if quota else SCHEDULER_ERROR
        self._claiming.forget(key)
        verdict = ScheduledCondition(reason, outcome.message)
        self.reports.failed(key, binding, outcome.message, outcome.at)
        if not patches.already_said(binding, verdict):
            self._owed[key] = verdict
            self._queue.add(key)

    def _absorb(self, key: Key, outcome: Outcome) -> None:
        known = self.keeping.bindings.get(key)
        if known is not None and outcome.body:
            answer = outcome.decode(Binding)
            if self.keeping.see(key, answer) and answer.metadata.generation != known.metadata.generation:
                self._queue.add(key)  # the watch will show nothing new


def _said(decision: PlacementDecision) -> str:
    return ", ".join(f"{target.name}:{target.replicas}" for target in decision.targets or ()) or "no clusters"
