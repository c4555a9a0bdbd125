"""Garbage collection: what loses its owners goes, in the order its owner asked for.

Owners and dependents form a graph by uid.  An owner that was never seen is looked up before anything
is deleted for its absence.  Upstream: pkg/controller/garbagecollector.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from berth.kube.api_resources import Resource
from berth.kube.objects import Key, ObjectMeta, OwnerReference, PartialObjectMetadata
from berth.kube.well_known import DELETED, FOREGROUND_DELETION, ORPHAN_DEPENDENTS
from berth.machines.cache import take
from berth.machines.contract import Action, Event, Get, Outcome
from berth.machines.controller import KeyedMachine
from berth.machines.rates import Recent
from berth.machines.requests import delete, owned_by, without_finalizer

_REMEMBERED = 65_536  # uids of owners that are not among what is watched


@dataclass(frozen=True, slots=True)
class _Item:
    resource: Resource
    key: Key
    metadata: ObjectMeta

    @property
    def uid(self) -> str:
        return self.metadata.uid or ""

    @property
    def owners(self) -> list[OwnerReference]:
        return self.metadata.owner_references or []

    @property
    def owner_uids(self) -> list[str]:
        return [owner.uid or "" for owner in self.owners]

    @property
    def going(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    def holds(self, finalizer: str) -> bool:
        return self.going and finalizer in (self.metadata.finalizers or ())


class GarbageCollector(KeyedMachine[str]):
    """Deletes what has lost its owners, and owners after what they own where that was asked for."""

    name = "garbage-collector"

    def __init__(self, resources: Iterable[Resource]) -> None:
        super().__init__()
        # What can be an owner, by apiVersion and kind; owners of other kinds are left alone.
        self.resources: dict[tuple[str, str], Resource] = {}
        self.watches: tuple[Resource, ...] = tuple(resources)
        self._items: dict[str, _Item] = {}
        self._dependents: dict[str, dict[str, None]] = {}
        self._absent: Recent[str, None] = Recent(_REMEMBERED)  # uids of owners known not to exist
        self._present: Recent[str, None] = Recent(_REMEMBERED)  # uids of owners looked up and found
        for resource in self.watches:
            self.learn(resource)

    def learn(self, resource: Resource) -> None:
        """Objects of this resource can be owners."""
        self.resources[resource.api_version, resource.kind] = resource

    # --- the graph ----------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        item = _Item(event.resource, event.key, event.object.metadata)
        known = self._items.get(item.uid)
        for owner in known.owner_uids if known else ():
            take(self._dependents, owner, item.uid)
            self._wake_waiting(owner)
        if event.change == DELETED:
            self._items.pop(item.uid, None)
            self._absent[item.uid] = None
            self._wake(item.uid)
            for owner in item.owner_uids:
                self._wake_waiting(owner)
            self.queue.forget(item.uid)
            return
        self._items[item.uid] = item
        self._absent.pop(item.uid, None)
        for owner in item.owner_uids:
            self._dependents.setdefault(owner, {})[item.uid] = None
            self._wake_waiting(owner)
        if item.owners or item.going:
            self.queue.add(item.uid)
        if item.going and not (known and known.going):
            self._wake(item.uid)

    def _wake(self, uid: str) -> None:
        for dependent in self._dependents.get(uid, ()):
            self.queue.add(dependent)

    def _wake_waiting(self, uid: str) -> None:
        owner = self._items.get(uid)
        if owner is not None and (owner.holds(FOREGROUND_DELETION) or owner.holds(ORPHAN_DEPENDENTS)):
            self.queue.add(uid)

    def _dependents_of(self, item: _Item) -> list[_Item]:
        return [self._items[uid] for uid in self._dependents.get(item.uid, ()) if uid in self._items]

    # --- deciding -----------------------------------------------------------------------------------

    def sync(self, key: str, now: float) -> Iterator[Action]:
        del now
        item = self._items.get(key)
        if item is None:
            return
        if item.holds(ORPHAN_DEPENDENTS):
            yield from self._orphan(item)
        elif item.holds(FOREGROUND_DELETION):
            yield from self._finish_foreground(item)
        elif not item.going and item.owners:
            yield from self._judge(item)

    def _orphan(self, item: _Item) -> Iterator[Action]:
        dependents = self._dependents_of(item)
        for dependent in dependents:
            yield self._disown(item.uid, dependent, {item.uid}, "its owner leaves it")
        if not dependents:
            yield self._drop_finalizer(item, ORPHAN_DEPENDENTS)

    def _finish_foreground(self, item: _Item) -> Iterator[Action]:
        # Who waits for himself waits for ever.
        others = [each for each in self._dependents_of(item) if each.uid != item.uid]
        for each in others:
            if not each.going:
                self.queue.add(each.uid)
        owners = (owner for each in others for owner in each.owners)
        if not any(owner.uid == item.uid and owner.block_owner_deletion for owner in owners):
            yield self._drop_finalizer(item, FOREGROUND_DELETION)

    def _judge(self, item: _Item) -> Iterator[Action]:
        states: dict[str, set[str]] = {"solid": set(), "dangling": set(), "waiting": set()}
        for owner in item.owners:
            state = self._state(owner)
            if state is None:
                yield from self._look_up(item, owner)
                return
            states[state].add(owner.uid or "")
        waiting = states["waiting"]
        if states["solid"]:
            if gone := states["dangling"] | waiting:
                yield self._disown(item.uid, item, gone, "some of its owners are gone")
            return
        propagation = "Background"
        if waiting and self._dependents.get(item.uid):
            propagation = "Foreground"
        elif ORPHAN_DEPENDENTS in (item.metadata.finalizers or ()):
            propagation = "Orphan"
        if propagation == "Foreground" and self._closes_circle(item):
            owners = [{**msgspec.to_builtins(owner), "blockOwnerDeletion": False} for owner in item.owners]
            cause = "owners and dependents may form a circle"
            yield owned_by(item.resource, item, owners, cause, key=(item.uid, ""))
            return
        cause = "its owners wait for it to go" if waiting else "its owners are gone"
        yield delete(item.resource, item, cause, key=(item.uid, ""), propagation=propagation)

    def _closes_circle(self, item: _Item) -> bool:
        """Whether what it owns waits in turn, so that none would ever go; it may be no circle after all."""
        blocks = any(owner.block_owner_deletion for owner in item.owners)
        return blocks and any(each.holds(FOREGROUND_DELETION) for each in self._dependents_of(item))

    def _state(self, owner: OwnerReference) -> str | None:
        uid = owner.uid or ""
        known = self._items.get(uid)
        if known is not None:
            return "waiting" if known.holds(FOREGROUND_DELETION) else "solid"
        if uid in self._absent:
            return "dangling"
        return "solid" if uid in self._present else None

    def _look_up(self, item: _Item, owner: OwnerReference) -> Iterator[Action]:
        resource = self.resources.get((owner.api_version or "", owner.kind or ""))
        if resource is None or (resource.namespaced and not item.key[0]):
            return
        yield Get(
            resource=resource,
            key=(item.uid, owner.uid or ""),
            at=(item.key[0] if resource.namespaced else "", owner.name or ""),
            why="an owner nobody has seen",
        )

    # --- acting -------------------------------------------------------------------------------------

    def _disown(self, uid: str, item: _Item, gone: set[str], cause: str) -> Action:
        owners = [msgspec.to_builtins(owner) for owner in item.owners if owner.uid not in gone]
        return owned_by(item.resource, item, owners, cause, key=(uid, ""))

    def _drop_finalizer(self, item: _Item, finalizer: str) -> Action:
        return without_finalizer(item.resource, item, finalizer, f"{finalizer} is done", key=(item.uid, ""))

    def done(self, action: Action, outcome: Outcome) -> None:
        uid, owner = action.key  # what it is done for, and which of its owners is looked up
        if isinstance(action, Get):
            found = outcome.decode(PartialObjectMetadata).metadata.uid if outcome.ok else None
            if outcome.missing or (outcome.ok and found != owner):
                self._absent[owner] = None
            elif outcome.ok:
                self._present[owner] = None
        settled = outcome.ok or outcome.missing
        self.queue.finished(uid, ok=settled, at=outcome.at, wait=outcome.retry_after)
        if isinstance(action, Get):
            self.queue.add(uid)
