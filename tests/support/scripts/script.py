"""Event scripts for state machines: a world in memory, virtual time, a shell that performs actions at once.

Every create, patch and delete changes the world and comes back as an event; nothing sleeps.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from berth.kube.api_resources import NODES, PODS, VIEWS, Resource
from berth.kube.objects import PartialObjectMetadata
from berth.kube.times import seconds, stamp
from berth.kube.well_known import ADDED, DELETED, MODIFIED, STRATEGIC_PATCH
from berth.machines.cache import Cache
from berth.machines.contract import (
    Action,
    Bind,
    ConfirmingMachine,
    Create,
    Delete,
    DeleteAll,
    Event,
    Evict,
    Get,
    Machine,
    Outcome,
    Patch,
    Update,
)

Raw = dict[str, Any]
START = seconds("2026-01-01T00:00:00Z")
_MERGED_BY = {"conditions": "type", "containerStatuses": "name", "reservedFor": "uid"}


class Script:
    """A world and some machines in it; after each of its steps a machine's invariants are checked.

    Attributes:
        objects: Everything there is, by (resource, namespace, name).
        done: Every action that was performed, in order.
        held: While set, events of these resources are kept back, as if the watch were slow.
        refuse: May turn an action into a failure: returns an outcome, or None to perform it.
    """

    def __init__(self, *machines: Callable[[Cache], Any]) -> None:
        self.now = START
        self.cache = Cache()
        self.machines: list[Any] = [machine(self.cache) for machine in machines]
        self.objects: dict[tuple[Resource, str, str], Raw] = {}
        self.done: list[Action] = []
        self.held: set[Resource] = set()
        self.refuse: Callable[[Action], Outcome | None] = lambda _action: None
        self.undelivered: list[Event] = []
        self._numbers = itertools.count(1)

    # --- the user ---------------------------------------------------------------------------------

    def create(self, resource: Resource, body: Raw) -> Raw:
        body = copy.deepcopy(body)
        metadata = body.setdefault("metadata", {})
        number = next(self._numbers)
        if resource.namespaced:
            metadata.setdefault("namespace", "default")
        metadata.setdefault("name", f"{metadata.get('generateName', '')}{number:03d}")
        metadata.update(uid=f"uid-{number}", creationTimestamp=stamp(self.now), generation=1)
        self._store(resource, body)
        return body

    def change(
        self,
        resource: Resource,
        name: str,
        change: Raw,
        namespace: str = "default",
        *,
        strategic: bool = True,
    ) -> None:
        """Merge into an object, as a user or another component would; entries of lists only if strategic."""
        item = self.get(resource, name, namespace)
        new = _merged(item, change, strategic=strategic)
        new["metadata"] = dict(new["metadata"])  # what was there before keeps its version
        if new.get("spec") != item.get("spec"):
            new["metadata"]["generation"] = new["metadata"].get("generation", 0) + 1
        self._store(resource, new)

    def delete(
        self, resource: Resource, name: str, namespace: str = "default", *, grace: int | None = None
    ) -> None:
        key = (resource, namespace if resource.namespaced else "", name)
        item = self.objects[key]
        bound = resource == PODS and item.get("spec", {}).get("nodeName") and grace != 0
        if bound or item["metadata"].get("finalizers"):
            metadata = {**item["metadata"], "deletionTimestamp": stamp(self.now + 30)}
            metadata["deletionGracePeriodSeconds"] = 30 if bound else 0
            self._store(resource, {**item, "metadata": metadata})
            return
        del self.objects[key]
        self._tell(Event(resource, DELETED, self.view(resource, item)))

    def get(self, resource: Resource, name: str, namespace: str = "default") -> Raw:
        return self.objects[resource, namespace if resource.namespaced else "", name]

    def all(self, resource: Resource) -> list[Raw]:
        return [item for key, item in self.objects.items() if key[0] is resource]

    def names(self, resource: Resource) -> list[str]:
        return sorted(item["metadata"]["name"] for item in self.all(resource))

    def node(self, name: str, **spec: Any) -> None:
        labels = {"kubernetes.io/hostname": name, **spec.pop("labels", {})}
        ready = {"type": "Ready", "status": "True"}
        self.create(
            NODES,
            {
                "metadata": {"name": name, "labels": labels},
                "spec": spec,
                "status": {"conditions": [ready], "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
            },
        )

    def set_ready(self, *names: str, ready: bool = True) -> None:
        """Pods report that they run."""
        for name in names or self.names(PODS):
            entry = {
                "type": "Ready",
                "status": "True" if ready else "False",
                "lastTransitionTime": stamp(self.now),
            }
            self.change(PODS, name, {"status": {"phase": "Running", "conditions": [entry]}})

    def finish(self, name: str, phase: str) -> None:
        self.change(PODS, name, {"status": {"phase": phase}})

    # --- time -------------------------------------------------------------------------------------

    def settle(self, rounds: int = 200) -> None:
        """Let the machines work until nothing is due at this moment."""
        for _ in range(rounds):
            if not self._round():
                return
        raise AssertionError(f"not at rest: {[str(entry) for entry in self.done[-6:]]}")

    def advance(self, duration: float) -> None:
        """Let time pass, waking machines when they asked for it."""
        end = self.now + duration
        self.settle()
        while True:
            due = [when for machine in self.machines if (when := machine.due()) is not None]
            nearest = min(due, default=end + 1)
            if nearest > end:
                break
            self.now = max(self.now, nearest)
            self.settle()
        self.now = end
        self.settle()

    def deliver(self) -> None:
        """The watch catches up."""
        self.held.clear()
        kept, self.undelivered = self.undelivered, []
        for event in kept:
            self._tell(event)

    def _round(self) -> bool:
        busy = False
        for machine in self.machines:
            actions = machine.reconcile(self.now)
            machine.validate()
            for action in actions:
                busy = True
                self.perform(machine, action)
        return busy

    # --- the server -------------------------------------------------------------------------------

    def perform(self, machine: Any, action: Action) -> None:
        self.done.append(action)
        outcome = self.refuse(action)
        if outcome is None:
            try:
                unmet = self._unmet(machine, action) if isinstance(action, Evict) else None
                outcome = unmet or self.answer(action)
            except KeyError:
                outcome = Outcome(at=self.now, code=404, reason="NotFound", message="not found")
        machine.done(action, outcome)
        machine.validate()

    def answer(self, action: Action) -> Outcome:
        resource, namespace, name = action.resource, action.namespace, action.name
        match action:
            case Create():
                if (resource, namespace, action.body["metadata"].get("name", "")) in self.objects:
                    return Outcome(at=self.now, code=409, reason="AlreadyExists", message="exists")
                return self._ok(self.create(resource, action.body))
            case Patch():
                return self._patch(action)
            case Update():
                return self._update(action)
            case Get():
                return self._ok(self.get(resource, name, namespace))
            case _:
                self._act(action)
                return self._ok({})

    def _ok(self, item: Raw) -> Outcome:
        return Outcome(at=self.now, body=msgspec.json.encode(item))

    def _update(self, action: Update) -> Outcome:
        resource, known = action.resource, self.get(action.resource, action.name, action.namespace)
        version = action.body.get("metadata", {}).get("resourceVersion")
        if version and version != known["metadata"]["resourceVersion"]:
            return Outcome(at=self.now, code=409, reason="Conflict", message="modified")
        item = {**known, **action.body}
        if action.subresource == "finalize":
            del self.objects[resource, "", action.name]
            self._tell(Event(resource, DELETED, self.view(resource, item)))
        else:
            self._store(resource, item)
        return self._ok(item)

    def _patch(self, action: Patch) -> Outcome:
        item = self.get(action.resource, action.name, action.namespace)
        body = action.body if isinstance(action.body, dict) else {}
        version = body.get("metadata", {}).get("resourceVersion")
        if version and version != item["metadata"]["resourceVersion"]:
            return Outcome(at=self.now, code=409, reason="Conflict", message="modified")
        uid = body.get("metadata", {}).get("uid")
        if uid and uid != item["metadata"]["uid"]:
            return Outcome(at=self.now, code=409, reason="Conflict", message="another object")
        strategic = action.form == STRATEGIC_PATCH
        self.change(action.resource, action.name, body, action.namespace, strategic=strategic)
        changed = self.get(action.resource, action.name, action.namespace)
        self.drop_finished(action.resource, action.name, action.namespace)
        return self._ok(changed)

    def _unmet(self, machine: Machine, action: Evict) -> Outcome | None:
        """What is answered where the preconditions do not hold, or it is not asked any more."""
        metadata = self.get(action.resource, action.name, action.namespace)["metadata"]
        if isinstance(machine, ConfirmingMachine) and not machine.confirms(action):
            return Outcome(at=self.now, code=409, reason="Conflict", message="no longer meant")
        same = action.uid in (None, metadata["uid"])
        if same and action.resource_version in (None, metadata["resourceVersion"]):
            return None
        return Outcome(at=self.now, code=409, reason="Conflict", message="modified")

    def _act(self, action: Action) -> None:
        resource, namespace, name = action.resource, action.namespace, action.name
        match action:
            case Delete(propagation=("Foreground" | "Orphan") as policy):
                finalizer = "foregroundDeletion" if policy == "Foreground" else "orphan"
                self.change(resource, name, {"metadata": {"finalizers": [finalizer]}}, namespace)
                self.delete(resource, name, namespace)
            case Delete() | Evict():
                grace = action.grace if isinstance(action, Delete) else None
                self.delete(resource, name, namespace, grace=grace)
            case DeleteAll():
                for found in list(self.objects):
                    if found[0] is resource and found[1] == namespace:
                        self.delete(resource, found[2], namespace)
            case Bind():
                self.change(PODS, name, {"spec": {"nodeName": action.node}}, namespace)

    def drop_finished(self, resource: Resource, name: str, namespace: str) -> None:
        """An object that was only held by finalizers goes with the last of them."""
        key = (resource, namespace if resource.namespaced else "", name)
        metadata = self.objects[key]["metadata"]
        held = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
        if metadata.get("deletionTimestamp") and not held:
            item = self.objects.pop(key)
            self._tell(Event(resource, DELETED, self.view(resource, item)))

    def _store(self, resource: Resource, item: Raw) -> None:
        metadata = item["metadata"]
        key = (resource, metadata.get("namespace", ""), metadata["name"])
        known = self.objects.get(key)
        metadata["resourceVersion"] = str(next(self._numbers))
        self.objects[key] = item
        old = self.view(resource, known) if known else None
        change = ADDED if known is None else MODIFIED
        self._tell(Event(resource, change, self.view(resource, item), old))

    def _tell(self, event: Event) -> None:
        if event.resource in self.held:
            self.undelivered.append(event)
            return
        self.cache.handle(event)
        for machine in self.machines:
            if event.resource in machine.watches:
                machine.handle(event)
                machine.validate()

    @staticmethod
    def view(resource: Resource, item: Raw) -> Any:
        return msgspec.convert(item, VIEWS.get(resource, PartialObjectMetadata))


def _merged(old: Any, patch: Any, *, strategic: bool) -> Any:
    if not isinstance(patch, dict) or not isinstance(old, dict):
        return copy.deepcopy(patch)
    new = dict(old)
    for name, value in patch.items():
        if value is None:
            new.pop(name, None)
        elif strategic and name in _MERGED_BY and isinstance(value, list):
            by = {entry.get(_MERGED_BY[name]): entry for entry in old.get(name) or ()}
            by.update({entry.get(_MERGED_BY[name]): entry for entry in value})
            new[name] = [entry for entry in by.values() if entry.get("$patch") != "delete"]
        else:
            new[name] = _merged(old.get(name, {}), value, strategic=strategic)
    return new


def verbs(actions: Iterable[Action], resource: Resource) -> list[str]:
    """What was done to one resource, status writes left out."""
    return [
        type(action).__name__.lower()
        for action in actions
        if action.resource is resource and getattr(action, "subresource", "") != "status"
    ]


def workload(name: str, replicas: int | None = None, image: str = "v1", **spec: Any) -> Raw:
    body: Raw = {
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": image}], **spec.pop("pod", {})},
            },
            **spec,
        },
    }
    if replicas is not None:
        body["spec"]["replicas"] = replicas
    return body


def image_of(pod: Raw) -> str:
    image: str = pod["spec"]["containers"][0]["image"]
    return image


def new_image(image: str) -> Raw:
    return {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}}
