"""Before a pod is bound: the node that is being cleared for it is held, its volumes are told the node and
awaited, and its claims to devices are reserved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import msgspec

from berth.engine.rules.dynamic_resources import reserves_claims
from berth.engine.state.cluster import pod_name
from berth.engine.state.pod_class import PodClass
from berth.engine.state.resource_claims import ResourceClaimRecord, record_of
from berth.engine.state.volumes.needs import VolumeDecisions
from berth.kube.api_resources import CLAIMS, RESOURCE_CLAIMS, VOLUMES, Resource
from berth.kube.objects import Key, Pod, RawObject, ResourceClaim
from berth.kube.well_known import SELECTED_NODE, STRATEGIC_PATCH
from berth.machines.contract import Action, Outcome, Patch
from berth.machines.mirror import Mirror
from berth.machines.requests import object_reference, patch
from berth.scheduler.queue import QueuedPod, SchedulerPurpose

# Says that the volume may be let go again: its claim was not chosen by a person.
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"


class Choice(msgspec.Struct, frozen=True):
    """The node of a pod."""

    record: QueuedPod
    pod_class: PodClass
    node: str
    # What has to be done about the pod's claims first; None if it has none.
    volumes: VolumeDecisions | None = None


# --- nodes that are being cleared -----------------------------------------------------------------
# Until the pod can go there, it counts as if it were there, so that nobody of the same or a lower rank takes
# the room that victims make.  A pod of a higher rank does not see the reservations of lesser ones.


@dataclass(frozen=True, slots=True)
class Nomination:
    pod: Pod
    node: str
    priority: int


class Nominations:
    """The nodes that are being cleared, each counted as taken by its pod."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self.pods: dict[Key, Nomination] = {}  # by pod, what is held for it

    def node_of(self, key: Key) -> str | None:
        held = self.pods.get(key)
        return held.node if held else None

    def hold(self, key: Key, pod: Pod, pod_class: PodClass, node: str) -> None:
        self.release(key)
        self.pods[key] = Nomination(pod, node, pod.spec.priority or 0)
        self._mirror.assume(pod, pod_class, node)

    def release(self, key: Key) -> None:
        """Give the room up, if there is any."""
        if (held := self.pods.pop(key, None)) is not None:
            self._mirror.forget(key, held.pod)

    def replaced(self, key: Key) -> None:
        """The pod itself now counts, on whatever node."""
        self.pods.pop(key, None)

    def as_seen_by(self, key: Key, priority: int) -> AbstractContextManager[object]:
        """The cluster with no reservation of the pod itself or of lesser ones."""
        unseen = [held for owner, held in self.pods.items() if owner == key or held.priority < priority]
        return self._without(unseen) if unseen else nullcontext()

    def without_any(self) -> AbstractContextManager[object]:
        return self._without(self.pods.values())

    def _without(self, unseen: Iterable[Nomination]) -> AbstractContextManager[object]:
        cluster = self._mirror.cluster
        return cluster.without(*filter(cluster.has_pod, (pod_name(held.pod) for held in unseen)))


# --- volumes --------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Work:
    pod_class: PodClass
    name: str
    node: str
    provisioned: tuple[tuple[str, str], ...]
    told: set[tuple[str, str]] = field(default_factory=set)  # claims seen to know their node


