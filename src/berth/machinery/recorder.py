"""Event objects: what `kubectl describe` tells people about an object.

Like upstream's recorder this one keeps quiet after a burst about one object, so that a workload of
thousands does not write thousands of events.
"""

from __future__ import annotations

import hashlib
from typing import Any

from berth.machinery.contract import EVENTS, Action, Create, RawObject, Resource
from berth.machinery.times import stamp

NORMAL, WARNING = "Normal", "Warning"
_BURST = 25
_REFILL = 300.0  # seconds for one more
_KNOWN = 4096


class _RecorderKey:
    def __repr__(self) -> str:
        return "recorder"


class Recorder:
    KEY = _RecorderKey()

    def __init__(self, component: str) -> None:
        self.component = component
        self._pending: list[Action] = []
        self._buckets: dict[str, tuple[float, float]] = {}  # uid -> tokens, when counted
        self._number = 0

    def record(
        self,
        now: float,
        resource: Resource,
        item: Any,  # noqa: ANN401 - a view
        kind: str,
        reason: str,
        message: str,
    ) -> None:
        """Remember to write that something happened to `item`, a view."""
        metadata = item.metadata
        uid = metadata.uid or ""
        if not self._allows(uid, now):
            return
        self._number += 1
        namespace = metadata.namespace or ("" if resource.namespaced else "default")
        tag = hashlib.blake2b(f"{uid}/{now}/{self._number}".encode(), digest_size=8).hexdigest()
        self._pending.append(
            Create(
                resource=EVENTS,
                key=self.KEY,
                namespace=namespace or "default",
                body=self._body(now, resource, metadata, kind, reason, message, tag),
            )
        )

    def _body(
        self,
        now: float,
        resource: Resource,
        metadata: Any,  # noqa: ANN401 - an ObjectMeta view
        kind: str,
        reason: str,
        message: str,
        tag: str,
    ) -> RawObject:
        involved = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "name": metadata.name,
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
        }
        if metadata.namespace:
            involved["namespace"] = metadata.namespace
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{metadata.name}.{tag}", "namespace": metadata.namespace or "default"},
            "involvedObject": {name: value for name, value in involved.items() if value},
            "reason": reason,
            "message": message[:1024],
            "type": kind,
            "count": 1,
            "source": {"component": self.component},
            "reportingComponent": self.component,
            "firstTimestamp": stamp(now),
            "lastTimestamp": stamp(now),
        }

    @property
    def waiting(self) -> bool:
        return bool(self._pending)

    def take(self) -> list[Action]:
        pending, self._pending = self._pending, []
        return pending

    def _allows(self, uid: str, now: float) -> bool:
        tokens, since = self._buckets.pop(uid, (float(_BURST), now))
        tokens = min(tokens + (now - since) / _REFILL, float(_BURST))
        allowed = tokens >= 1
        self._buckets[uid] = (tokens - 1 if allowed else tokens, now)
        if len(self._buckets) > _KNOWN:
            del self._buckets[next(iter(self._buckets))]
        return allowed
