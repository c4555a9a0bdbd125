"""The frame of a controller that owns pods: whose they are, what is expected of them, what people are told.

While pods were asked for, or asked to go, and the watch has not shown it, their owner is not looked at.
If the server refuses a pod, its owner asks for the next one after a delay that grows with each refusal; a
controller may ask for the same when pods fail.  An event does not shorten the delay.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from berth.kube.api_resources import PODS, VIEWS, Resource
from berth.kube.objects import (
    LivePod,
    LiveWorkload,
    ObjectMeta,
    PartialObjectMetadata,
    RawObject,
    View,
    key_of,
)
from berth.kube.ownership import controller_of, owner_reference
from berth.kube.pods import is_terminating, phase
from berth.kube.selectors import parse_label_selector
from berth.kube.well_known import DELETED, FAILED
from berth.machines.cache import Cache
from berth.machines.contract import Action, Create, Delete, Event, Outcome
from berth.machines.controller import Controller
from berth.machines.rates import Backoff
from berth.machines.recorder import NORMAL, WARNING
from berth.machines.requests import create, delete, owned_by

_V = TypeVar("_V")

# --- restraint ------------------------------------------------------------------------------------
# How long a workload waits for another pod after the last one was refused, failed or was evicted.

# Upstream: the rate limit of failed syncs, in client-go's DefaultTypedControllerRateLimiter.
REFUSALS = Backoff(first=0.005, longest=1000.0)
# Upstream: the back-off of failed daemon pods, in pkg/controller/daemon.
FAILURES = Backoff(first=1.0, longest=900.0)
_CALM = 60.0  # seconds, at least


@dataclass(slots=True)
class Restraint:
    """Failures by owner and place, which may be a node; each makes the next wait longer."""

    backoff: Backoff  # how long to wait after so many failures in a row
    # How long nothing has to fail for a failure to be the first again; None: twice the last wait.
    calm: float | None = None
    free: int = 0  # how many failures in a row cost nothing
    _failures: dict[tuple[str, str], tuple[int, float]] = field(default_factory=dict)  # count, and the last

    def note(self, owner: str, now: float, place: str = "") -> float:
        """One more failure; when the next pod may be made."""
        count, last = self._failures.get((owner, place), (0, 0.0))
        calm = max(2 * self.backoff.after(count), _CALM) if self.calm is None else self.calm
        if count and now - last > calm:
            count = 0
        self._failures[owner, place] = (count + 1, now)
        return self.until(owner, place)

    def until(self, owner: str, place: str = "") -> float:
        """From when on a pod may be made; 0 if nothing failed there."""
        count, last = self._failures.get((owner, place), (0, 0.0))
        return last + self.backoff.after(count - self.free) if count else 0.0

    def forget(self, owner: str) -> None:
        for known in [known for known in self._failures if known[0] == owner]:
            del self._failures[known]


# --- expectations ---------------------------------------------------------------------------------
# Creations and deletions that were asked for but not yet seen in the watch.
# Until they are seen a controller's picture of its pods is out of date; deciding on it would create
# or delete too many.  Upstream: pkg/controller/controller_utils.go.

TIMEOUT = 300.0


@dataclass(slots=True)
class _OwnerExpectations:
    until: float = 0.0
    creations: int = 0
    deletions: set[str] = field(default_factory=set)


class Expectations:
    """What is expected, by the uid of the owner; a deletion is known by the pod's uid, a creation is not."""

    def __init__(self) -> None:
        self._by_owner: dict[str, _OwnerExpectations] = {}

    def expect(self, owner: str, now: float, deletion: str | None = None) -> None:
        """Another creation, or a deletion, was asked for."""
        expected = self._by_owner.setdefault(owner, _OwnerExpectations())
        expected.until = now + TIMEOUT
        if deletion is None:
            expected.creations += 1
        else:
            expected.deletions.add(deletion)

    def fulfil(self, owner: str, deletion: str | None = None) -> None:
        """A creation, or a deletion, was seen, or it failed."""
        expected = self._by_owner.get(owner)
        if expected is None:
            return
        if deletion is None:
            expected.creations -= 1
        else:
            expected.deletions.discard(deletion)
        if expected.creations <= 0 and not expected.deletions:
            del self._by_owner[owner]

    def pending_until(self, owner: str, now: float) -> float | None:
        """Until when to wait, None if there is nothing to wait for."""
        expected = self._by_owner.get(owner)
        if expected is None:
            return None
        if expected.until <= now:
            del self._by_owner[owner]
            return None
        return expected.until

    def forget(self, owner: str) -> None:
        self._by_owner.pop(owner, None)


