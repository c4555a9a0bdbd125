"""Who places the first member of a group: one scheduler of several, by a Lease.

Two schedulers may each see a group of which nobody is placed, and each put a member on a cluster of
its own choice.  So whoever is about to found a group creates a Lease that is named after it, which
only one can do; the others wait until they see where it went.  A claim is good for one version of the
binding, which the Lease names: once the binding is another, as after it was placed, nothing can be
written by that claim any more, and it may be taken over at once.  One whose binding was not touched in
time may be taken over, too.  Its holder may only be slow, so the one that takes over first changes that
binding: a write that was decided on before is refused then, because it names an older version.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from berth.fleet.scheduler.binding_state import BindingRecord, ClaimStep, GroupClaim
from berth.fleet.scheduler.fleet_cache import FleetCache
from berth.fleet.state.index import spelled
from berth.fleet.state.terms import WorkloadRule
from berth.kube.api_resources import LEASES, RESOURCE_BINDINGS
from berth.kube.karmada import Binding
from berth.kube.objects import Key, Lease, RawObject, key_of
from berth.kube.propagation.bindings import binding_resource
from berth.kube.times import micro_stamp, seconds
from berth.kube.well_known import CLAIM_TAKEN_OVER, CLAIMED_VERSION, SYSTEM_NAMESPACE, WORKLOAD_GROUP
from berth.machines.contract import Action, Create, Get, Outcome, Patch, Update, expect
from berth.machines.requests import new_object

CLAIM_SECONDS = 15
RETRY = 1.0  # seconds between two looks at a group that somebody else is founding


def claim_name(rule: WorkloadRule) -> str:
    """The name of a group's Lease, the same for every scheduler and every member."""
    named = repr((sorted(rule.namespaces), str(rule.namespace_selector), str(rule.selector), rule.topology))
    return f"berth-fleet-{hashlib.sha256(named.encode()).hexdigest()[:20]}"


def home_of(rule: WorkloadRule) -> str:
    return min(rule.namespaces, default="") or SYSTEM_NAMESPACE


def expired(lease: Lease, now: float) -> bool:
    since = lease.spec.renew_time
    return since is None or now - seconds(since) > CLAIM_SECONDS


def is_spent(lease: Lease, holder: Binding) -> bool:
    """Whether the binding has changed since the claim, so that nothing can be written by it any more."""
    version = (lease.metadata.annotations or {}).get(CLAIMED_VERSION)
    return version is not None and version != holder.metadata.resource_version


