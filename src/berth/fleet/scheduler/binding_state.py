"""What the scheduler knows of one binding: a record with a phase, and the transitions between phases.

`PENDING` is between any two of the others, except that a write ends in `SETTLED` or `UNSCHEDULABLE` when
the server takes it and in `CONFIRMING` when nobody answers.  Two things are beside the phase: the condition
that is still to be written to the status, and a reason to decide whatever the binding says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from berth.fleet.scheduler.patches import ScheduledCondition
from berth.fleet.state.terms import WorkloadRule
from berth.kube.karmada import Binding, TargetCluster
from berth.kube.objects import Key, Lease
from berth.machines.contract import Purpose, expect
from berth.machines.rates import Backoff


class BindingPhase(Enum):
    """Where a binding is on its way; docs/design/fleet.md has the table."""

    PENDING = "nothing was decided about the binding as it is now"
    FOLLOWING = "a peer that it would go with is on its way"
    CLAIMING = "it is about to found a group, and asks for the Lease of the group"
    WRITING = "its clusters are being written, and count already"
    CONFIRMING = "nobody answered that write, which counts until the binding was looked up"
    UNSCHEDULABLE = "it fits nowhere"
    SETTLED = "it is where it was decided to be"


class BindingPurpose(Purpose):
    """What a request for a binding is about; there is one at a time."""

    CLAIM = "claim"
    WRITE = "write"
    LOOKUP = "lookup"
    STATUS = "status"


PENDING, FOLLOWING, CLAIMING, WRITING, CONFIRMING, UNSCHEDULABLE, SETTLED = BindingPhase
_DECIDED = (UNSCHEDULABLE, SETTLED)
_AFTER: dict[BindingPhase, tuple[BindingPhase, ...]] = {
    PENDING: (FOLLOWING, CLAIMING, WRITING, *_DECIDED),
    FOLLOWING: (PENDING,),
    CLAIMING: (PENDING,),
    WRITING: (PENDING, CONFIRMING, *_DECIDED),
    CONFIRMING: (PENDING,),
    UNSCHEDULABLE: (PENDING,),
    SETTLED: (PENDING,),
}
# Karmada's backoff: a failed attempt is repeated after 1 s, then 2 s, up to 10 s.
_BACKOFF = Backoff(first=1.0, longest=10.0)


class ClaimStep(Enum):
    """The steps of a claim: the request that is under way or comes next."""

    CREATE = "create the Lease"
    READ = "read the Lease of somebody else"
    LOOK = "look at the binding that the Lease is for"
    FENCE = "change that binding, so that nobody can place it by what was decided before"
    TAKE = "take the Lease over"
    WAIT = "wait, and read it again"


@dataclass(slots=True)
class GroupClaim:
    """A claim that is neither granted nor refused yet.

    Attributes:
        version: The binding's version when the Lease was last written; a grant is for this version alone.
        lease: The Lease of another claimant.
        late: The binding that the other Lease is for, which does not show where the group is.
        problem: Why the server refuses the Lease.
    """

    rule: WorkloadRule
    version: str | None
    step: ClaimStep = ClaimStep.CREATE
    lease: Lease | None = None
    late: Binding | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class PlacementWrite:
    """A decision on its way to the server.

    Attributes:
        kind: The kind of scheduling, for metrics.
        condition: What the status has to say once it is written.
        follows: Peers that have to move after it.
    """

    kind: str
    condition: ScheduledCondition
    targets: Sequence[TargetCluster]
    since: float
    follows: tuple[Key, ...] = ()


@dataclass(slots=True)
class BindingRecord:
    """One binding.

    Attributes:
        request: The number of the request under way; 0 if there is none.
        forced: Why to decide, whatever the binding says; empty if there is no such reason.
        retry_at: When to decide once more, whatever is said meanwhile.
        patience_until: Until when to wait for its workload to be seen; None if there is no need.
        failures: Attempts in a row that came to nothing.
        condition: What its status still has to say.
        claim: The claim under way, while `CLAIMING`.
        granted: The names of the claims it has, and the version of the binding each is for.
        write: While `WRITING`.
        followers: Bindings that wait to know where it is put.
    """

    key: Key
    phase: BindingPhase = PENDING
    request: int = 0
    forced: str = ""
    retry_at: float | None = None
    patience_until: float | None = None
    failures: int = 0
    condition: ScheduledCondition | None = None
    claim: GroupClaim | None = None
    granted: dict[str, str | None] = field(default_factory=dict)
    write: PlacementWrite | None = None
    followers: dict[Key, None] = field(default_factory=dict)

    @property
    def is_at_rest(self) -> bool:
        """Whether there is a decision on the binding as it is now, and no time to make another."""
        return self.phase in _DECIDED and not self.forced and self.retry_at is None

    @property
    def is_assumed(self) -> bool:
        """Whether it counts where it was decided to be, although the server has not confirmed that."""
        return self.phase in (WRITING, CONFIRMING)

    def next_delay(self) -> float:
        """How long to wait after one more attempt that came to nothing."""
        self.failures += 1
        return _BACKOFF.after(self.failures)

    # --- transitions ------------------------------------------------------------------

    def reconsider(self, reason: str = "") -> None:
        """The binding, or something that matters to it, may have changed; a reason forces a new decision."""
        self.forced = reason or self.forced
        if self.phase in _DECIDED:
            self._enter(PENDING)

    def begin_decision(self) -> None:
        """Decide now: what forced or timed the decision is done with."""
        self.forced, self.retry_at = "", None
        if self.phase is not PENDING:
            self._enter(PENDING)

    def follow(self, reason: str) -> None:
        """Wait until it is known where a peer is, and decide then."""
        self.forced = reason
        self._enter(FOLLOWING)

    def begin_claim(self, claim: GroupClaim, reason: str) -> None:
        self.forced, self.claim = reason, claim
        self._enter(CLAIMING)

    def grant_claim(self, name: str) -> None:
        """The Lease was granted; decide anew."""
        if self.claim is not None:
            self.granted[name] = self.claim.version
        self.end_claim()

    def end_claim(self) -> None:
        if self.phase is CLAIMING:
            self.claim = None
            self._enter(PENDING)

    def begin_write(self, write: PlacementWrite) -> None:
        self.write = write
        self._enter(WRITING)

    def end_write(self, *, current: bool) -> None:
        """The server accepted the write; that settles the binding unless it has changed meanwhile."""
        write, self.write = self.write, None
        if write is None:
            raise AssertionError(self)
        self.condition = write.condition
        decided = SETTLED if write.condition.ok else UNSCHEDULABLE
        self._enter(decided if current else PENDING)

    def lose_write(self) -> None:
        """There was no answer: the write may have been carried out."""
        self.write = None
        self._enter(CONFIRMING)

    def refuse_write(self) -> None:
        """The server refused the write: decide again, by what is known then."""
        self.write, self.forced = None, "the last decision could not be written"
        self._enter(PENDING)

    def confirm(self) -> None:
        """The server's state is known again after a write without an answer."""
        self.forced = "the last decision may not have been written"
        self._enter(PENDING)

    def settle(self) -> None:
        self._enter(SETTLED)

    def fit_nowhere(self) -> None:
        self._enter(UNSCHEDULABLE)

    def _enter(self, phase: BindingPhase) -> None:
        if phase not in _AFTER[self.phase]:
            raise AssertionError(f"{self.key} cannot go from {self.phase.name} to {phase.name}")
        self.phase = phase

    def validate(self) -> None:
        """Check that what is known fits the phase."""
        expect((self.phase is CLAIMING) == (self.claim is not None), "it is claiming without a claim", self)
        expect((self.phase is WRITING) == (self.write is not None), "it is writing nothing", self)
        expect(self.phase is not WRITING or self.request > 0, "its write is not under way", self)
        expect(self.phase is not FOLLOWING or bool(self.forced), "it follows for no reason", self)
