"""Charges of pods that were let in and are not seen yet: whoever counts must not take them back.

A webhook notes them with the quota, in the write that charges it. They are forgotten once the pod is seen, or
after a while in which it must have been seen: then somebody else has refused it.
"""

from __future__ import annotations

import json
import math

from berth.kube.objects import RawObject
from berth.kube.quota.exclusive import Blocked

PENDING = "berth.dev/exclusive-pending"
LASTS = 60.0  # seconds: longer than any request and any delay of a watch


def pending_in(quota: RawObject, now: float) -> dict[str, tuple[float, Blocked]]:
    """By the uid of the pod: since when it is charged, and for what; what cannot be read is nothing."""
    text = (quota["metadata"].get("annotations") or {}).get(PENDING)
    try:
        stated = json.loads(text) if text else {}
        found = {str(uid): (float(at), Blocked(*map(int, has))) for uid, (at, has) in stated.items()}
    except (ValueError, TypeError, AttributeError):
        return {}
    return {uid: each for uid, each in found.items() if now - LASTS < each[0] < now + LASTS}


def noted(pending: dict[str, tuple[float, Blocked]]) -> str | None:
    """As the annotation has it; None if there is nothing to say."""
    return (
        json.dumps({uid: [math.floor(at), list(has)] for uid, (at, has) in pending.items()})
        if pending
        else None
    )
