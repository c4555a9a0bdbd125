"""Schedules bindings: a queue by priority, one decision at a time, one request at a time for each binding.

What is decided counts at once for the next decision, before the server has answered; if the write
fails it no longer does.  What fits nowhere waits for a change that may help.  `binding_state` says which
phases a binding goes through.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from berth.engine.state.pod_class import Term
from berth.fleet.placement.fleet import Fleet, PlacementDecision
from berth.fleet.scheduler import patches
from berth.fleet.scheduler.answers import BindingAnswers
from berth.fleet.scheduler.binding_state import BindingPhase, BindingPurpose, BindingRecord, PlacementWrite
from berth.fleet.scheduler.fleet_cache import UNLISTED_KINDS, VIEWS
from berth.fleet.scheduler.patches import ScheduledCondition
from berth.fleet.scheduler.reasons import RECONCILE, ChangedClusters, is_ours, reason_to_schedule
from berth.fleet.scheduler.settings import FleetMetrics, FleetSettings
from berth.fleet.scheduler.state import FleetSchedulerState
from berth.fleet.state.errors import NO_CLUSTER_FIT
from berth.fleet.state.index import HOME, LEAVING, IndexedWorkload
from berth.fleet.state.strategy import priority_of
from berth.kube.api_resources import BINDINGS, CLUSTERS, NAMESPACES, Resource
from berth.kube.karmada import Binding, Placement, TargetCluster
from berth.kube.objects import Key, RawObject
from berth.kube.propagation.bindings import binding_resource
from berth.kube.well_known import DELETED, SCHEDULER_ERROR, UNSCHEDULABLE
from berth.machines.contract import Action, Event, Get, Outcome
from berth.machines.rates import earliest
from berth.machines.recorder import EVENT

# Decisions in a row before events are read again.
_BATCH = 32
# Seconds that a binding waits for its workload, its policy, or a kind whose watch has failed.
PATIENCE = 2.0
# Seconds until a binding that found no room is tried again, as in Karmada.
_NO_ROOM = 300.0

# Told of a binding, why it was looked at and what was decided.
TellDecision = Callable[[Key, str, "PlacementDecision"], None]


class FleetScheduler:
    """A state machine that a runner feeds."""

    name = "berth-fleet"
    watches: tuple[Resource, ...] = tuple(VIEWS)

    def __init__(
        self,
        settings: FleetSettings | None = None,
        *,
        identity: str = "berth-fleet",
        metrics: FleetMetrics | None = None,
        timer: Callable[[], float] = time.perf_counter,
        tell: TellDecision | None = None,
    ) -> None:
        self.settings = settings or FleetSettings()
        self._state = FleetSchedulerState(self.settings, metrics or FleetMetrics(), identity, timer)
        self.cache, self.fleet = self._state.cache, self._state.fleet
        self._answers = BindingAnswers(self._state)
        self._changed_clusters = ChangedClusters(self.fleet.clusters)
        self._ready: list[tuple[int, int, Key]] = []
        self._turns = itertools.count()
        self._tell = tell

    # --- keeping up ---------------------------------------------------------------

    def handle(self, event: Event) -> None:
        if event.resource in BINDINGS:
            self._binding_changed(event)
        elif event.resource == CLUSTERS:
            self._cluster_changed(event)
        elif event.resource == NAMESPACES:
            self._namespace_changed(event)
        elif event.resource == UNLISTED_KINDS:
            self.cache.handle(event)
            for key in self._state.unschedulable:
                self._state.reconsider(key)
            for record in self._state.records.values():
                if record.patience_until is not None:
                    self._state.queue.add(record.key)
        else:
            for key in self.cache.handle(event):
                self._learned(key)
                if self._state.record(key).patience_until is not None:
                    self._state.queue.add(key)

    def _binding_changed(self, event: Event) -> None:
        key, binding = event.key, event.object
        known, entry = self.cache.bindings.get(key), self.fleet.index.get(key)
        if event.change == DELETED or (known is not None and known.metadata.uid != binding.metadata.uid):
            self._state.forget(key)
            known = None
        if event.change == DELETED or not self.cache.see(key, binding):
            return
        record = self._state.record(key)
        ours = is_ours(binding, self.settings)
        if not ours or binding.metadata.deletion_timestamp is not None:
            self._state.claims.forget(record)  # others may found its group now
        if known is not None and known.metadata.generation != binding.metadata.generation:
            record.reconsider()
        if not ours:
            return
        if known is None:
            self._state.enqueue(key, "BindingAdd")
        elif known.metadata.generation != binding.metadata.generation:
            self._state.enqueue(key, "BindingUpdate")
        elif record.condition is not None:
            self._state.queue.add(key)
        elif entry is not self.fleet.index.get(key) and self.settings.retry_blocked:
            self._learned(key)

    def _learned(self, key: Key) -> None:
        """Rules or labels have changed: wake unplaced bindings and those that wait for a peer."""
        binding = self.cache.bindings.get(key)
        if binding is None or not is_ours(binding, self.settings):
            return
        if key in self._state.unschedulable or not binding.spec.clusters:
            self._state.force(key, "its workload or policy changed", "PolicyChanged")

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
            for key in self._state.unschedulable:
                self._state.reconsider(key)

    def due(self) -> float | None:
        if self._ready or self._state.claims.released:
            return 0.0
        return earliest(self._state.queue.due(), self._state.recorder.due(), self._changed_clusters.due())

    # --- deciding -----------------------------------------------------------------

    def reconcile(self, now: float) -> list[Action]:
        self._line_up(now)
        actions: list[Action] = []
        for _ in range(min(_BATCH, len(self._ready))):
            key = heapq.heappop(self._ready)[2]
            if self._state.queue.is_busy(key):
                self._state.queue.add(key)
                continue
            action = self._step(key, now)
            if action is not None:
                actions.append(action)
        return actions + self._state.recorder.take(now)

    def _line_up(self, now: float) -> None:
        """Put the bindings that are due into the queue by priority."""
        while self._state.claims.released:
            key = self._state.claims.released.pop()
            if key in self.cache.bindings:
                self._state.reconsider(key)
        for key in self._changed_clusters.take(
            now, self.cache.bindings, self._state.unschedulable, self.settings
        ):
            self._state.record(key).reconsider()
            self._state.enqueue(key, "ClusterChanged")
        for key in self._state.queue.take(now):
            binding = self.cache.bindings.get(key)
            if binding is not None:
                heapq.heappush(self._ready, (-priority_of(binding), next(self._turns), key))

    def _step(self, key: Key, now: float) -> Action | None:
        """The next request for a binding, if it needs one."""
        binding = self.cache.bindings.get(key)
        if binding is None:
            return None
        record = self._state.record(key)
        if record.phase is BindingPhase.CONFIRMING:  # first: peers may wait to know where it is
            lookup = Get(resource=binding_resource(key), key=key)
            return self._state.request(record, BindingPurpose.LOOKUP, lookup)
        if not is_ours(binding, self.settings):
            return None
        if (told := self._state.report(record, record.condition, now)) is not None:
            return told
        if record.claim is not None:
            claim = self._state.claims.next(key, record.claim, binding, now)
            return self._state.request(record, BindingPurpose.CLAIM, claim)
        return self._consider(record, binding, now)

    def _consider(self, record: BindingRecord, binding: Binding, now: float) -> Action | None:
        stays = binding.metadata.deletion_timestamp is None and binding.spec.placement is not None
        if not stays or self._is_early(record, now):
            return None
        wanted = self._reason(record, binding)
        if wanted is not None:
            return self._schedule(record, binding, wanted, now)
        if (binding.status.scheduler_observed_generation or 0) != (binding.metadata.generation or 0):
            return self._state.patch(record, BindingPurpose.STATUS, patches.observed_patch(binding))
        return None

    def _is_early(self, record: BindingRecord, now: float) -> bool:
        """Whether to wait because labels of its workload or its policy are not known yet."""
        if not self.cache.unseen(record.key) and self.cache.unseen_labels(record.key) is None:
            record.patience_until = None
            return False
        if record.patience_until is None:
            record.patience_until = now + PATIENCE
        if now < record.patience_until:
            self._state.queue.add_at(record.key, record.patience_until)
        return now < record.patience_until

    def _reason(self, record: BindingRecord, binding: Binding) -> tuple[str, str] | None:
        if record.forced:
            return RECONCILE, record.forced
        if record.key in self._state.unschedulable:
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
            return self._state.report(record, patches.waiting(binding), now)
        started = self._state.timer()
        decision = self.fleet.decide(key, unknown=self.cache.unseen_labels(key))
        self._state.metrics.seconds.observe(self._state.timer() - started)
        # A binding that stays where it is founds no group, and must not hold up those that have to leave.
        founds = self.settings.claim_groups and not patches.stays(binding, decision.targets)
        founding = decision.decisive.founding if founds else []
        claim = self._state.claims.needed(record, binding, founding)
        if claim is not None:
            record.begin_claim(claim, reason)
            return self._state.request(
                record, BindingPurpose.CLAIM, self._state.claims.next(key, claim, binding, now)
            )
        if self._tell is not None and not patches.stays(binding, decision.targets):
            self._tell(key, reason, decision)
        act = self._succeeded if decision.error is None else self._failed
        return act(record, decision, kind, now)

    def _must_follow(self, key: Key) -> bool:
        """Whether a peer is on its way to a place that this binding would follow it to."""
        if self._state.claims.is_founded_by_another(key):
            return True
        peer = self.cache.unconfirmed(key)
        if peer is None:
            return False
        self._state.record(peer).followers[key] = None
        return True

    def _succeeded(
        self, record: BindingRecord, decision: PlacementDecision, kind: str, now: float
    ) -> Action | None:
        key, binding, targets = record.key, self.cache.bindings[record.key], decision.targets or []
        several = (binding.spec.placement or Placement()).cluster_affinities
        name = decision.decisive.affinity_name if several else None
        condition = ScheduledCondition(patches.SUCCESS, patches.SUCCESS_MESSAGE, name)
        self._state.unschedulable.remove(key)
        record.failures = 0
        self._state.tell_failed_attempts(key, decision, now)
        leave = _left_behind(self.fleet, key, binding, targets)
        patch = patches.spec_patch(binding, targets, leave)
        if patches.changes_anything(binding, patch):
            follows = _companions(self.fleet, key)
            said = replace(condition, changed=not patches.stays(binding, targets))
            write = PlacementWrite(kind, said, targets, self._state.timer(), follows)
            return self._write(record, patch, write)
        self._state.metrics.attempts.labels("scheduled", kind).inc()
        self._state.claims.forget(record)
        record.settle()
        if not patches.already_said(binding, condition):
            self._state.tell_success(key, targets, now)
        return self._state.report(record, condition, now)

    def _failed(
        self, record: BindingRecord, decision: PlacementDecision, kind: str, now: float
    ) -> Action | None:
        key, binding, error = record.key, self.cache.bindings[record.key], decision.error
        if error is None:
            raise AssertionError(record)
        self._state.metrics.attempts.labels("error", kind).inc()
        self._state.claims.forget(record)
        self._state.unschedulable.add(key, self.fleet.known(key).entry)
        self._state.tell_failure(key, error.message, now)
        condition = ScheduledCondition(error.reason, error.message)
        if error.reason == UNSCHEDULABLE:
            self._state.retry_at(record, now + _NO_ROOM)
        elif error.reason == SCHEDULER_ERROR:
            self._state.retry_at(record, now + record.next_delay())
        elif error.reason == NO_CLUSTER_FIT:
            options = self.settings.options
            kept = decision.kept(binding, self.fleet.clusters, options)
            patch = patches.spec_patch(binding, kept)
            all_kept = options.keep_when_unfit and patches.stays(binding, kept)
            if not all_kept and patches.changes_anything(binding, patch):
                return self._write(record, patch, PlacementWrite(kind, condition, kept, self._state.timer()))
        record.fit_nowhere()
        return self._state.report(record, condition, now)

    def _write(self, record: BindingRecord, patch: RawObject, write: PlacementWrite) -> Action:
        self.cache.assume(record.key, write.targets)
        record.begin_write(write)
        return self._state.patch(record, BindingPurpose.WRITE, patch)

    def done(self, action: Action, outcome: Outcome) -> None:
        if action.purpose is EVENT:
            self._state.recorder.done(action, outcome)
        else:
            self._answers.take(action, outcome)

    def validate(self) -> None:
        """Check that the records of bindings are consistent."""
        self._state.validate()


# --- groups that move together: who follows whom, and what is left gracefully for it ---------------


def _left_behind(fleet: Fleet, key: Key, binding: Binding, targets: Iterable[TargetCluster]) -> list[str]:
    """Clusters a binding leaves only because others of its group had to."""
    entry = fleet.known(key).entry
    if not fleet.options.group_failover:
        return []
    fled = {slot for term in _groups(fleet, entry) for slot in fleet.index.counts(term, LEAVING).by_slot}
    kept = {target.name for target in targets}
    lost = [target.name for target in binding.spec.clusters or () if target.name not in kept]
    slot_of = fleet.clusters.slot_of
    return [name for name in lost if slot_of[name] in fled and slot_of[name] not in entry.leaving]


def _companions(fleet: Fleet, key: Key) -> tuple[Key, ...]:
    """The peers that have to follow this binding, which had to leave a cluster and has found another."""
    entry = fleet.known(key).entry
    if not entry.leaving or not fleet.options.group_failover:
        return ()
    left = set(entry.leaving)
    return tuple(
        peer.key
        for term in _groups(fleet, entry)
        for peer in fleet.index.selected(term)
        if peer is not entry and left.intersection(peer.places[HOME])
    )


def _groups(fleet: Fleet, entry: IndexedWorkload) -> Iterator[Term]:
    return (fleet.index.term(rule) for rule in entry.rules.affinity if rule.everyone)
