"""The steps of claiming a group before its first member is placed; see `claims`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from berth.fleet.scheduler import claim_requests, patches
from berth.kube.api_resources import LEASES
from berth.kube.karmada import Binding
from berth.kube.objects import Lease
from berth.machines.contract import Action, Get, Key, Outcome, Patch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from berth.fleet.scheduler.fleet_cache import FleetCache
    from berth.fleet.state.terms import WorkloadRule

CREATE, READ, LOOK, FENCE, TAKE, WAIT = "create", "read", "look", "fence", "take", "wait"


@dataclass(slots=True)
class _Claim:
    """Attributes:
    step: What is asked, or has to be asked next.
    version: Of the binding, when the Lease was last written: what is granted is so for this version only.
    held: The Lease of somebody else.
    late: The binding it was made for, which does not show where the group is.
    problem: What the server has against it.
    """

    rule: WorkloadRule
    version: str | None
    step: str = CREATE
    held: Lease | None = None
    late: Binding = field(default_factory=Binding)
    problem: str = ""


class GroupClaims:
    """Which bindings are about to found which groups.

    Attributes:
        released: Bindings to look at again, such as those that waited for the first of their group.
    """

    def __init__(self, keeping: FleetCache, identity: str) -> None:
        self._keeping = keeping
        self._identity = identity
        self._claims: dict[Key, _Claim] = {}
        self._granted: dict[Key, dict[str, str | None]] = {}  # claims and the versions they are for
        self._by_name: dict[str, Key] = {}
        self._queued: dict[str, dict[Key, None]] = {}
        self.released: list[Key] = []

    def busy(self, key: Key) -> bool:
        """Whether a claim of this binding is not decided yet."""
        return key in self._claims

    def problem(self, key: Key) -> str:
        """Why a claim cannot even be asked for, in the server's words."""
        claim = self._claims.get(key)
        return claim.problem if claim is not None else ""

    def others(self, key: Key) -> bool:
        """Whether another binding of ours is just founding a group that this one belongs to."""
        entry = self._keeping.fleet.index.get(key)
        if entry is None or not self._by_name:
            return False
        for name in map(claim_requests.claim_name, entry.rules.affinity):
            if self._by_name.get(name, key) != key:
                self._queued.setdefault(name, {})[key] = None
                return True
        return False

    def begin(self, key: Key, binding: Binding, rules: Sequence[WorkloadRule], now: float) -> Action | None:
        """The claim to make before the binding may be placed; None if there is none to make."""
        version = binding.metadata.resource_version
        granted = self._granted.get(key, {})
        for rule in rules:
            name = claim_requests.claim_name(rule)
            if name not in granted or granted[name] != version:
                self._claims[key] = _Claim(rule, version)
                self._by_name[name] = key
                return claim_requests.create(key, binding, rule, self._identity, now)
        return None

    def next(self, key: Key, now: float) -> Action | None:
        """The next request of a claim under way."""
        claim, binding = self._claims[key], self._keeping.bindings[key]
        match claim.step:
            case "read" | "wait":
                claim.step = READ
                return claim_requests.read(key, claim.rule)
            case "look" if claim.held is not None:
                namespace, name = other = claim_requests.held_by(claim.held)
                return Get(resource=patches.resource_of(other), key=key, namespace=namespace, name=name)
            case "fence":
                return claim_requests.fence(key, claim.late, self._identity, now)
            case "take" if claim.held is not None:
                claim.version = binding.metadata.resource_version
                return claim_requests.take_over(key, binding, claim.rule, self._identity, claim.held, now)
        claim.step = CREATE
        claim.version = binding.metadata.resource_version
        return claim_requests.create(key, binding, claim.rule, self._identity, now)

    def answered(self, key: Key, action: Action, outcome: Outcome) -> bool:
        """Learn what became of a request; False if it was none of ours."""
        claim = self._claims.get(key)
        if claim is None:
            return action.resource == LEASES or isinstance(action, Get) or _is_fence(key, action)
        claim.problem = _problem(outcome)
        match claim.step:
            case "create" | "take":
                if outcome.ok:
                    self._grant(key)
                elif outcome.exists or outcome.conflict:
                    claim.step = READ
                else:
                    claim.step = WAIT
            case "read":
                self._read(key, claim, outcome)
            case "look":
                self._looked(key, claim, outcome)
            case "fence":
                self._fenced(claim, outcome)
        return True

    def again_at(self, key: Key, at: float) -> float:
        claim = self._claims.get(key)
        return at + claim_requests.RETRY if claim is not None and claim.step == WAIT else at

    def forget(self, key: Key) -> None:
        claim = self._claims.pop(key, None)
        names = set(self._granted.pop(key, ()))
        if claim is not None:
            names.add(claim_requests.claim_name(claim.rule))
        for name in names:
            if self._by_name.get(name) == key:
                del self._by_name[name]
                self.released += self._queued.pop(name, ())

    # --- inside -------------------------------------------------------------------

    def _grant(self, key: Key) -> None:
        claim = self._claims.pop(key)
        self._granted.setdefault(key, {})[claim_requests.claim_name(claim.rule)] = claim.version

    def _read(self, key: Key, claim: _Claim, outcome: Outcome) -> None:
        """Somebody claimed the group before."""
        if not outcome.ok:
            claim.step = CREATE if outcome.missing else WAIT
            return
        claim.held = outcome.decode(Lease)
        if claim_requests.held_by(claim.held) == key:
            claim.step = TAKE  # by us; somebody may be about to take it over
        elif not self._keeping.fleet.founds(key, claim.rule):
            self.forget(key)  # it is seen now where the group is
        elif claim_requests.expired(claim.held, outcome.at):
            claim.step = LOOK
        else:
            claim.step = WAIT

    def _looked(self, key: Key, claim: _Claim, outcome: Outcome) -> None:
        """The claim is old: is its binding placed with the group, though it was not seen yet?"""
        other = claim_requests.held_by(claim.held) if claim.held is not None else ("", "")
        if outcome.missing:
            claim.step = TAKE
        elif not outcome.ok:
            claim.step = WAIT
        else:
            binding = outcome.decode(Binding)
            if self._keeping.see(other, binding):
                self.released.append(other)  # if it changed, nobody else will say so
            if self._keeping.fleet.founds(key, claim.rule):
                claim.late = binding
                claim.step = FENCE
            else:
                self.forget(key)

    def _fenced(self, claim: _Claim, outcome: Outcome) -> None:
        """Whoever claimed the group before can no longer write what was decided before."""
        if outcome.ok or outcome.missing:
            claim.step = TAKE
        else:
            claim.step = READ if outcome.conflict else WAIT


def _is_fence(key: Key, action: Action) -> bool:
    return isinstance(action, Patch) and (action.namespace, action.name) != key


def _problem(outcome: Outcome) -> str:
    """What no mere waiting will change."""
    expected = outcome.ok or outcome.exists or outcome.conflict or outcome.missing
    busy = outcome.code in (0, 429) or outcome.code >= 500
    return "" if expected or busy else outcome.message
