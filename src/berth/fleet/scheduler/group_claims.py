"""The steps of claiming a group before its first member is placed; `claim_requests` says why and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from berth.fleet.scheduler import claim_requests, patches
from berth.fleet.scheduler.binding_state import BindingRecord
from berth.fleet.scheduler.claim_requests import ClaimStep, GroupClaim, claim_name
from berth.fleet.scheduler.fleet_cache import FleetCache
from berth.fleet.state.terms import WorkloadRule
from berth.kube.karmada import Binding
from berth.kube.objects import Key, Lease
from berth.machines.contract import Action, Get, Outcome


class GroupClaims:
    """Which bindings are about to found which groups.

    Attributes:
        released: Bindings to look at again, such as those that waited for the first of their group.
    """

    def __init__(self, cache: FleetCache, identity: str) -> None:
        self._cache = cache
        self._identity = identity
        self._founders: dict[str, Key] = {}  # by the name of the claim
        self._queued: dict[str, dict[Key, None]] = {}
        self.released: list[Key] = []

    def is_founded_by_another(self, key: Key) -> bool:
        """Whether another binding of ours is just founding a group that this one belongs to."""
        entry = self._cache.fleet.index.get(key)
        if entry is None or not self._founders:
            return False
        for name in map(claim_name, entry.rules.affinity):
            if self._founders.get(name, key) != key:
                self._queued.setdefault(name, {})[key] = None
                return True
        return False

    def needed(
        self, record: BindingRecord, binding: Binding, rules: Sequence[WorkloadRule]
    ) -> GroupClaim | None:
        """The claim to make before the binding may be placed; None if there is none to make."""
        version = binding.metadata.resource_version
        for rule in rules:
            name = claim_name(rule)
            if name not in record.granted or record.granted[name] != version:
                self._founders[name] = record.key
                return GroupClaim(rule, version)
        return None

    def next(self, key: Key, claim: GroupClaim, binding: Binding, now: float) -> Action:
        """The next request of a claim under way."""
        match claim.step:
            case ClaimStep.READ | ClaimStep.WAIT:
                claim.step = ClaimStep.READ
                return claim_requests.read(key, claim.rule)
            case ClaimStep.LOOK if claim.lease is not None:
                other = claim_requests.holder_of(claim.lease)
                return Get(resource=patches.resource_of(other), key=key, at=other)
            case ClaimStep.FENCE if claim.late is not None:
                return claim_requests.fence(key, claim.late, self._identity, now)
        claim.version = binding.metadata.resource_version
        if claim.step is ClaimStep.TAKE and claim.lease is not None:
            return claim_requests.take_over(key, binding, claim.rule, self._identity, claim.lease, now)
        claim.step = ClaimStep.CREATE
        return claim_requests.create(key, binding, claim.rule, self._identity, now)

    def answered(self, record: BindingRecord, outcome: Outcome) -> None:
        """Learn what became of a request, unless the claim was given up meanwhile."""
        claim = record.claim
        if claim is None:
            return
        claim.problem = _problem(outcome)
        match claim.step:
            case ClaimStep.CREATE | ClaimStep.TAKE:
                if outcome.ok:
                    record.grant_claim(claim_name(claim.rule))
                elif outcome.exists or outcome.conflict:
                    claim.step = ClaimStep.READ
                else:
                    claim.step = ClaimStep.WAIT
            case ClaimStep.READ:
                self._read(record, claim, outcome)
            case ClaimStep.LOOK:
                self._looked(record, claim, outcome)
            case ClaimStep.FENCE if outcome.ok or outcome.missing:
                claim.step = ClaimStep.TAKE  # who claimed before cannot write what was decided before
            case ClaimStep.FENCE:
                claim.step = ClaimStep.READ if outcome.conflict else ClaimStep.WAIT

    def forget(self, record: BindingRecord) -> None:
        """Give up the claims of a binding, granted or not: others may found its groups."""
        names = set(record.granted)
        if record.claim is not None:
            names.add(claim_name(record.claim.rule))
        record.granted.clear()
        record.end_claim()
        for name in names:
            if self._founders.get(name) == record.key:
                del self._founders[name]
                self.released += self._queued.pop(name, ())

    def validate(self, records: Mapping[Key, BindingRecord]) -> None:
        """Check that whoever is founding a group has its claim, or asks for it."""
        for name, key in self._founders.items():
            record = records[key]
            if name not in record.granted and (record.claim is None or claim_name(record.claim.rule) != name):
                raise AssertionError(f"{key} is not founding {name}")

    # --- inside -------------------------------------------------------------------

    def _read(self, record: BindingRecord, claim: GroupClaim, outcome: Outcome) -> None:
        """Somebody claimed the group before."""
        if not outcome.ok:
            claim.step = ClaimStep.CREATE if outcome.missing else ClaimStep.WAIT
            return
        claim.lease = outcome.decode(Lease)
        if claim_requests.holder_of(claim.lease) == record.key:
            claim.step = ClaimStep.TAKE  # by us; somebody may be about to take it over
        elif not self._cache.fleet.founds(record.key, claim.rule):
            self.forget(record)  # it is seen now where the group is
        else:
            claim.step = ClaimStep.LOOK

    def _looked(self, record: BindingRecord, claim: GroupClaim, outcome: Outcome) -> None:
        """Is the claim's binding placed with the group, though it was not seen yet, or can it still be?"""
        lease = claim.lease
        if lease is None:
            raise AssertionError(record)
        other = claim_requests.holder_of(lease)
        if outcome.missing:
            claim.step = ClaimStep.TAKE
        elif not outcome.ok:
            claim.step = ClaimStep.WAIT
        else:
            known, binding = self._cache.bindings.get(other), outcome.decode(Binding)
            fresh = known is None or known.metadata.generation != binding.metadata.generation
            if self._cache.see(other, binding) and fresh:
                self.released.append(other)  # nobody else will say so
            if not self._cache.fleet.founds(record.key, claim.rule):
                self.forget(record)
            elif claim_requests.is_spent(lease, binding):
                claim.step = ClaimStep.TAKE
            elif claim_requests.expired(lease, outcome.at):
                claim.late = binding
                claim.step = ClaimStep.FENCE
            else:
                claim.step = ClaimStep.WAIT


def _problem(outcome: Outcome) -> str:
    """What no mere waiting will change."""
    expected = outcome.ok or outcome.exists or outcome.conflict or outcome.missing
    busy = outcome.code in (0, 429) or outcome.code >= 500
    return "" if expected or busy else outcome.message
