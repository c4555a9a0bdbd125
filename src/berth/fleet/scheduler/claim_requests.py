"""Who places the first member of a group: one scheduler of several, by a Lease; what is asked for it.

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
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from berth.fleet.scheduler.patches import resource_of
from berth.kube.api_resources import LEASES
from berth.kube.objects import RawObject, key_of
from berth.kube.times import micro_stamp, seconds
from berth.kube.well_known import SYSTEM_NAMESPACE
from berth.machines.contract import Create, Get, Patch, Update

if TYPE_CHECKING:
    from berth.fleet.state.terms import WorkloadRule
    from berth.kube.karmada import Binding
    from berth.kube.objects import Key, Lease

CLAIM_SECONDS = 15
RETRY = 1.0  # seconds between two looks at a group that somebody else is founding
GROUP_ANNOTATION = "berth.dev/workload-group"
VERSION_ANNOTATION = "berth.dev/claimed-version"
FENCE_ANNOTATION = "berth.dev/claim-taken-over"


class ClaimStep(Enum):
    """What is asked, or has to be asked next."""

    CREATE = "create the Lease"
    READ = "read the Lease of somebody else"
    LOOK = "look at the binding that the Lease is for"
    FENCE = "change that binding, so that nobody can place it by what was decided before"
    TAKE = "take the Lease over"
    WAIT = "wait, and read it again"


@dataclass(slots=True)
class GroupClaim:
    """A claim that is not decided yet.

    Attributes:
        version: Of the binding, when the Lease was last written: what is granted is so for this version only.
        lease: That of somebody else.
        late: The binding it was made for, which does not show where the group is.
        problem: What the server has against it.
    """

    rule: WorkloadRule
    version: str | None
    step: ClaimStep = ClaimStep.CREATE
    lease: Lease | None = None
    late: Binding | None = None
    problem: str = ""


def claim_name(rule: WorkloadRule) -> str:
    """The same for every scheduler and every member of a group."""
    named = repr((sorted(rule.namespaces), str(rule.namespace_selector), str(rule.selector), rule.topology))
    return f"berth-fleet-{hashlib.sha256(named.encode()).hexdigest()[:20]}"


def home_of(rule: WorkloadRule) -> str:
    return min(rule.namespaces, default="") or SYSTEM_NAMESPACE


def holder(key: Key) -> str:
    return "/".join(filter(None, key))


def create(key: Key, binding: Binding, rule: WorkloadRule, identity: str, now: float) -> Create:
    return Create(
        resource=LEASES,
        key=key,
        at=(home_of(rule), ""),
        body=_body(key, binding, rule, identity, now),
        why=f"claim {rule} for {holder(key)}",
    )


def read(key: Key, rule: WorkloadRule) -> Get:
    return Get(resource=LEASES, key=key, at=(home_of(rule), claim_name(rule)))


def take_over(
    key: Key, binding: Binding, rule: WorkloadRule, identity: str, lease: Lease, now: float
) -> Update:
    body = _body(key, binding, rule, identity, now)
    body["metadata"]["resourceVersion"] = lease.metadata.resource_version
    return Update(
        resource=LEASES,
        key=key,
        at=(home_of(rule), claim_name(rule)),
        body=body,
        why=f"take over the claim of {rule} for {holder(key)}",
    )


def fence(key: Key, late: Binding, identity: str, now: float) -> Patch:
    """A change of the binding that was to found the group: of this version, or not at all."""
    metadata = late.metadata
    at = key_of(metadata)
    return Patch(
        resource=resource_of(at),
        key=key,
        at=at,
        body={
            "metadata": {
                "resourceVersion": metadata.resource_version,
                "annotations": {FENCE_ANNOTATION: f"{holder(key)} by {identity} at {micro_stamp(now)}"},
            }
        },
        why=f"take over the claim of {holder(at)}",
    )


def expired(lease: Lease, now: float) -> bool:
    since = lease.spec.renew_time
    return since is None or now - seconds(since) > CLAIM_SECONDS


def is_spent(lease: Lease, holder: Binding) -> bool:
    """Whether the binding that a claim was made for changed since: by this claim nothing can be written."""
    version = (lease.metadata.annotations or {}).get(VERSION_ANNOTATION)
    return version is not None and version != holder.metadata.resource_version


def holder_of(lease: Lease) -> Key:
    """The binding a claim was made for."""
    named = (lease.spec.holder_identity or "").partition(" by ")[0]
    namespace, _, name = named.rpartition("/")
    return namespace, name


def _body(key: Key, binding: Binding, rule: WorkloadRule, identity: str, now: float) -> RawObject:
    metadata: RawObject = {
        "name": claim_name(rule),
        "namespace": home_of(rule),
        "annotations": {GROUP_ANNOTATION: str(rule)},
    }
    if binding.metadata.resource_version:
        metadata["annotations"][VERSION_ANNOTATION] = binding.metadata.resource_version
    if binding.metadata.uid and home_of(rule) == key[0]:
        # The claim goes with the binding; by then others of the group show where it is.
        metadata["ownerReferences"] = [
            {
                "apiVersion": "work.karmada.io/v1alpha2",
                "kind": "ResourceBinding",
                "name": key[1],
                "uid": binding.metadata.uid,
            }
        ]
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": {
            "holderIdentity": f"{holder(key)} by {identity}",
            "leaseDurationSeconds": CLAIM_SECONDS,
            "acquireTime": micro_stamp(now),
            "renewTime": micro_stamp(now),
        },
    }
