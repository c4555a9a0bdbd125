"""Policies turn resources into bindings, which a scheduler then puts on clusters.

A resource stays with the policy that has it until that policy goes, selects it no longer, or loses it to
one that preempts; then it is matched anew.  A binding that no policy has any more stays as it is.  Which
policy has a resource is written on its binding; unlike upstream's, this controller leaves the resource
itself alone.  Upstream: pkg/detector.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from berth.kube.api_resources import (
    CLUSTER_BINDINGS,
    CLUSTER_POLICIES,
    POLICIES,
    PRIORITY_CLASSES,
    RESOURCE_BINDINGS,
    Resource,
)
from berth.kube.karmada import LiveBinding, LivePolicy, ResourceSelector
from berth.kube.objects import Key, ObjectMeta, PriorityClass, View, key_of
from berth.kube.ownership import controller_of
from berth.kube.propagation import bindings
from berth.kube.propagation.bindings import BuildError, binding_key, binding_resource
from berth.kube.propagation.policies import best, fit, is_reserved, is_skipped, kinds_of, policy_fit, preempts
from berth.kube.well_known import DELETED, MODIFIED
from berth.machines.cache import Cache, take
from berth.machines.contract import Action, Event
from berth.machines.controller import Controller
from berth.machines.recorder import NORMAL, WARNING
from berth.machines.requests import create, patch

CLAIMED_BY_LABEL = "resourcetemplate.karmada.io/claimed-by"
LAZY = "Lazy"
RETRY = 30.0  # seconds after which a policy that could not be applied is tried again
_OTHER_OWNER = (
    "failed to update binding due to different owner reference UID, will try again later after binding is "
    "garbage collected"
)

_TemplateKey = tuple[Resource, Key]
_Match = tuple[Resource, Any, LivePolicy]


class PropagationController(Controller):
    """Makes the binding of every resource that a policy selects; the queue holds keys of bindings."""

    name = "resource-detector"

    def __init__(self, cache: Cache, resources: Iterable[Resource]) -> None:
        super().__init__(cache)
        self.kinds: dict[tuple[str, str], Resource] = {}  # what can be propagated, by apiVersion and kind
        for resource in resources:
            self.learn(resource)
        own = (POLICIES, CLUSTER_POLICIES, RESOURCE_BINDINGS, CLUSTER_BINDINGS, PRIORITY_CLASSES)
        self.watches = (*own, *(kind for kind in self.kinds.values() if kind not in own))
        self._policies: dict[str, dict[str, LivePolicy]] = {}  # by namespace, "" for those of the cluster
        self._selected: Counter[tuple[str, str]] = Counter()  # kinds by how many selectors name them
        self._templates: dict[Key, dict[_TemplateKey, None]] = {}  # resources by the key of their binding

    def learn(self, resource: Resource) -> None:
        """The server has one more resource."""
        if not is_skipped(resource):
            self.kinds[resource.api_version, resource.kind] = resource

    # --- what happens ---------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        resource = event.resource
        if resource in (POLICIES, CLUSTER_POLICIES):
            self._take_policy(event)
        elif resource in (RESOURCE_BINDINGS, CLUSTER_BINDINGS):
            self._take_binding(event)
        elif self._selected and (resource.api_version, resource.kind) in self._selected:
            self._take_template(event)

    def _take_policy(self, event: Event) -> None:
        namespace, name = event.key
        known = self._policies.get(namespace, {}).get(name)
        new = None if event.change == DELETED else event.object
        take(self._policies, namespace, name)
        if new is not None:
            self._policies.setdefault(namespace, {})[name] = new
        kinds = [kinds_of(policy) if policy is not None else set() for policy in (known, new)]
        self._selected.update(kinds[1])
        self._selected.subtract(kinds[0])
        self._selected = +self._selected
        lazy = known is not None and new is not None and new.spec.activation_preference == LAZY
        for kind in kinds[0] | kinds[1]:
            if (resource := self.kinds.get(kind)) is not None:
                self._look_at_all(resource, namespace, new if lazy else None)

    def _look_at_all(self, resource: Resource, namespace: str, lazy: LivePolicy | None) -> None:
        """Look at every object of a kind again, but not at what a lazy policy has already."""
        for key in self.cache.keys(resource):
            if namespace and key[0] != namespace:
                continue
            at = self._note(resource, key)
            binding = self.cache.get(binding_resource(at), at, LiveBinding)
            if lazy is None or binding is None or self._holder(binding) is not lazy:
                self.queue.add(at)

    def _take_binding(self, event: Event) -> None:
        old, new = event.old, event.object
        if event.change != MODIFIED or old is None or old.metadata.labels != new.metadata.labels:
            self.queue.add(event.key)

    def _take_template(self, event: Event) -> None:
        at = self._note(event.resource, event.key)
        if event.change == DELETED:
            take(self._templates, at, (event.resource, event.key))
        old, new = event.old, event.object
        if event.change == DELETED or old is None or _differs(old.metadata, new.metadata):
            self.queue.add(at)

    def _note(self, resource: Resource, key: Key) -> Key:
        at = binding_key(resource, key)
        self._templates.setdefault(at, {})[resource, key] = None
        return at

    # --- what to do -----------------------------------------------------------------------------------

    def sync(self, key: Key, now: float) -> Iterator[Action]:
        binding = self.cache.get(binding_resource(key), key, LiveBinding)
        if binding is not None and binding.metadata.deletion_timestamp:
            return
        found = list(self._candidates(key))
        owner = controller_of(binding.metadata) if binding is not None else None
        if owner is not None and found:
            mine = [entry for entry in found if entry[1].metadata.uid == owner.uid]
            if not mine:
                resource, template = found[0]
                if (policy := self._policy_for(resource, template, None, now)) is not None:
                    self._fail(key, (resource, template, policy), _OTHER_OWNER, now)
                return
            found = mine
        if (match := self._match(found, binding, now)) is not None:
            yield from self._apply(key, match, binding, now)
        elif binding is not None and bindings.claimed_by(binding) is not None:
            released = bindings.released(binding)
            yield patch(binding_resource(key), binding, released, "no policy selects its resource")

    def _candidates(self, key: Key) -> Iterator[tuple[Resource, Any]]:
        """Resources that would have this binding."""
        for resource, at in self._templates.get(key, ()):
            template = self.cache.look(resource, at)
            if template is not None and not is_reserved(at[0]):
                yield resource, template

    def _match(
        self, found: list[tuple[Resource, Any]], binding: LiveBinding | None, now: float
    ) -> _Match | None:
        for resource, template in found:
            metadata: ObjectMeta = template.metadata
            if metadata.deletion_timestamp or (metadata.labels or {}).get(CLAIMED_BY_LABEL):
                continue
            policy = self._policy_for(resource, template, binding, now)
            if policy is not None:
                return resource, template, policy
        return None

    def _policy_for(
        self, resource: Resource, template: View, binding: LiveBinding | None, now: float
    ) -> LivePolicy | None:
        metadata: ObjectMeta = template.metadata
        # Policies are looked for in its namespace first.
        namespaces = dict.fromkeys((metadata.namespace or "", ""))
        scopes = [self._policies.get(namespace, {}).values() for namespace in namespaces]
        holder = self._holder(binding) if binding is not None else None
        if holder is None or not policy_fit(holder, resource, metadata):
            return next(filter(None, (best(scope, resource, metadata) for scope in scopes)), None)
        for scope in scopes:
            stronger = best((p for p in scope if preempts(p, holder)), resource, metadata)
            if stronger is not None and stronger is not holder:
                message = f"{_spelled(stronger)} preempted {_spelled(holder).lower()} successfully"
                self.recorder.record(now, resource, template, NORMAL, "PreemptPolicySucceed", message)
                return stronger
        return holder

    def _holder(self, binding: LiveBinding) -> LivePolicy | None:
        """The policy that has a binding, if it is still there and the same."""
        claimed = bindings.claimed_by(binding)
        if claimed is None:
            return None
        (namespace, name), identity = claimed
        policy = self._policies.get(namespace, {}).get(name)
        if policy is None or policy.metadata.deletion_timestamp or bindings.identity(policy) != identity:
            return None
        return policy

    def _apply(self, key: Key, found: _Match, binding: LiveBinding | None, now: float) -> Iterator[Action]:
        resource, template, policy = found
        try:
            want = bindings.wanted(resource, template, policy, self._urgency(policy))
        except BuildError as error:
            self._fail(key, found, str(error), now)
            return
        if binding is None:
            yield create(binding_resource(key), key, bindings.body(want), _spelled(policy))
        elif change := bindings.change(binding, want):
            yield patch(binding_resource(key), binding, change, _spelled(policy))
        else:
            return
        message = f"Apply {_applied(policy)} succeed"
        self.recorder.record(now, resource, template, NORMAL, "ApplyPolicySucceed", message)

    def _fail(self, key: Key, found: _Match, why: str, now: float) -> None:
        resource, template, policy = found
        message = f"Apply {_applied(policy)} failed: {why}"
        self.recorder.record(now, resource, template, WARNING, "ApplyPolicyFailed", message)
        self.queue.add_at(key, now + RETRY)

    def _urgency(self, policy: LivePolicy) -> int | None:
        wish = policy.spec.schedule_priority
        if wish is None:
            return None
        name = wish.priority_class_name or ""
        found = self.cache.get(PRIORITY_CLASSES, ("", name), PriorityClass)
        if found is None:
            raise BuildError(f'priorityclasses.scheduling.k8s.io "{name}" not found')
        return found.value or 0


def _differs(old: ObjectMeta, new: ObjectMeta) -> bool:
    """Whether more than the status changed; what counts no generations has none worth mentioning."""
    if new.generation is None or old.generation != new.generation or old.uid != new.uid:
        return True
    if old.deletion_timestamp != new.deletion_timestamp:
        return True
    return (old.labels, old.annotations) != (new.labels, new.annotations)


def _spelled(policy: LivePolicy) -> str:
    return f"{'Propagation' if policy.metadata.namespace else 'Cluster propagation'} policy{_named(policy)}"


def _applied(policy: LivePolicy) -> str:
    return f"{'' if policy.metadata.namespace else 'cluster '}policy{_named(policy)}"


def _named(policy: LivePolicy) -> str:
    return f"({'/'.join(filter(None, key_of(policy.metadata)))})"


# --- policies that select nothing -----------------------------------------------------------------

GRACE = 5.0  # seconds: a policy often arrives just before what it is for
REASON = "NoResourceMatched"


class UnmatchedPolicies(Controller):
    """Tells policies by an Event that they select nothing: upstream leaves their authors to wonder.

    `kinds` is what can be propagated, by apiVersion and kind, and may grow.
    """

    name = "policy-checker"
    watches = (POLICIES, CLUSTER_POLICIES)

    def __init__(self, cache: Cache, kinds: dict[tuple[str, str], Resource]) -> None:
        super().__init__(cache)
        self._kinds = kinds
        self._since: dict[Key, float] = {}  # when policies were first seen as they are

    def handle(self, event: Event) -> None:
        if event.change == DELETED:
            self.queue.forget(event.key)
            self._since.pop(event.key, None)
        elif event.old is None or event.old.spec != event.object.spec:
            self._since.pop(event.key, None)
            self.queue.add(event.key)

    def sync(self, key: Key, now: float) -> Iterable[Action]:
        resource = POLICIES if key[0] else CLUSTER_POLICIES
        policy = self.cache.get(resource, key, LivePolicy)
        if policy is None or self.queue.put_off(key, self._since.setdefault(key, now) + GRACE, now):
            return ()
        selectors = policy.spec.resource_selectors or []
        if not any(map(self._finds, selectors)):
            message = " ".join(self._reasons(selectors))
            self.recorder.record(now, resource, policy, WARNING, REASON, message)
        return ()

    def _finds(self, selector: ResourceSelector) -> bool:
        resource = self._kinds.get((selector.api_version or "", selector.kind or ""))
        if resource is None:
            return False
        views = ((key, self.cache.look(resource, key)) for key in self.cache.keys(resource))
        return any(fit(selector, resource, view.metadata) for key, view in views if not is_reserved(key[0]))

    def _reasons(self, selectors: list[ResourceSelector]) -> Iterator[str]:
        yield "No resource matches the resourceSelectors."
        for selector in selectors:
            kind = (selector.api_version or "", selector.kind or "")
            if kind not in self._kinds:
                yield f"There is no kind {kind[1]} of {kind[0]} that can be propagated."