class VolumeWork:
    """What has to be done about the volumes of pods that have a node but are not bound to it."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self.pods: dict[Key, _Work] = {}  # those that wait for their volumes

    def begin(self, choice: Choice) -> list[Action] | None:
        """What to ask for before the pod can be bound; None if nothing."""
        decisions, record = choice.volumes, choice.record
        if decisions is None:
            return None
        name = pod_name(record.pod)
        if decisions.empty and self._mirror.cluster.volumes.all_bound(choice.pod_class):
            self._mirror.release_volumes(name)
            return None
        self._mirror.promise_volumes(name, decisions, choice.node)
        self.pods[record.key] = _Work(choice.pod_class, name, choice.node, tuple(decisions.provision))
        asked: list[Action] = [
            self._annotated(record, CLAIMS, claim, {SELECTED_NODE: choice.node})
            for claim in decisions.provision
        ]
        for volume, namespace, claim in decisions.bind:
            seen = self._mirror.storage[CLAIMS, (namespace, claim)]
            spec = {"claimRef": object_reference(CLAIMS, seen.metadata)}
            asked.append(
                self._annotated(record, VOLUMES, ("", volume), {BOUND_BY_CONTROLLER: "yes"}, spec=spec)
            )
        return asked

    def _annotated(
        self, record: QueuedPod, resource: Resource, at: Key, annotations: RawObject, **more: RawObject
    ) -> Patch:
        """Only as it was when it was chosen: it may be somebody else's by now."""
        seen, body = self._mirror.storage[resource, at], {"metadata": {"annotations": annotations}, **more}
        purpose, number = SchedulerPurpose.VOLUMES, record.attempt
        return patch(resource, seen, body, key=record.key, purpose=purpose, attempt=number)

    def forget(self, key: Key) -> None:
        work = self.pods.pop(key, None)
        if work is not None:
            self._mirror.release_volumes(work.name)
            self._mirror.volumes_changed()

    def ready(self) -> list[Key]:
        """Pods whose claims are all bound by now."""
        index = self._mirror.cluster.volumes
        return [key for key, work in self.pods.items() if index.all_bound(work.pod_class)]

    def failed(self) -> Iterator[tuple[Key, str]]:
        """Pods that have to be placed anew.

        Whoever provisions a volume takes the node's name off a claim again if it cannot be done there.
        """
        for key, work in list(self.pods.items()):
            for claim in work.provisioned:
                why = self._refused(work, claim)
                if why is not None:
                    yield key, why
                    break

    def _refused(self, work: _Work, name: tuple[str, str]) -> str | None:
        claim = self._mirror.cluster.volumes.claim(*name)
        if claim is None:
            return f'persistentvolumeclaim "{name[1]}" not found'
        if claim.selected_node == work.node:
            work.told.add(name)
        elif name in work.told:
            return f'the volume of persistentvolumeclaim "{name[1]}" cannot be provisioned for {work.node}'
        return None


# --- claims to devices: reserved before the pod is bound, and given back if it is not -------------
# A reservation is an entry in the claim's `status.reservedFor`.  While a pod stands there nobody takes the
# devices away, so what the answer to the request says of the allocation holds until the pod is bound.
# Entries are merged by the server: pods that share a claim do not get into each other's way.


@dataclass(slots=True)
class _Reservation:
    """The claims of one pod that has a node."""

    pod: Pod
    attempt: int
    chosen: dict[Key, ResourceClaimRecord]  # the claims as they were when the node was chosen
    # Whether the requests are made; they wait for those that give earlier reservations back.
    asked: bool = False
    open: set[Key] = field(default_factory=set)  # the claims whose requests are not answered yet
    held: set[Key] = field(default_factory=set)  # the claims that are known to be reserved for the pod