# --- the frame ------------------------------------------------------------------------------------


class WorkloadController(Controller):
    """A controller of one kind of workload; how many pods there are to be is for its subclasses."""

    owner: Resource  # whose objects own the dependents
    dependents = PODS  # what they own
    adopts = True  # whether a dependent that nobody owns may become theirs
    burst = 500  # how many pods are made at a time, at most

    def __init__(self, cache: Cache) -> None:
        super().__init__(cache)
        self.expectations = Expectations()
        self._refusals = Restraint(REFUSALS)
        self._failures = Restraint(FAILURES, free=1)
        self._asked: set[str] = set()  # owners that have asked for pods since one was refused
        self._failed: dict[str, set[str]] = {}  # owner -> its pods that are known to have failed

    # --- events -------------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        if event.resource == self.owner:
            if event.change == DELETED:
                self.forget(event.object.metadata.uid or "")
            self.queue.add(event.key)
            return
        if event.resource == PODS:
            self._settle(event)
        for seen in (event.object, event.old):
            reference = controller_of(seen.metadata) if seen is not None else None
            if reference is not None and reference.kind == self.owner.kind:
                self.queue.add((seen.metadata.namespace or "", reference.name or ""))
        if self.adopts and event.resource == self.dependents and event.change != DELETED:
            self._offer(event.object.metadata)

    def _offer(self, orphan: ObjectMeta) -> None:
        """Let those look at a dependent that nobody owns who may adopt it."""
        if controller_of(orphan) is not None:
            return
        for item in self.cache.all(self.owner, LiveWorkload):
            near = item.metadata.namespace == orphan.namespace
            if near and parse_label_selector(item.spec.selector).matches(orphan.labels or {}):
                self.queue.add(key_of(item.metadata))

    def _settle(self, event: Event) -> None:
        """The watch shows a pod that was asked for, or that one is going."""
        pod: LivePod = event.object
        reference = controller_of(pod.metadata)
        if reference is None or reference.kind != self.owner.kind:
            return
        uid = reference.uid or ""
        if event.old is None:
            self.expectations.fulfil(uid)
        if event.change == DELETED or is_terminating(pod):
            self.expectations.fulfil(uid, pod.metadata.uid or "")
            self.pod_goes(uid, pod)

    def pod_goes(self, owner: str, pod: LivePod) -> None:
        """A pod of the workload with the uid `owner` is being deleted, or is gone."""

    def forget(self, uid: str) -> None:
        """The workload is gone."""
        self.expectations.forget(uid)
        self._refusals.forget(uid)
        self._failures.forget(uid)
        self._asked.discard(uid)
        self._failed.pop(uid, None)

    # --- whose they are -----------------------------------------------------------------------------

    def owned(self, item: LiveWorkload, view: type[_V]) -> list[_V]:
        """What a workload owns and selects."""
        selector = parse_label_selector(item.spec.selector)
        found: list[Any] = self.cache.owned(self.dependents, item.metadata.uid, view)
        return [each for each in found if selector.matches(each.metadata.labels or {})]

    def claims(self, item: LiveWorkload) -> list[Action]:
        """What a workload adopts because its selector matches, and releases because it no longer does."""
        metadata, selector = item.metadata, parse_label_selector(item.spec.selector)
        kind, key, view = self.dependents, key_of(item.metadata), VIEWS[self.dependents]
        actions: list[Action] = []
        for each in self.cache.owned(kind, metadata.uid, view):
            if not each.metadata.deletion_timestamp and not selector.matches(each.metadata.labels or {}):
                others = [owner for owner in _owners(each.metadata) if owner.get("uid") != metadata.uid]
                cause = "released: it no longer matches the selector"
                actions.append(owned_by(kind, each, others, cause, key=key))
        if metadata.deletion_timestamp or selector.everything or selector.nothing:
            return actions
        for each in self.cache.orphans(kind, metadata.namespace, view):
            if not each.metadata.deletion_timestamp and selector.matches(each.metadata.labels or {}):
                owners = [*_owners(each.metadata), owner_reference(self.owner, metadata)]
                actions.append(owned_by(kind, each, owners, "adopted: it matches the selector", key=key))
        return actions

    # --- asking for pods ----------------------------------------------------------------------------

    def waits(self, metadata: ObjectMeta, now: float) -> bool:
        """Whether the watch has yet to show what was done for a workload."""
        until = self.expectations.pending_until(metadata.uid or "", now)
        return self.queue.put_off(key_of(metadata), until, now)

    def create_pod(self, item: View, body: RawObject, cause: str, now: float) -> Action:
        """Ask for a pod of a workload, which waits until the watch shows it."""
        self.expectations.expect(item.metadata.uid or "", now)
        self._asked.add(item.metadata.uid or "")
        return create(PODS, key_of(item.metadata), body, cause)

    def delete_pod(self, item: View, pod: LivePod, cause: str, now: float) -> Action:
        """Have a pod of a workload go, which waits until the watch shows that."""
        self.expectations.expect(item.metadata.uid or "", now, deletion=pod.metadata.uid or "")
        return delete(PODS, pod, cause, key=key_of(item.metadata))

    # --- restraint ----------------------------------------------------------------------------------

    def creations_allowed(self, metadata: ObjectMeta, wanted: int, now: float) -> int:
        """How many of the pods that a workload wants may be asked for now; it is looked at when more may."""
        refused_until = self._refusals.until(metadata.uid or "", _version(metadata))
        until = max(refused_until, self._failures.until(metadata.uid or "", _version(metadata)))
        if self.queue.put_off(key_of(metadata), until, now):
            return 0
        # What was just refused is tried once, not five hundred times.
        return min(wanted, 1 if refused_until else self.burst)

    def count_failures(self, metadata: ObjectMeta, pods: list[LivePod], now: float) -> None:
        """Take note of the pods that have failed since; those that failed meanwhile are one failure."""
        uid = metadata.uid or ""
        failed = {pod.metadata.uid or "" for pod in pods if phase(pod) == FAILED}
        if failed - self._failed.get(uid, set()) and not self.held_back(metadata, now):
            self._failures.note(uid, now, _version(metadata))
        self._failed[uid] = failed

    def held_back(self, metadata: ObjectMeta, now: float) -> float | None:
        """Until when the workload's failed pods are not replaced, None if they are."""
        until = self._failures.until(metadata.uid or "", _version(metadata))
        return until if until > now else None

    # --- answers ------------------------------------------------------------------------------------

    def done(self, action: Action, outcome: Outcome) -> None:
        if isinstance(action, Create) and action.resource == PODS and outcome.ok:
            item = self.cache.look(self.owner, action.key)
            if item is not None:
                self._refusals.forget(item.metadata.uid or "")
                message = self.creation_told(item, outcome.decode(PartialObjectMetadata).metadata.name or "")
                self.recorder.record(outcome.at, self.owner, item, NORMAL, "SuccessfulCreate", message)
        super().done(action, outcome)

    def failed(self, action: Action, outcome: Outcome) -> None:
        item = self.cache.look(self.owner, action.key)
        if item is None or action.resource != PODS:
            return
        uid = item.metadata.uid or ""
        if isinstance(action, Create):
            self.expectations.fulfil(uid)
            if uid in self._asked:  # those asked for together count once
                self._asked.discard(uid)
                self._refusals.note(uid, outcome.at, _version(item.metadata))
            self.creation_failed(item, action, outcome)
        elif isinstance(action, Delete):
            self.expectations.fulfil(uid, action.uid or "")

    def creation_told(self, item: View, name: str) -> str:  # noqa: ARG002
        """What is said of a pod that was made for `item`, a workload."""
        return f"Created pod: {name}"

    def creation_failed(self, item: View, action: Create, outcome: Outcome) -> None:  # noqa: ARG002
        """Tell of a pod that could not be made for `item`, a workload."""
        message = f"Error creating: {outcome.message}"
        self.recorder.record(outcome.at, self.owner, item, WARNING, "FailedCreate", message)


def _version(metadata: ObjectMeta) -> str:
    """What failed for one version of a workload may work for the next."""
    return str(metadata.generation)


def _owners(metadata: ObjectMeta) -> list[RawObject]:
    return [msgspec.to_builtins(owner) for owner in metadata.owner_references or ()]
