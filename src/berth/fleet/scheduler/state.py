"""The state of the fleet's scheduler, and the changes to it that several parts make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from berth.engine.state.pod_class import LabelSet, Term
from berth.fleet.placement.fleet import PlacementDecision
from berth.fleet.scheduler import patches
from berth.fleet.scheduler.binding_state import BindingPhase, BindingPurpose, BindingRecord
from berth.fleet.scheduler.fleet_cache import FleetCache
from berth.fleet.scheduler.group_claims import GroupClaims
from berth.fleet.scheduler.patches import ScheduledCondition
from berth.fleet.scheduler.settings import FleetMetrics, FleetSettings
from berth.fleet.state.index import BindingIndex, IndexedWorkload, spelled
from berth.kube.api_resources import Resource
from berth.kube.karmada import TargetCluster
from berth.kube.objects import Key, ObjectMeta, PartialObjectMetadata, RawObject
from berth.kube.propagation.bindings import binding_resource
from berth.machines.cache import take
from berth.machines.contract import Action, Patch, expect
from berth.machines.controller import Queue
from berth.machines.recorder import NORMAL, WARNING, Recorder

# --- bindings that fit nowhere --------------------------------------------------------------------


class UnschedulableBindings:
    """Who waits, by the terms that may stand in the way and by the label set others' terms may select."""

    def __init__(self, index: BindingIndex) -> None:
        self._index, self._relabelled = index, index.relabelled
        self._entries: dict[Key, IndexedWorkload] = {}
        self._by_term: dict[Term, dict[Key, None]] = {}
        self._by_labels: dict[LabelSet, dict[Key, None]] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[Key]:
        return iter(list(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, key: Key, entry: IndexedWorkload) -> None:
        self.remove(key)
        self._entries[key] = entry
        for term in entry.used:
            self._by_term.setdefault(term, {})[key] = None
        self._by_labels.setdefault(entry.label_set, {})[key] = None

    def remove(self, key: Key) -> None:
        """It was placed, or is gone."""
        self._keep_up()
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        for term in entry.used:
            take(self._by_term, term, key)
        take(self._by_labels, entry.label_set, key)

    def concerned(self, entry: IndexedWorkload) -> Iterator[Key]:
        """Bindings that may fit when a workload comes, moves or goes: one of the two selects the other."""
        if not self._entries:
            return
        self._keep_up()
        for term in entry.label_set.terms:
            yield from self._by_term.get(term, ())
        for term, _ in entry.owned:
            for label_set in term.selected:
                yield from self._by_labels.get(label_set, ())

    def _keep_up(self) -> None:
        """Renew the label sets of waiting bindings after more labels were indexed."""
        if self._relabelled != self._index.relabelled:
            self._relabelled = self._index.relabelled
            self._by_labels.clear()
            for key, entry in self._entries.items():
                self._by_labels.setdefault(entry.label_set, {})[key] = None


# --- the state ------------------------------------------------------------------------------------


class FleetSchedulerState:
    """Records of bindings, and the indexes beside them.

    Attributes:
        cache: What is known of the objects, and where each binding counts.
        records: What is known of each binding; made when it is first looked at.
        unschedulable: What fits nowhere, from a failed decision until one succeeds.
    """

    def __init__(
        self, settings: FleetSettings, metrics: FleetMetrics, identity: str, timer: Callable[[], float]
    ) -> None:
        self.settings = settings
        self.metrics = metrics
        self.timer = timer
        self.cache = FleetCache(settings.options, self._moved)
        self.fleet = self.cache.fleet
        self.unschedulable = UnschedulableBindings(self.fleet.index)
        # Events carry the scheduler's name, by which users look for them.
        self.recorder = Recorder(min(settings.scheduler_names, default="berth-fleet"))
        self.claims = GroupClaims(self.cache, identity)
        self.records: dict[Key, BindingRecord] = {}
        self.queue: Queue[Key] = Queue()
        self._requests = 0
        metrics.blocked.set_function(lambda: len(self.unschedulable))
        metrics.index.set_function(lambda: len(self.fleet.index))

    def record(self, key: Key) -> BindingRecord:
        record = self.records.get(key)
        if record is None:
            record = self.records[key] = BindingRecord(key)
        return record

    def forget(self, key: Key) -> None:
        """A binding is gone. A request for it may still be under way: its answer comes too late."""
        record = self.records.pop(key, None)
        self.cache.forget(key)
        self.unschedulable.remove(key)
        self.queue.forget(key)
        if record is not None:
            self.claims.forget(record)
            self.release_followers(record)

    def reconsider(self, key: Key) -> None:
        """Something changed that may matter to a binding."""
        self.record(key).reconsider()
        self.queue.add(key)

    def _moved(self, entry: IndexedWorkload) -> None:
        """A workload came, moved or went: what fits nowhere because of it may fit now."""
        if self.settings.retry_blocked:
            for key in list(self.unschedulable.concerned(entry)):
                if key != entry.key:
                    self.reconsider(key)

    def enqueue(self, key: Key, why: str) -> None:
        self.metrics.incoming.labels(why).inc()
        self.queue.add(key)

    def force(self, key: Key, reason: str, why: str) -> None:
        """Decide anew about a binding even if it has not changed; `why` is for metrics."""
        if key in self.cache.bindings:
            self.record(key).reconsider(reason)
            self.enqueue(key, why)

    def retry_at(self, record: BindingRecord, when: float) -> None:
        """Decide again at that time, even if nothing changes until then."""
        record.retry_at = when
        self.queue.add_at(record.key, when)

    def request(self, record: BindingRecord, purpose: BindingPurpose, action: Action) -> Action:
        """Number a request, so that its answer is known again, and hold the binding back until then."""
        self._requests += 1
        record.request = self._requests
        self.queue.started(record.key, 1)
        return msgspec.structs.replace(action, purpose=purpose, attempt=record.request)

    def patch(self, record: BindingRecord, purpose: BindingPurpose, body: RawObject) -> Action:
        key = record.key
        patch = Patch(
            resource=binding_resource(key),
            key=key,
            body=body,
            subresource="status" if purpose is BindingPurpose.STATUS else "",
        )
        return self.request(record, purpose, patch)

    def report(
        self, record: BindingRecord, condition: ScheduledCondition | None, now: float
    ) -> Action | None:
        """Write the condition, unless the status has it already."""
        binding = self.cache.bindings[record.key]
        record.condition = condition = None if patches.already_said(binding, condition) else condition
        if condition is None:
            return None
        return self.patch(record, BindingPurpose.STATUS, patches.status_patch(binding, condition, now))

    def release_followers(self, record: BindingRecord) -> None:
        """It is known now where a binding is: wake those that wait to follow it."""
        self.cache.settle(record.key)
        for follower in record.followers:
            self.queue.add(follower)
        record.followers.clear()

    # --- events -------------------------------------------------------------------

    def tell_success(self, key: Key, targets: Iterable[TargetCluster], now: float) -> None:
        self._tell(key, now, NORMAL, patches.SUCCEEDED, patches.success_event(key, targets))

    def tell_failure(self, key: Key, message: str, now: float) -> None:
        self._tell(key, now, WARNING, patches.FAILED, message)

    def tell_failed_attempts(self, key: Key, decision: PlacementDecision, now: float) -> None:
        """The terms of the cluster affinities that were tried in vain before one succeeded."""
        what = f"{binding_resource(key).kind}({spelled(key)})"
        for place, attempt in enumerate(decision.attempts):
            if attempt.error is not None:
                which = f"with clusterAffiliates index({place})"
                message = f"failed to schedule {what} {which}: {attempt.error.message}"
                self.tell_failure(key, message, now)

    def _tell(self, key: Key, now: float, kind: str, reason: str, message: str) -> None:
        """Write events about the binding and its workload."""
        binding = self.cache.bindings[key]
        self.recorder.record(now, binding_resource(key), binding, kind, reason, message)
        resource = binding.spec.resource
        group, _, version = (resource.api_version or "").rpartition("/")
        where = Resource(group, version, "", resource.kind or "", namespaced=bool(resource.namespace))
        metadata = ObjectMeta(name=resource.name, namespace=resource.namespace, uid=resource.uid)
        self.recorder.record(now, where, PartialObjectMetadata(metadata=metadata), kind, reason, message)

    def validate(self) -> None:
        """Check that records, cache and indexes agree."""
        expect(self.records.keys() <= self.cache.bindings.keys(), "a binding that is gone was not forgotten")
        for key, record in self.records.items():
            record.validate()
            repeated = record.request and not self.queue.is_busy(key)
            expect(not repeated, "a request is under way, but may be repeated", record)
            expect(record.is_assumed == (key in self.cache.assumed), "it counts in a wrong place", record)
            wrong = BindingPhase.SETTLED if key in self.unschedulable else BindingPhase.UNSCHEDULABLE
            expect(record.phase is not wrong, "whether it fits is told differently", record)
        indexed = {*self.unschedulable, *self.cache.assumed}
        expect(self.records.keys() >= indexed, "an index knows a binding that is gone")
        self.queue.validate()
        self.claims.validate(self.records)
        self.fleet.index.validate()
