"""Whether a recorded history of concurrent clients could have happened one operation after another.

The object is a register with compare-and-set, which is what a Kubernetes object is to its writers.  An
operation takes effect at some moment between its call and its return; one without a known outcome may
take effect at any later moment, or never.  The search is Wing and Gong's, with Lowe's memory of states
already tried.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

ABSENT = ""


@dataclass(frozen=True, slots=True)
class Operation:
    """One call.

    Attributes:
        called: When it was made.
        returned: When its outcome was known; infinite if it never was.
        old: For a read, what was found; for a compare-and-set, what it was to replace.
        new: What it set; None for a read.
        done: Whether a compare-and-set took place; None if nobody knows.
    """

    called: float
    returned: float
    old: str
    new: str | None = None
    done: bool | None = True


def linearizable(history: Sequence[Operation], start: str = ABSENT) -> bool:
    """Whether there is an order in which every outcome is right."""
    operations = sorted(history, key=lambda operation: operation.called)
    everything = (1 << len(operations)) - 1
    tried: set[tuple[int, str]] = set()
    waiting = [(0, start)]
    while waiting:
        taken, state = waiting.pop()
        if (taken, state) in tried:
            continue
        tried.add((taken, state))
        left = [i for i in range(len(operations)) if not taken >> i & 1]
        if taken == everything or all(operations[i].done is None for i in left):
            return True
        first_return = min(operations[i].returned for i in left)
        for i in left:
            if operations[i].called > first_return:
                break
            after = _after(operations[i], state)
            if after is not None:
                waiting.append((taken | 1 << i, after))
            if operations[i].done is None:
                waiting.append((taken | 1 << i, state))  # it never happened
    return False


def _after(operation: Operation, state: str) -> str | None:
    """The state after an operation; None if it cannot have had its outcome in this one."""
    fits = operation.old == state
    if operation.new is None:
        return state if fits else None
    if operation.done is False:
        return state if not fits else None
    return operation.new if fits else None


NEVER = math.inf
