"""What is known of a group that may be rebalanced: a record with a phase, and the transitions between phases.

| phase               | transition | next      | when                                                |
|---------------------|------------|-----------|-----------------------------------------------------|
| `RESTING`           | `want`     | `WAITING` | a pod of it would be better off elsewhere           |
| `WAITING`           | `choose`   | `CHOSEN`  | its turn has come                                   |
| `CHOSEN`, `MOVING`  | `send`     | `MOVING`  | the eviction is about to be sent, or once more      |
| `MOVING`            | `lose`     | `CHOSEN`  | the pod did not go for all that                     |
| `MOVING`            | `land`     | `LANDED`  | the replacement has a node                          |
| `MOVING`, `LANDED`  | `settle`   | `RESTING` | all its pods are Ready, or it is another group soon |
| `WAITING`, `CHOSEN` | `rest`     | `RESTING` | nobody of it is to move any more, or not now        |
| any                 | `forget`   |           | the group is gone, or is not to be moved            |

Whose turn it is goes round, as a plan of all groups has it.  A turn ends when the replacement has a node: so
each move is judged by where the last one went, and what is done is what was planned.  Nobody is waited for
longer than a while: whoever is held up, by a rate, a halt or a container that does not start, may go later,
and is not in the way of the others until then.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum

from berth.engine.execution.rebalancing import Move
from berth.kube.objects import Key
from berth.machines.contract import expect

PATIENCE = 60.0  # for whoever has the turn, or is next and not Ready yet


class SpreadPhase(Enum):
    """How far a group is with its next move."""

    RESTING = "nobody of it is to move"
    WAITING = "a pod of it is to move when its turn comes"
    CHOSEN = "the pod may move now"
    MOVING = "its eviction was sent, and the replacement has no node yet"
    LANDED = "the replacement has a node, and is not Ready yet"


RESTING, WAITING, CHOSEN, MOVING, LANDED = SpreadPhase
_HAVE_A_MOVE = frozenset({WAITING, CHOSEN})
_HAVE_A_TURN = frozenset({CHOSEN, MOVING})
_UNDER_WAY = frozenset({MOVING, LANDED})


@dataclass(frozen=True, slots=True)
class SentMove:
    """A move whose eviction was sent."""

    move: Move
    uid: str  # of the pod that was to go
    at: float
    known: frozenset[str]  # the uids of the pods that the group had


@dataclass(slots=True, eq=False)
class SpreadRecord:
    """What is known of one group that may be moved."""

    key: Key
    phase: SpreadPhase = RESTING
    move: Move | None = None  # what is wanted; of one that is `MOVING`, until the group is looked at again
    since: float = 0.0  # from when on it is wanted
    planned: int = 0  # how many moves it takes, this one included, if all others stay
    stays_because: str = ""  # why it has no move though it is uneven; empty if there is nothing to say
    chosen_at: float = 0.0  # when its turn came
    sent: SentMove | None = None  # what is under way, while it is `MOVING` or `LANDED`
    asked: bool = False  # it had its chance since the last replacement got a node, and had nobody to move


class SpreadRecords:
    """The records, and whose turn it is; nobody else changes phases."""

    def __init__(self) -> None:
        self.by_key: dict[Key, SpreadRecord] = {}  # all of them
        # Who may move now, in the order in which they were chosen; the last of them has the turn.
        self.chosen: dict[Key, SpreadRecord] = {}
        self.under_way: dict[Key, SpreadRecord] = {}  # who has sent a pod away, and is not complete again
        self.replaced = 0.0  # when a replacement last got a node
        self.revision = 0  # grows when others than before may move
        self._last: Key | None = None

    def of(self, key: Key) -> SpreadRecord:
        return self.by_key.setdefault(key, SpreadRecord(key))

    def forget(self, key: Key) -> None:
        """A group is gone, or is not to be moved."""
        record = self.by_key.pop(key, None)
        if record is not None:
            self._to(record, RESTING, frozenset(SpreadPhase))

    # --- transitions --------------------------------------------------------------------------------

    def want(self, record: SpreadRecord, move: Move, planned: int, now: float) -> None:
        """A pod should move, or another one than before."""
        record.move, record.since, record.planned, record.asked = move, now, planned, False
        if record.phase is RESTING:
            self._to(record, WAITING, {RESTING})
        self.revision += record.phase is CHOSEN

    def choose(self, record: SpreadRecord, now: float) -> None:
        self._last, record.chosen_at = record.key, now
        self._to(record, CHOSEN, {WAITING})

    def send(self, record: SpreadRecord, sent: SentMove) -> None:
        """The eviction is about to be sent; one that was not taken is sent again."""
        record.sent = sent
        self._to(record, MOVING, _HAVE_A_TURN)

    def lose(self, record: SpreadRecord) -> None:
        """The pod is still there, and does not go: the request was refused, or lost."""
        record.sent = None
        self._to(record, CHOSEN, {MOVING})

    def land(self, record: SpreadRecord, now: float) -> None:
        """The replacement has a node: all that had nobody to move may have somebody now."""
        self.replaced = now
        for each in self.by_key.values():
            each.asked = False
        self._to(record, LANDED, {MOVING})

    def settle(self, record: SpreadRecord) -> None:
        record.move, record.planned, record.sent = None, 0, None
        self._to(record, RESTING, _UNDER_WAY)

    def rest(self, record: SpreadRecord) -> None:
        record.move, record.planned = None, 0
        if record.phase is not RESTING:
            self._to(record, RESTING, _HAVE_A_MOVE)

    def _to(self, record: SpreadRecord, phase: SpreadPhase, after: AbstractSet[SpreadPhase]) -> None:
        expect(record.phase in after, f"{record.key} cannot go from {record.phase.name} to {phase.name}")
        self.revision += (record.phase in _HAVE_A_TURN) != (phase in _HAVE_A_TURN)
        record.phase = phase
        for index, phases in ((self.chosen, _HAVE_A_TURN), (self.under_way, _UNDER_WAY)):
            if phase in phases:
                index[record.key] = record
            else:
                index.pop(record.key, None)

    # --- whose turn it is ---------------------------------------------------------------------------

    def in_order(self, records: Iterable[SpreadRecord]) -> list[SpreadRecord]:
        """Those that are to be asked, the next one first."""
        ordered = sorted((each for each in records if not each.asked), key=lambda each: each.key)
        start = bisect_right(ordered, self._last, key=lambda each: each.key) if self._last is not None else 0
        return [*ordered[start:], *ordered[:start]]

    def taken_until(self, now: float) -> float | None:
        """Until when somebody has the turn; None if it is free."""
        last = next(reversed(self.chosen.values()), None)
        until = last.chosen_at + PATIENCE if last is not None else now
        return until if now < until else None

    def begin_anew(self) -> None:
        """Nobody has anybody to move: whose turn it was does not matter any more."""
        self._last = None

    # --- proof --------------------------------------------------------------------------------------

    def validate(self) -> None:
        """Check that what is known of every group fits its phase, and that the indexes know the same."""
        for key, record in self.by_key.items():
            phase = record.phase
            places = {
                "those that may move": (self.chosen.get(key) is record) != (phase in _HAVE_A_TURN),
                "those under way": (self.under_way.get(key) is record) != (phase in _UNDER_WAY),
                "what was sent": (record.sent is not None) != (phase in _UNDER_WAY),
                "its move": phase is not MOVING and (record.move is not None) != (phase in _HAVE_A_MOVE),
                "its plan": (record.planned > 0) != (record.move is not None),
                "why it stays": record.move is not None and bool(record.stays_because),
                "its chance": record.asked and phase not in (RESTING, LANDED),
            }
            for name, wrong in places.items():
                expect(not wrong, f"{key} is {phase.name}, but not so by {name}", record)
        known = self.chosen.keys() | self.under_way.keys()
        expect(known <= self.by_key.keys(), "who is forgotten is forgotten everywhere", known)