class Reservations:
    """What has to be done about the claims of pods that have a node but are not seen there."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self.pods: dict[Key, _Reservation] = {}  # those that wait for their claims
        self._bound: dict[Key, _Reservation] = {}  # all is reserved, and the binding is under way
        self._returns: dict[str, int] = {}  # by the pod's UID, how many are to be given back
        self._owed: dict[tuple[Key, int, Key], str] = {}  # of those, the ones whose requests are still open

    def begin(self, choice: Choice) -> list[Action] | None:
        """What to ask for before the pod can be bound; None if nothing."""
        index, record = self._mirror.cluster.resource_claims, choice.record
        if not (index.concerns(choice.pod_class) and reserves_claims(choice.pod_class)):
            return None
        chosen = {claim.key: claim for claim in index.needs_of(choice.pod_class).claims}
        if not chosen:
            return None
        self.pods[record.key] = _Reservation(record.pod, record.attempt, chosen)
        return self._ask(record.key)

    def _ask(self, key: Key) -> list[Action]:
        work = self.pods[key]
        metadata = work.pod.metadata
        if work.asked or metadata.uid in self._returns:
            return []  # a request that gives back must not overtake one that reserves
        work.asked, work.open = True, set(work.chosen)
        entry = {"resource": "pods", "name": metadata.name, "uid": metadata.uid}
        return [_patch(claim, key, entry, work.attempt) for claim in work.chosen.values()]

    # --- waiting ------------------------------------------------------------------------------------

    def is_ready(self, key: Key) -> bool:
        """Whether the pod may be bound as far as its claims go."""
        work = self.pods.get(key)
        if work is None:
            return True
        index = self._mirror.cluster.resource_claims
        found = [index.get(claim) for claim in work.chosen]
        return work.held == work.chosen.keys() and all(claim is None or claim.ready for claim in found)

    def bind(self, key: Key) -> None:
        """The binding is sent."""
        work = self.pods.pop(key, None)
        if work is not None:
            self._bound[key] = work

    def failed(self) -> list[tuple[Key, str]]:
        """Pods that have to be placed anew, since their devices are not theirs or do not become ready."""
        index = self._mirror.cluster.resource_claims
        found: dict[Key, str] = {}
        for key, work in self.pods.items():
            for claim, chosen in work.chosen.items():
                now = index.get(claim)
                if now is None or now.uid != chosen.uid or now.allocation != chosen.allocation:
                    found[key] = f"claim {chosen} got deallocated elsewhere in the meantime"
                elif now.failure is not None:
                    found[key] = f"device binding failed: claim={chosen.name}, {now.failure}"
        return list(found.items())

    def late(self, key: Key) -> str | None:
        """What a pod that waited too long waited for, None if it was not its claims."""
        work = self.pods.get(key)
        if work is None:
            return None
        names = ", ".join(sorted(claim.name for claim in work.chosen.values()))
        return f"device binding timeout: claim={names}"

    # --- answers ------------------------------------------------------------------------------------

    def reserved(self, action: Action, outcome: Outcome) -> tuple[str | None, list[Action]]:
        """Take the answer to a reservation: why the pod cannot be bound, if so, and what is to be done."""
        claim = (action.namespace, action.name)
        uid = self._owed.pop((action.key, action.attempt, claim), None)
        if uid is not None:
            return None, self._give_back_late(action, outcome, uid)
        work = self.pods.get(action.key)
        if work is None or work.attempt != action.attempt:
            return None, []
        work.open.discard(claim)
        return self._why_not(work.chosen[claim], work, outcome), []

    def _why_not(self, chosen: ResourceClaimRecord, work: _Reservation, outcome: Outcome) -> str | None:
        if not outcome.ok:
            return f"add reservation to claim {chosen}: {outcome.message}"
        now = record_of(outcome.decode(ResourceClaim))
        if now.uid != chosen.uid or now.deleting:
            return f"claim {chosen} got deleted in the meantime"
        if now.allocation != chosen.allocation:
            return f"claim {chosen} got deallocated elsewhere in the meantime"
        work.held.add(chosen.key)
        return None

    def _give_back_late(self, action: Action, outcome: Outcome, uid: str) -> list[Action]:
        """The attempt was over before the answer came."""
        if isinstance(action, Patch) and (outcome.ok or outcome.busy):
            return [_returning(action, uid)]
        return self._one_less(action.key, uid)

    def returned(self, action: Action, outcome: Outcome) -> list[Action] | None:
        """Take the answer to a reservation given back; what can be asked now, None to repeat the request."""
        return None if outcome.busy else self._one_less(action.key, _uid(action))

    def _one_less(self, key: Key, uid: str) -> list[Action]:
        self._returns[uid] -= 1
        if not self._returns[uid]:
            del self._returns[uid]
        return self._ask(key) if key in self.pods else []

    # --- the end ------------------------------------------------------------------------------------

    def forget(self, key: Key) -> None:
        """The pod is on its node, or may be; its claims are for those to see to who clean up after pods."""
        self.pods.pop(key, None)
        self._bound.pop(key, None)

    def keys(self) -> set[Key]:
        """The pods whose claims are looked after."""
        return {*self.pods, *self._bound}

    def give_back(self, key: Key) -> list[Action]:
        """The pod is not on its node, and its claims are not to be reserved for it any more."""
        work = self.pods.pop(key, None) or self._bound.pop(key, None)
        if work is None or not work.asked:
            return []
        uid = work.pod.metadata.uid or ""
        self._returns[uid] = self._returns.get(uid, 0) + len(work.chosen)
        self._owed.update({(key, work.attempt, claim): uid for claim in work.open})
        answered = [claim for name, claim in work.chosen.items() if name not in work.open]
        return [_returning(_patch(claim, key, {}, work.attempt), uid) for claim in answered]


def _returning(reservation: Patch, uid: str) -> Patch:
    body = reservation.body if isinstance(reservation.body, dict) else {}
    entry = {"$patch": "delete", "uid": uid}
    body = {**body, "status": {"reservedFor": [entry]}}
    return msgspec.structs.replace(reservation, body=body, purpose=SchedulerPurpose.RETURN)


def _uid(action: Action) -> str:
    body = action.body if isinstance(action, Patch) and isinstance(action.body, dict) else {}
    uid: str = body["status"]["reservedFor"][0]["uid"]
    return uid


def _patch(claim: ResourceClaimRecord, key: Key, entry: RawObject, attempt: int) -> Patch:
    return Patch(
        resource=RESOURCE_CLAIMS,
        key=key,
        at=claim.key,
        body={"metadata": {"uid": claim.uid}, "status": {"reservedFor": [entry]}},
        subresource="status",
        form=STRATEGIC_PATCH,
        purpose=SchedulerPurpose.RESERVATION,
        attempt=attempt,
    )
