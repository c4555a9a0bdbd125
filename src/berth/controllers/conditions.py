"""Status conditions: changed only where something changed, with their times kept."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from berth.kube.objects import Condition, RawObject
from berth.kube.times import stamp


class Conditions:
    """The conditions of one object while its status is worked out."""

    def __init__(self, given: Iterable[Condition] | None, now: float, *, updated: bool = False) -> None:
        self._conditions = {c.type or "": msgspec.to_builtins(c) for c in given or ()}
        self._now = stamp(now)
        self._updated = updated  # some kinds keep a lastUpdateTime

    def get(self, kind: str) -> RawObject | None:
        return self._conditions.get(kind)

    def set(self, kind: str, status: str, reason: str, message: str = "") -> None:
        known = self._conditions.get(kind)
        if known and known.get("status") == status and known.get("reason") == reason:
            if known.get("message", "") != message and not self._updated:
                self._conditions[kind] = {**known, "message": message}
            elif known.get("message", "") != message:
                self._conditions[kind] = {**known, "message": message, "lastUpdateTime": self._now}
            return
        same = known is not None and known.get("status") == status
        entry: RawObject = {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": known["lastTransitionTime"]
            if same and known and "lastTransitionTime" in known
            else self._now,
        }
        if self._updated:
            entry["lastUpdateTime"] = self._now
        self._conditions[kind] = entry

    def drop(self, kind: str) -> None:
        self._conditions.pop(kind, None)

    def list(self) -> list[RawObject]:
        return list(self._conditions.values())
