"""Whether a quota has so much left, and what it says of itself afterwards.

The words are upstream's. A quota is its object; what it limits is what its status says (`status.hard`), which
is its spec once somebody has counted what is used.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from berth.kube.amounts.quantity import Quantity
from berth.kube.amounts.resource_lists import (
    ZERO,
    Amounts,
    amounts_in,
    difference,
    masked,
    same,
    shown,
    spelled,
    total,
)
from berth.kube.objects import RawObject
from berth.kube.quota.exclusive import BlockedNodes
from berth.kube.quota.usage import QuotaEvaluator, requirements_of
from berth.kube.well_known import EXCLUSIVE_PENDING


class QuotaError(Exception):
    """What a quota has against an object; the message is upstream's."""


def limits_of(quota: RawObject) -> dict[str, Quantity]:
    """What a quota enforces at the moment."""
    return amounts_in((quota.get("status") or {}).get("hard"))


def used_of(quota: RawObject) -> dict[str, Quantity]:
    return amounts_in((quota.get("status") or {}).get("used"))


def is_about(quota: RawObject, evaluator: QuotaEvaluator, seen: Any) -> bool:  # noqa: ANN401
    """Whether an object that an evaluator has looked at is in all scopes of a quota."""
    return all(evaluator.in_scope(seen, wanted) for wanted in requirements_of(quota.get("spec") or {}))


def change(
    quota: RawObject,
    evaluator: QuotaEvaluator,
    before: Any | None,  # noqa: ANN401
    after: Any | None,  # noqa: ANN401
    now: float,
) -> dict[str, Quantity]:
    """By how much the use of a quota changes if an object that was so becomes so; None: there is none."""
    names = evaluator.matching(limits_of(quota))
    if not names:
        return {}
    new, old = (
        masked(evaluator.usage(seen, now), names)
        if seen is not None and is_about(quota, evaluator, seen)
        else {}
        for seen in (after, before)
    )
    return difference(new, old)


def check_stated(quota: RawObject, evaluator: QuotaEvaluator, seen: Any) -> None:  # noqa: ANN401
    """Raise QuotaError for an object that lacks what a quota limits, and while its usage is not counted."""
    names = evaluator.matching(limits_of(quota))
    if not names or not is_about(quota, evaluator, seen):
        return
    name = quota["metadata"]["name"]
    if missing := evaluator.missing(seen, names):
        raise QuotaError(f"failed quota: {name}: {missing}")
    check_counted(quota, names)


def check_counted(quota: RawObject, names: Iterable[str]) -> None:
    """Raise QuotaError if a quota does not say yet what is used of some resources."""
    if not used_of(quota).keys() >= set(names):
        name = quota["metadata"]["name"]
        raise QuotaError(f"status unknown for quota: {name}, resources: {','.join(sorted(names))}")


def check_room(quota: RawObject, wanted: Amounts) -> None:
    """Raise QuotaError if a quota has not so much left."""
    hard, used = limits_of(quota), used_of(quota)
    more = {name: amount for name, amount in wanted.items() if amount.unscaled > 0 and name in hard}
    over = [name for name, amount in more.items() if used.get(name, ZERO).plus(amount).exceeds(hard[name])]
    if over:
        name = quota["metadata"]["name"]
        asked, taken, limit = (shown(masked(amounts, over)) for amounts in (more, used, hard))
        raise QuotaError(f"exceeded quota: {name}, requested: {asked}, used: {taken}, limited: {limit}")


def charged(quota: RawObject, wanted: Amounts) -> RawObject | None:
    """The quota's new status after a change of what is used; None if nothing changes."""
    used = used_of(quota)
    news = {name: amount for name, amount in wanted.items() if name in used}
    if not news:
        return None
    changed = {name: used[name].plus(amount) for name, amount in news.items()}
    floored = {name: amount if amount.unscaled > 0 else ZERO for name, amount in changed.items()}
    return {**(quota.get("status") or {}), "used": spelled({**used, **floored})}


def counted(
    quota: RawObject,
    contents: Mapping[QuotaEvaluator, Iterable[Any]],
    now: float,
    also: Amounts | None = None,
) -> RawObject | None:
    """The status that a quota should have by its spec and what is in its namespace; None if it has it.

    Pods that should have gone before `now` do not count; `also` is used whatever the contents say.
    """
    spec = quota.get("spec") or {}
    hard = amounts_in(spec.get("hard"))
    known = masked(used_of(quota), hard)
    used: dict[str, Quantity] = {}
    for evaluator, items in contents.items():
        names = evaluator.matching(hard)
        if not names:
            continue
        each = (
            masked(evaluator.usage(seen, now), names) for seen in items if is_about(quota, evaluator, seen)
        )
        used = total((used, dict.fromkeys(names, ZERO), *each))
    used = {**known, **used, **masked(also or {}, hard)}
    before = quota.get("status") or {}
    is_news = (
        not same(limits_of(quota), hard)
        or not same(used_of(quota), used)
        or (bool(hard) and not before.keys() >= {"hard", "used"})
    )
    return {"hard": spelled(hard), "used": spelled(used)} if is_news else None


# --- not seen yet ------------------------------------------------------------------------------------
# Charges of pods that were let in and are not seen yet: whoever counts must not take them back. A webhook
# notes them with the quota, in the write that charges it. They are forgotten once the pod is seen, or after a
# while in which it must have been seen: then somebody else has refused it.

LASTS = 60.0  # seconds: longer than any request and any delay of a watch


def pending_in(quota: RawObject, now: float) -> dict[str, tuple[float, BlockedNodes]]:
    """By the uid of the pod: since when it is charged, and for what; what cannot be read is nothing."""
    text = (quota["metadata"].get("annotations") or {}).get(EXCLUSIVE_PENDING)
    try:
        stated = json.loads(text) if text else {}
        found = {str(uid): (float(at), BlockedNodes(*map(int, has))) for uid, (at, has) in stated.items()}
    except (ValueError, TypeError, AttributeError):
        return {}
    return {uid: each for uid, each in found.items() if now - LASTS < each[0] < now + LASTS}


def noted(pending: dict[str, tuple[float, BlockedNodes]]) -> str | None:
    """As the annotation has it; None if there is nothing to say."""
    if not pending:
        return None
    return json.dumps({uid: [math.floor(at), list(has)] for uid, (at, has) in pending.items()})