def holder_of(lease: Lease) -> Key:
    """The binding a claim was made for."""
    named = (lease.spec.holder_identity or "").partition(" by ")[0]
    namespace, _, name = named.rpartition("/")
    return namespace, name


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
        if not self._founders:
            return False
        for name in map(claim_name, self._cache.fleet.known(key).entry.rules.affinity):
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
        rule, at = claim.rule, (home_of(claim.rule), claim_name(claim.rule))
        match claim.step:
            case ClaimStep.READ | ClaimStep.WAIT:
                claim.step = ClaimStep.READ
                return Get(resource=LEASES, key=key, at=at)
            case ClaimStep.LOOK if claim.lease is not None:
                other = holder_of(claim.lease)
                return Get(resource=binding_resource(other), key=key, at=other)
            case ClaimStep.FENCE if claim.late is not None:
                return self._fence(key, claim.late, now)
        claim.version = binding.metadata.resource_version
        body = self._lease(key, binding, rule, now)
        if claim.step is ClaimStep.TAKE and claim.lease is not None:
            body["metadata"]["resourceVersion"] = claim.lease.metadata.resource_version
            why = f"take over the claim of {rule} for {spelled(key)}"
            return Update(resource=LEASES, key=key, at=at, body=body, why=why)
        claim.step = ClaimStep.CREATE
        why = f"claim {rule} for {spelled(key)}"
        return Create(resource=LEASES, key=key, at=(at[0], ""), body=body, why=why)

    def _fence(self, key: Key, late: Binding, now: float) -> Patch:
        """Change the binding that was to found the group, in this version only, so that late writes fail."""
        at = key_of(late.metadata)
        said = {CLAIM_TAKEN_OVER: f"{spelled(key)} by {self._identity} at {micro_stamp(now)}"}
        body = {"metadata": {"resourceVersion": late.metadata.resource_version, "annotations": said}}
        why = f"take over the claim of {spelled(at)}"
        return Patch(resource=binding_resource(at), key=key, at=at, body=body, why=why)

    def _lease(self, key: Key, binding: Binding, rule: WorkloadRule, now: float) -> RawObject:
        metadata: RawObject = {
            "name": claim_name(rule),
            "namespace": home_of(rule),
            "annotations": {WORKLOAD_GROUP: str(rule)},
        }
        if binding.metadata.resource_version:
            metadata["annotations"][CLAIMED_VERSION] = binding.metadata.resource_version
        if binding.metadata.uid and home_of(rule) == key[0]:
            # The claim goes with the binding; by then others of the group show where it is.
            kind = {"apiVersion": RESOURCE_BINDINGS.api_version, "kind": RESOURCE_BINDINGS.kind}
            metadata["ownerReferences"] = [{**kind, "name": key[1], "uid": binding.metadata.uid}]
        spec = {
            "holderIdentity": f"{spelled(key)} by {self._identity}",
            "leaseDurationSeconds": CLAIM_SECONDS,
            "acquireTime": micro_stamp(now),
            "renewTime": micro_stamp(now),
        }
        return new_object(LEASES, metadata, spec=spec)

    def answered(self, record: BindingRecord, outcome: Outcome) -> None:
        """Take the answer to a claim's request, unless the claim was given up meanwhile."""
        claim = record.claim
        if claim is None:
            return
        claim.problem = _problem(outcome)
        match claim.step:
            case ClaimStep.CREATE | ClaimStep.TAKE:
                if outcome.ok:
                    record.grant_claim(claim_name(claim.rule))
                else:
                    claim.step = ClaimStep.READ if outcome.exists or outcome.conflict else ClaimStep.WAIT
            case ClaimStep.READ:
                self._read(record, claim, outcome)
            case ClaimStep.LOOK:
                self._looked(record, claim, outcome)
            case ClaimStep.FENCE if outcome.ok or outcome.missing:
                claim.step = ClaimStep.TAKE  # the earlier claimant's late write would fail now
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
            asks = record.claim is not None and claim_name(record.claim.rule) == name
            expect(asks or name in record.granted, f"{key} is not founding {name}")

    # --- inside -------------------------------------------------------------------

    def _read(self, record: BindingRecord, claim: GroupClaim, outcome: Outcome) -> None:
        """Take in the Lease of another claimant."""
        if not outcome.ok:
            claim.step = ClaimStep.CREATE if outcome.missing else ClaimStep.WAIT
            return
        claim.lease = outcome.decode(Lease)
        if holder_of(claim.lease) == record.key:
            claim.step = ClaimStep.TAKE  # it is ours; another may be about to take it over
        elif not self._cache.fleet.founds(record.key, claim.rule):
            self.forget(record)  # by now it is known where the group is
        else:
            claim.step = ClaimStep.LOOK

    def _looked(self, record: BindingRecord, claim: GroupClaim, outcome: Outcome) -> None:
        """Take the other claimant's binding: it may be placed already though the watch has not shown it."""
        lease = claim.lease
        if lease is None:
            raise AssertionError(record)
        other = holder_of(lease)
        if outcome.missing:
            claim.step = ClaimStep.TAKE
        elif not outcome.ok:
            claim.step = ClaimStep.WAIT
        else:
            known, binding = self._cache.bindings.get(other), outcome.decode(Binding)
            fresh = known is None or known.metadata.generation != binding.metadata.generation
            if self._cache.see(other, binding) and fresh:
                self.released.append(other)  # no event will wake it
            if not self._cache.fleet.founds(record.key, claim.rule):
                self.forget(record)
            elif is_spent(lease, binding):
                claim.step = ClaimStep.TAKE
            elif expired(lease, outcome.at):
                claim.late = binding
                claim.step = ClaimStep.FENCE
            else:
                claim.step = ClaimStep.WAIT


def _problem(outcome: Outcome) -> str:
    """The reason if the server refuses the Lease and waiting will not help."""
    expected = outcome.ok or outcome.exists or outcome.conflict or outcome.missing
    return "" if expected or outcome.busy else outcome.message
