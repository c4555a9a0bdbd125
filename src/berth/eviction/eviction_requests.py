"""EvictionRequests (`lifecycle.k8s.io`): asking others to evict a pod, in the order that the pod says.

A request is an object of ours that names a pod.  Whoever responds to it may take as long as it needs; the
object's conditions say what became of it, and to delete it is to withdraw it.  What is not wanted any more is
deleted, whoever made it under our name: a process before us may have left it behind.
"""

from __future__ import annotations

from collections.abc import Callable

from berth.eviction.records import EvictionPurpose
from berth.kube.api_resources import EVICTION_REQUESTS
from berth.kube.objects import EvictionRequest, Pod, RawObject, key_of
from berth.kube.well_known import DELETED, FAILED, TRUE
from berth.machines.contract import Action, Delete, Event

REQUESTER = "berth.dev/controllers"
_EVICTED = "TargetEvicted"
_AGAIN = 5.0  # seconds until a deletion that had no effect is asked for once more
GONE = "the EvictionRequest was withdrawn by somebody else"


class EvictionRequests:
    """The requests of ours that are watched, by the UIDs of their pods."""

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
        """Nothing came of it: not to be waited for any more."""
        self._gone.discard(uid)
        if uid in self._seen:
            self._expired.add(uid)

    def is_evicted(self, uid: str) -> bool:
        return self._condition(uid, _EVICTED) is not None

    def failure(self, uid: str) -> str | None:
        """Why nobody evicts the pod any more, None if somebody may."""
        if uid in self._gone:
            return GONE
        if (failed := self._condition(uid, FAILED)) is not None:
            return f"the EvictionRequest failed: {failed}"
        request = self._seen.get(uid)
        return GONE if request is not None and request.spec.intent == "Withdrawn" else None

    def _condition(self, uid: str, kind: str) -> str | None:
        """What a condition says that holds, None if it does not."""
        request = self._seen.get(uid)
        status = request.status if request is not None else None
        for condition in (status.conditions if status else None) or ():
            if condition.type == kind and condition.status == TRUE:
                return " ".join(filter(None, (condition.reason, condition.message)))
        return None

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
                deletions.append(_deletion(request))
        return deletions, min((when for when in self._asked.values() if when > now), default=None)

    def _is_settled(self, uid: str) -> bool:
        return uid in self._expired or self.is_evicted(uid) or self.failure(uid) is not None


def request_of(pod: Pod) -> RawObject:
    """The request to evict a pod; its name is the same whoever asks under our name."""
    metadata = pod.metadata
    return {
        "apiVersion": EVICTION_REQUESTS.api_version,
        "kind": EVICTION_REQUESTS.kind,
        "metadata": {"name": f"berth-{metadata.uid}", "namespace": metadata.namespace},
        "spec": {
            "target": {"pod": {"name": metadata.name, "uid": metadata.uid}},
            "requester": REQUESTER,
            "intent": "Eviction",
        },
    }


def _deletion(request: EvictionRequest) -> Delete:
    return Delete(
        resource=EVICTION_REQUESTS,
        key=key_of(request.metadata),
        uid=request.metadata.uid,
        purpose=EvictionPurpose.WITHDRAW,
        why="the pod is gone, or need not go",
    )
