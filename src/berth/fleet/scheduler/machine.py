"""Schedules bindings: a queue by priority, one decision at a time, one request at a time for each binding.

What is decided counts at once for the next decision, before the server has answered; if the write
fails it no longer does.  What fits nowhere waits for a change that may help.  `binding_state` says which
phases a binding goes through.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from berth.fleet.scheduler import claim_requests, group_failover, patches
from berth.fleet.scheduler.binding_events import BindingEvents
from berth.fleet.scheduler.binding_state import BindingPhase, BindingRecord, BindingRequest, PlacementWrite
from berth.fleet.scheduler.changed_clusters import ChangedClusters
from berth.fleet.scheduler.fleet_cache import BINDINGS, FleetCache
from berth.fleet.scheduler.group_claims import GroupClaims
from berth.fleet.scheduler.metrics import FleetMetrics
from berth.fleet.scheduler.patches import ScheduledCondition
from berth.fleet.scheduler.reasons import RECONCILE, is_ours, reason_to_schedule
from berth.fleet.scheduler.settings import FleetSettings
from berth.fleet.scheduler.unschedulable import UnschedulableBindings
from berth.fleet.state.errors import NO_CLUSTER_FIT, SCHEDULER_ERROR, UNSCHEDULABLE
from berth.kube.api_resources import CLUSTER_POLICIES, CLUSTERS, NAMESPACES, POLICIES, Resource
from berth.kube.karmada import Binding, Placement
from berth.machines.backoff import Backoff
from berth.machines.contract import DELETED, Action, Event, Get, Key, Outcome, Patch, RawObject
from berth.machines.queue import Queue
from berth.machines.recorder import EVENT
from berth.machines.story import Story

if TYPE_CHECKING:
    from berth.fleet.placement.decision import PlacementDecision
    from berth.fleet.state.errors import PlacementError
    from berth.fleet.state.index import IndexedWorkload

# Decisions between two looks at what happened.
_BATCH = 32
# How long a binding waits for the labels of its workload, which another watch brings.
PATIENCE = 2.0
# Seconds after which the watch should have shown who was faster.
_SOON = 0.05
# Karmada's: a failed attempt is repeated after 1 s, then 2 s, up to 10 s; want of room after 5 minutes.
_BACKOFF, _NO_ROOM = Backoff(first=1.0, longest=10.0), 300.0

Tell = Callable[[Key, str, "PlacementDecision"], None]  # a binding, why it was looked at, what was decided


class FleetScheduler:
    """A state machine that a runner feeds.

    Attributes:
        cache: What is known of the objects, and where each binding counts.
        unschedulable: What fits nowhere, from a failed decision until one succeeds.
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
        self.unschedulable = UnschedulableBindings()
        self.cache = FleetCache(self.settings.options, self._moved)
        self.fleet = self.cache.fleet
        self.events = BindingEvents(min(self.settings.scheduler_names, default=self.name), self.story)
        self._changed_clusters = ChangedClusters(self.fleet.clusters)
        self._claims = GroupClaims(self.cache, identity)
        self._records: dict[Key, BindingRecord] = {}
        self._queue: Queue[Key] = Queue()
        self._ready: list[tuple[int, int, Key]] = []
        self._count = 0  # of what was put into the line, and of requests
        self._timer = timer
        self._tell = tell
        self.metrics.blocked.set_function(lambda: len(self.unschedulable))
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
            for key in self.cache.handle(event):
                self._learned(key)
                if self._record(key).patience_until is not None:
                    self._queue.add(key)

    def _record(self, key: Key) -> BindingRecord:
        record = self._records.get(key)
        if record is None:
            record = self._records[key] = BindingRecord(key)
        return record

    def _binding_changed(self, event: Event) -> None:
        key, binding = event.key, event.object
        known, entry = self.cache.bindings.get(key), self.fleet.index.get(key)
        if event.change == DELETED or (known is not None and known.metadata.uid != binding.metadata.uid):
            self._forget(key)
            known = None
        if event.change == DELETED or not self.cache.see(key, binding):
            return
        record = self._record(key)
        ours = is_ours(binding, self.settings)
        if not ours or binding.metadata.deletion_timestamp is not None:
            self._claims.forget(record)  # it will not found its group: others may
        if known is not None and known.metadata.generation != binding.metadata.generation:
            record.reconsider()
        if not ours:
            return
        if known is None:
            self._enqueue(key, "BindingAdd")
        elif known.metadata.generation != binding.metadata.generation:
            self._enqueue(key, "BindingUpdate")
        elif record.condition is not None:
            self._queue.add(key)
        elif entry is not self.fleet.index.get(key) and self.settings.retry_blocked:
            self._learned(key)

    def _forget(self, key: Key) -> None:
        """A binding is gone. A request for it may still be under way: its answer comes too late."""
        record = self._records.pop(key, None)
        self.cache.forget(key)
        self.unschedulable.remove(key)
        self._queue.forget(key)
        if record is not None:
            self._claims.forget(record)
            self._release_followers(record)

    def _learned(self, key: Key) -> None:
        """Other rules or labels: they matter to who is not placed, and to whoever waits for a peer."""
        binding = self.cache.bindings.get(key)
        if binding is None or not is_ours(binding, self.settings):
            return
        if key in self.unschedulable or not binding.spec.clusters:
            self._force(key, "its workload or policy changed", "PolicyChanged")

    def _cluster_changed(self, event: Event) -> None:
        clusters = self.fleet.clusters
        shape, version = clusters.shape, clusters.version
        self.cache.handle(event)
        if clusters.shape != shape:
            self._changed_clusters.changed(event.key[1])
        elif clusters.version != version and self.settings.retry_blocked:
            self._changed_clusters.reported()

    def _namespace_changed(self, event: Event) -> None:
        version = self.fleet.index.version
        self.cache.handle(event)
        if self.fleet.index.version != version and self.settings.retry_blocked:
            for key in self.unschedulable:
                self._reconsider(key)

    def _moved(self, entry: IndexedWorkload) -> None:
        if self.settings.retry_blocked:
            for key in list(self.unschedulable.concerned(entry)):
                if key != entry.key:
                    self._reconsider(key)

    def _reconsider(self, key: Key) -> None:
        self._record(key).reconsider()
        self._queue.add(key)

    def _enqueue(self, key: Key, why: str) -> None:
        self.metrics.incoming.labels(why).inc()
        self._queue.add(key)

    def _force(self, key: Key, reason: str, why: str) -> None:
        if key in self.cache.bindings:
            self._record(key).reconsider(reason)
            self._enqueue(key, why)

    def _retry_at(self, record: BindingRecord, when: float) -> None:
        record.retry_at = when
        self._queue.add_at(record.key, when)

    def due(self) -> float | None:
        if self._ready or self._claims.released:
            return 0.0
        times = (self._queue.due(), self.events.recorder.due(), self._changed_clusters.due())
        return min((when for when in times if when is not None), default=None)

    # --- deciding -----------------------------------------------------------------

    def reconcile(self, now: float) -> list[Action]:
        self._line_up(now)
        actions: list[Action] = []
        for _ in range(min(_BATCH, len(self._ready))):
            key = heapq.heappop(self._ready)[2]
            if self._queue.is_busy(key):
                self._queue.add(key)
                continue
            action = self._step(key, now)
            if action is not None:
                actions.append(action)
        return actions + self.events.recorder.take(now)

    def _line_up(self, now: float) -> None:
        """Put what is due into the line, by priority."""
        while self._claims.released:
            key = self._claims.released.pop()
            if key in self.cache.bindings:
                self._reconsider(key)
        for key in self._changed_clusters.take(now, self.cache.bindings, self.unschedulable, self.settings):
            self._record(key).reconsider()
            self._enqueue(key, "ClusterChanged")
        for key in self._queue.take(now):
            binding = self.cache.bindings.get(key)
            if binding is not None:
                priority = binding.spec.schedule_priority
                rank = -((priority.priority if priority is not None else None) or 0)
                self._count += 1
                heapq.heappush(self._ready, (rank, self._count, key))

    def _step(self, key: Key, now: float) -> Action | None:
        """The next request for a binding, if it needs one."""
        binding = self.cache.bindings.get(key)
        if binding is None:
            return None
        record = self._record(key)
        if record.phase is BindingPhase.CONFIRMING:  # others may be waiting to know where it is
            lookup = Get(resource=patches.resource_of(key), key=key, namespace=key[0], name=key[1])
            return self._request(record, BindingRequest.LOOKUP, lookup)
        if not is_ours(binding, self.settings):
            return None
        told = self._report(record, binding, record.condition, now)
        if told is not None:
            return told
        if record.claim is not None:
            claim = self._claims.next(key, record.claim, binding, now)
            return self._request(record, BindingRequest.CLAIM, claim)
        return self._consider(record, binding, now)

    def _consider(self, record: BindingRecord, binding: Binding, now: float) -> Action | None:
        stays = binding.metadata.deletion_timestamp is None and binding.spec.placement is not None
        if not stays or self._is_early(record, now):
            return None
        wanted = self._reason(record, binding)
        if wanted is not None:
            return self._schedule(record, binding, wanted, now)
        if (binding.status.scheduler_observed_generation or 0) != (binding.metadata.generation or 0):
            return self._patch(record, BindingRequest.STATUS, patches.observed_patch(binding))
        return None

    def _is_early(self, record: BindingRecord, now: float) -> bool:
        """Whether to wait for the workload of a binding: its labels may decide."""
        if not self.cache.unseen(record.key):
            record.patience_until = None
            return False
        if record.patience_until is None:
            record.patience_until = now + PATIENCE
        if now < record.patience_until:
            self._queue.add_at(record.key, record.patience_until)
        return now < record.patience_until

    def _reason(self, record: BindingRecord, binding: Binding) -> tuple[str, str] | None:
        if record.forced:
            return RECONCILE, record.forced
        if record.key in self.unschedulable:
            return RECONCILE, "it may fit now"
        if record.phase is BindingPhase.SETTLED:
            return None
        return reason_to_schedule(binding, self.fleet.clusters, compat=self.settings.options.compat)

    def _schedule(
        self, record: BindingRecord, binding: Binding, wanted: tuple[str, str], now: float
    ) -> Action | None:
        key, (kind, reason) = record.key, wanted
        record.begin_decision()
        if self._must_follow(key):
            record.follow(reason)
            return None
        started = self._timer()
        decision = self.fleet.decide(key)
        self.metrics.seconds.observe(self._timer() - started)
        founding = decision.decisive.founding if self.settings.claim_groups else []
        claim = self._claims.needed(record, binding, founding)
        if claim is not None:
            record.begin_claim(claim, reason)
            return self._request(record, BindingRequest.CLAIM, self._claims.next(key, claim, binding, now))
        self.story.tell(now, key, "decided", f"{reason}: {decision.error or _spelled(decision)}")
        if self._tell is not None and not patches.stays(binding, decision.targets):
            self._tell(key, reason, decision)
        if decision.error is not None:
            return self._failed(record, binding, decision.error, kind, now)
        return self._succeeded(record, binding, decision, kind, now)

    def _must_follow(self, key: Key) -> bool:
        """Whether a peer is on its way to a place that this binding would follow it to."""
        if self._claims.is_founded_by_another(key):
            return True
        peer = self.cache.unconfirmed(key)
        if peer is None:
            return False
        self._record(peer).followers[key] = None
        return True

    def _succeeded(
        self, record: BindingRecord, binding: Binding, decision: PlacementDecision, kind: str, now: float
    ) -> Action | None:
        key, targets = record.key, decision.targets or []
        several = (binding.spec.placement or Placement()).cluster_affinities
        name = decision.decisive.affinity_name if several else None
        condition = ScheduledCondition(patches.SUCCESS, patches.SUCCESS_MESSAGE, name)
        self.unschedulable.remove(key)
        record.failures = 0
        self.events.attempts_failed(key, binding, decision, now)
        leave = group_failover.left_behind(self.fleet, key, binding, targets)
        patch = patches.spec_patch(binding, targets, leave)
        if patches.changes_anything(binding, patch):
            follows = group_failover.companions(self.fleet, key)
            return self._write(
                record, patch, PlacementWrite(kind, condition, targets, self._timer(), follows)
            )
        self.metrics.attempts.labels("scheduled", kind).inc()
        self._claims.forget(record)
        record.settle()
        if not patches.already_said(binding, condition):
            self.events.succeeded(key, binding, targets, now)
        return self._report(record, binding, condition, now)

    def _failed(
        self, record: BindingRecord, binding: Binding, error: PlacementError, kind: str, now: float
    ) -> Action | None:
        key = record.key
        self.metrics.attempts.labels("error", kind).inc()
        self._claims.forget(record)
        self.unschedulable.add(key, self.fleet.known(key).entry)
        self.events.failed(key, binding, error.message, now)
        condition = ScheduledCondition(error.reason, error.message)
        if error.reason == UNSCHEDULABLE:
            self._retry_at(record, now + _NO_ROOM)
        elif error.reason == SCHEDULER_ERROR:
            self._retry_at(record, now + _next_delay(record))
        elif not self.settings.options.keep_when_unfit and error.reason == NO_CLUSTER_FIT:
            patch = patches.spec_patch(binding, [])
            if patches.changes_anything(binding, patch):
                return self._write(record, patch, PlacementWrite(kind, condition, [], self._timer()))
        record.fit_nowhere()
        return self._report(record, binding, condition, now)

    # --- requests -----------------------------------------------------------------

    def _request(self, record: BindingRecord, purpose: BindingRequest, action: Action) -> Action:
        self._count += 1
        record.request = self._count
        self._queue.started(record.key, 1)
        return replace(action, purpose=purpose, attempt=record.request)

    def _patch(self, record: BindingRecord, purpose: BindingRequest, body: RawObject) -> Action:
        key = record.key
        patch = Patch(
            resource=patches.resource_of(key),
            key=key,
            namespace=key[0],
            name=key[1],
            body=body,
            subresource="status" if purpose is BindingRequest.STATUS else "",
        )
        return self._request(record, purpose, patch)

    def _write(self, record: BindingRecord, patch: RawObject, write: PlacementWrite) -> Action:
        self.cache.assume(record.key, write.targets)
        record.begin_write(write)
        return self._patch(record, BindingRequest.WRITE, patch)

    def _report(
        self, record: BindingRecord, binding: Binding, condition: ScheduledCondition | None, now: float
    ) -> Action | None:
        """Write the condition, unless the status says all that already."""
        said = condition is None or patches.already_said(binding, condition)
        record.condition = None if said else condition
        if condition is None or said:
            return None
        return self._patch(record, BindingRequest.STATUS, patches.status_patch(binding, condition, now))

    def done(self, action: Action, outcome: Outcome) -> None:
        if action.purpose is EVENT:
            self.events.recorder.done(action, outcome)
            return
        record = self._records.get(action.key)
        if record is None or record.request != action.attempt:
            self._queue.finished(action.key, ok=True, at=outcome.at)  # the binding it was for is gone
            return
        record.request = 0
        match action.purpose:
            case BindingRequest.LOOKUP:
                self._looked_up(record, outcome)
            case BindingRequest.CLAIM:
                self._claim_answered(record, outcome)
            case BindingRequest.WRITE:
                self._written(record, outcome)
                self._retry(record, outcome, force=True)
            case _:
                self._reported(record, outcome)
                self._retry(record, outcome, force=False)

    def _retry(self, record: BindingRecord, outcome: Outcome, *, force: bool) -> None:
        """Let the queue know, and come back for what failed; with `force` for a new decision."""
        busy = outcome.code in (0, 429) or outcome.code >= 500
        self._queue.finished(record.key, ok=not busy, at=outcome.at, wait=outcome.retry_after)
        if not outcome.ok and not outcome.missing and not busy:
            when = outcome.at + (_SOON if outcome.conflict else _next_delay(record))
            if force:
                self._retry_at(record, when)
            else:
                self._queue.add_at(record.key, when)

    def _claim_answered(self, record: BindingRecord, outcome: Outcome) -> None:
        self._claims.answered(record, outcome)
        self._queue.finished(record.key, ok=True, at=outcome.at)
        claim, pause = record.claim, 0.0
        if claim is not None:
            self._complain(record, claim.problem, outcome.at)
            pause = claim_requests.RETRY if claim.step is claim_requests.ClaimStep.WAIT else 0.0
        self._queue.add_at(record.key, outcome.at + pause)

    def _complain(self, record: BindingRecord, problem: str, now: float) -> None:
        """Say what keeps a binding from claiming its group, if waiting alone will not help."""
        binding = self.cache.bindings[record.key]
        condition = ScheduledCondition(SCHEDULER_ERROR, f"cannot claim its affinity group: {problem}")
        if problem and not patches.already_said(binding, condition):
            record.condition = condition
            self.events.failed(record.key, binding, condition.message, now)

    def _reported(self, record: BindingRecord, outcome: Outcome) -> None:
        if outcome.ok:
            record.condition = None
            self._absorb(record, outcome)
            # To say it took a turn in which something else may have been due.
            if not record.is_at_rest:
                self._queue.add_at(record.key, outcome.at if record.retry_at is None else record.retry_at)

    def _written(self, record: BindingRecord, outcome: Outcome) -> None:
        key, write = record.key, record.write
        if write is None:
            raise AssertionError(record)
        if outcome.ok:
            answer = self._absorb(record, outcome)
            binding = self.cache.bindings[key]
            record.end_write(
                current=answer is None or answer.metadata.generation == binding.metadata.generation
            )
            self._queue.add(key)
            if write.condition.ok:
                self.events.succeeded(key, binding, write.targets, outcome.at)
            self._claims.forget(record)
        elif outcome.code == 0 or outcome.code >= 500:
            record.lose_write()
        else:
            record.refuse_write()
            self._refused(record, outcome)
        if not record.is_assumed:
            self._release_followers(record)
        for peer in write.follows if outcome.ok else ():
            self._force(peer, "its affinity group moves", "GroupFailover")
        result = "scheduled" if outcome.ok and write.condition.ok else "error"
        self.metrics.attempts.labels(result, write.kind).inc()
        self.metrics.end_to_end.labels(result, write.kind).observe(self._timer() - write.since)

    def _looked_up(self, record: BindingRecord, outcome: Outcome) -> None:
        """What became of a write that nobody answered."""
        ok = outcome.ok or outcome.missing
        if ok:
            record.confirm()
            self._absorb(record, outcome)
            self._release_followers(record)
            self._queue.add(record.key)
        self._queue.finished(record.key, ok=ok, at=outcome.at, wait=outcome.retry_after)

    def _refused(self, record: BindingRecord, outcome: Outcome) -> None:
        """Say why the server did not take a decision, unless it will by itself."""
        if outcome.missing or outcome.conflict or outcome.code == 429:
            return
        key, binding = record.key, self.cache.bindings[record.key]
        quota = outcome.code == 403 and "FederatedResourceQuota" in f"{outcome.reason} {outcome.message}"
        condition = ScheduledCondition(patches.QUOTA_EXCEEDED if quota else SCHEDULER_ERROR, outcome.message)
        self._claims.forget(record)
        self.events.failed(key, binding, outcome.message, outcome.at)
        if not patches.already_said(binding, condition):
            record.condition = condition
            self._queue.add(key)

    def _release_followers(self, record: BindingRecord) -> None:
        """It is known now where a binding is: who waited to follow it may."""
        self.cache.settle(record.key)
        for follower in record.followers:
            self._queue.add(follower)
        record.followers.clear()

    def _absorb(self, record: BindingRecord, outcome: Outcome) -> Binding | None:
        """Take over the binding in an answer, which the watch may show later."""
        if not outcome.body or not outcome.ok:
            return None
        known, answer = self.cache.bindings[record.key], outcome.decode(Binding)
        if self.cache.see(record.key, answer) and answer.metadata.generation != known.metadata.generation:
            self._reconsider(record.key)  # the watch will show nothing new
        return answer

    def validate(self) -> None:
        """Check that records, cache and indexes agree."""
        if not self._records.keys() <= self.cache.bindings.keys():
            raise AssertionError("a binding that is gone was not forgotten")
        for key, record in self._records.items():
            record.validate()
            if record.request and not self._queue.is_busy(key):
                raise AssertionError(f"a request is under way, but may be repeated: {record}")
            if record.is_assumed != (key in self.cache.assumed):
                raise AssertionError(f"it counts in a wrong place: {record}")
            settled, blocked = record.phase is BindingPhase.SETTLED, key in self.unschedulable
            if (settled and blocked) or (record.phase is BindingPhase.UNSCHEDULABLE and not blocked):
                raise AssertionError(f"whether it fits is told differently: {record}")
        if not self._records.keys() >= {*self.unschedulable, *self.cache.assumed}:
            raise AssertionError("an index knows a binding that is gone")
        self._claims.validate(self._records)
        self.fleet.index.validate()


def _next_delay(record: BindingRecord) -> float:
    record.failures += 1
    return _BACKOFF.after(record.failures)


def _spelled(decision: PlacementDecision) -> str:
    return ", ".join(f"{target.name}:{target.replicas}" for target in decision.targets or ()) or "no clusters"
