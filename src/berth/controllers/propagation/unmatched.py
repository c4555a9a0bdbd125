"""Policies that select nothing are told so: upstream leaves their authors to wonder."""

from __future__ import annotations

from collections.abc import Iterator

from berth.kube.api_resources import CLUSTER_POLICIES, POLICIES, Resource
from berth.kube.karmada import LivePolicy, ResourceSelector
from berth.kube.objects import Key
from berth.kube.propagation import fit, is_reserved
from berth.kube.well_known import DELETED
from berth.machines.cache import Cache
from berth.machines.contract import Action, Event
from berth.machines.controller import Controller
from berth.machines.recorder import WARNING

GRACE = 5.0  # seconds: a policy often arrives just before what it is for
REASON = "NoResourceMatched"


class UnmatchedPolicies(Controller):
    """`kinds` is what can be propagated, by apiVersion and kind, and may grow."""

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

    def sync(self, key: Key, now: float) -> Iterator[Action]:
        resource = POLICIES if key[0] else CLUSTER_POLICIES
        policy = self.cache.get(resource, key, LivePolicy)
        if policy is None:
            return
        since = self._since.setdefault(key, now)
        if now < since + GRACE:
            self.queue.add_at(key, since + GRACE)
            return
        selectors = policy.spec.resource_selectors or []
        if not any(map(self._finds, selectors)):
            message = " ".join(self._reasons(selectors))
            self.recorder.record(now, resource, policy, WARNING, REASON, message)
        yield from ()

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
