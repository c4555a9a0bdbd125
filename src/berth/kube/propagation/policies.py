"""Which policy a resource belongs to.

Upstream: pkg/util/selector.go, pkg/detector/compare.go and pkg/util/apigroup.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from berth.kube.api_resources import Resource
from berth.kube.karmada import ALWAYS, LivePolicy, ResourceSelector
from berth.kube.objects import ObjectMeta
from berth.kube.selectors import parse_label_selector

# How closely a selector fits, from not at all to by name.
MISMATCH, EVERYTHING, BY_LABELS, BY_NAME = range(4)

_OWN_GROUPS = (".karmada.io", "events.k8s.io", "coordination.k8s.io")
_RESERVED_NAMESPACES = ("karmada-system", "karmada-cluster")
_RESERVED_PREFIXES = ("kube-", "karmada-es-")


def is_skipped(resource: Resource) -> bool:
    """Whether objects of this kind are never propagated: Karmada's own, events and leases."""
    return resource.group.endswith(_OWN_GROUPS) or (resource.group, resource.kind) == ("", "Event")


def is_reserved(namespace: str) -> bool:
    """Whether what is in the namespace stays here."""
    return namespace in _RESERVED_NAMESPACES or namespace.startswith(_RESERVED_PREFIXES)


def fit(selector: ResourceSelector, resource: Resource, metadata: ObjectMeta) -> int:
    """How closely a selector fits a resource; with a name its labels do not matter."""
    if (selector.api_version, selector.kind) != (resource.api_version, resource.kind):
        return MISMATCH
    if selector.namespace and selector.namespace != (metadata.namespace or ""):
        return MISMATCH
    if selector.name:
        return BY_NAME if selector.name == metadata.name else MISMATCH
    if selector.label_selector is None:
        return EVERYTHING
    matches = parse_label_selector(selector.label_selector).matches(metadata.labels or {})
    return BY_LABELS if matches else MISMATCH


def policy_fit(policy: LivePolicy, resource: Resource, metadata: ObjectMeta) -> int:
    """How closely a policy fits: as its closest selector."""
    selectors = policy.spec.resource_selectors or ()
    return max((fit(selector, resource, metadata) for selector in selectors), default=MISMATCH)


def kinds_of(policy: LivePolicy) -> set[tuple[str, str]]:
    """The kinds a policy names, by apiVersion and kind."""
    return {(s.api_version or "", s.kind or "") for s in policy.spec.resource_selectors or ()}


def best(policies: Iterable[LivePolicy], resource: Resource, metadata: ObjectMeta) -> LivePolicy | None:
    """The policy for a resource: by priority, then by how closely it fits, then by name."""
    fitting = [
        (-priority(policy), -close, policy.metadata.name or "", policy)
        for policy in policies
        if not policy.metadata.deletion_timestamp and (close := policy_fit(policy, resource, metadata))
    ]
    return min(fitting, key=lambda found: found[:3])[3] if fitting else None


def priority(policy: LivePolicy) -> int:
    return policy.spec.priority or 0


def preempts(policy: LivePolicy, holder: LivePolicy) -> bool:
    """Whether a policy may take resources from another: one of lower priority, or from a cluster's anyway."""
    if policy.spec.preemption != ALWAYS:
        return False
    if policy.metadata.namespace and not holder.metadata.namespace:
        return True
    alike = bool(policy.metadata.namespace) == bool(holder.metadata.namespace)
    return alike and priority(policy) > priority(holder)
