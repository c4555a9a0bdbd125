"""Which PodDisruptionBudget would stop the eviction of which pod of a snapshot.

Upstream: pkg/registry/core/pod/storage/eviction.go decides, pkg/controller/disruption counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from berth.engine.offline.snapshot import Entry, Snapshot, WorkloadManifests
from berth.engine.offline.workloads import replicas_of
from berth.kube.disruption import is_lenient, spares_unhealthy, wanted_pods
from berth.kube.objects import Pod, PodDisruptionBudget
from berth.kube.ownership import WITHOUT_SCALE, controller_of, counts_replicas
from berth.kube.pods import is_active, is_ready
from berth.kube.selectors import Selector, parse_label_selector

# Pods with the same labels are asked about once: by namespace, then by labels.
_Labels = tuple[tuple[str, str], ...]
_Groups = dict[str, dict[_Labels, list[Entry]]]


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """A budget with its numbers.

    Attributes:
        allowed: How many of its pods may go at the moment.
        healthy: How many of its pods are ready, and `desired`: how many must be.
        pods: How many running pods it protects.
        computed: The numbers are not from its status, which is missing, but from the snapshot's pods.
        lenient: Pods that are not ready may go at any time.
        fault: Why nobody can tell how many pods it should have, so that it lets none go.
        counted: `healthy` and `desired` as the snapshot's pods have it, whatever a status says.
    """

    namespace: str
    name: str
    selector: Selector
    allowed: int
    healthy: int
    desired: int
    pods: int
    computed: bool
    lenient: bool = False
    fault: str | None = None
    counted: tuple[int, int] = (0, 0)

    def protects(self, entry: Entry) -> bool:
        return entry.namespace == self.namespace and self.selector.matches(entry.pod.metadata.labels or {})

    def spares_unhealthy(self) -> bool:
        """Whether a pod that is not ready may go without counting."""
        return spares_unhealthy(lenient=self.lenient, healthy=self.healthy, desired=self.desired)

    def since(self, first: DisruptionBudget) -> DisruptionBudget:
        """The budget as its status would be now, which was right at `first`."""
        if self.computed or self.counted == first.counted:
            return self
        came, more = (now - then for now, then in zip(self.counted, first.counted, strict=True))
        spare = first.allowed or min(first.healthy - first.desired, 0)
        return replace(
            self,
            allowed=0 if self.fault else max(spare + came - more, 0),
            healthy=max(first.healthy + came, 0),
            desired=max(first.desired + more, 0),
        )


def budgets_of(snapshot: Snapshot, waiting: Iterable[Entry] = ()) -> list[DisruptionBudget]:
    """The budgets among the manifests, in their order.

    `waiting` pods count as pods there should be, though they serve nobody yet.
    """
    views = [manifest.object for manifest in snapshot.manifests]
    found = [view for view in views if isinstance(view, PodDisruptionBudget)]
    if not found:
        return []
    owners = snapshot.by_owner
    running, expected = _grouped(snapshot.running), _grouped(waiting)
    return [_budget(view, running, expected, owners) for view in found]


def _grouped(entries: Iterable[Entry]) -> _Groups:
    groups: _Groups = {}
    for entry in entries:
        groups.setdefault(entry.namespace, {}).setdefault(_labels(entry), []).append(entry)
    return groups


def _labels(entry: Entry) -> _Labels:
    return tuple(sorted((entry.pod.metadata.labels or {}).items()))


def _budget(
    view: PodDisruptionBudget, running: _Groups, waiting: _Groups, owners: WorkloadManifests
) -> DisruptionBudget:
    namespace = view.metadata.namespace or "default"
    selector = parse_label_selector(view.spec.selector)
    pods, more = (
        [entry for labels, alike in groups.items() if selector.matches(dict(labels)) for entry in alike]
        for groups in (running.get(namespace, {}), waiting.get(namespace, {}))
    )
    status = view.status
    everyone = [*pods, *more]
    fault = _fault(view, everyone)
    expected, desired = wanted_pods(view.spec, len(everyone), lambda: _scale(everyone, owners))
    healthy = sum(is_active(entry.pod) and may_be_ready(entry.pod) for entry in pods)
    counted = healthy, desired
    allowed = max(healthy - desired, 0) if expected > 0 and fault is None else 0
    if status is not None and status.disruptions_allowed is not None:
        allowed = status.disruptions_allowed
        healthy, desired = status.current_healthy or 0, status.desired_healthy or 0
    return DisruptionBudget(
        namespace=namespace,
        name=view.metadata.name or "",
        selector=selector,
        allowed=allowed,
        healthy=healthy,
        desired=desired,
        pods=len(pods),
        computed=status is None or status.disruptions_allowed is None,
        lenient=is_lenient(view.spec.unhealthy_pod_eviction_policy),
        fault=fault,
        counted=counted,
    )


def _fault(view: PodDisruptionBudget, pods: list[Entry]) -> str | None:
    """As the disruption controller sees it: some controllers have no replicas that it could ask for."""
    if not counts_replicas(view.spec) or not pods:
        return None
    owners = [controller_of(entry.pod.metadata) for entry in pods]
    kinds = {owner.kind or "" for owner in owners if owner is not None}
    unscaled = sorted(kinds & WITHOUT_SCALE.keys())
    if unscaled:
        return f"pods of a {unscaled[0]} have no replicas that it could count"
    return None if kinds else "pods without an owner have no replicas that it could count"


def _scale(pods: list[Entry], owners: WorkloadManifests) -> int:
    """What the workloads behind the pods are meant to run: as many as there are of those not in the input."""
    counts = Counter((entry.namespace, entry.owner) for entry in pods if entry.owner is not None)
    return sum(replicas_of(owners.get(owner), number) for owner, number in counts.items())


def may_be_ready(pod: Pod) -> bool:
    """Whether the pod serves. One that was only written down has no conditions and is taken for ready."""
    return pod.status is None or not pod.status.conditions or is_ready(pod)


class AllowedDisruptions:
    """What budgets allow, eviction by eviction: each uses up what the API server would count."""

    def __init__(self, budgets: Iterable[DisruptionBudget]) -> None:
        self._budgets = list(budgets)
        self._left = {id(budget): budget.allowed for budget in self._budgets}
        self._protecting: dict[tuple[str, _Labels], tuple[DisruptionBudget, ...]] = {}

    def evict(self, entry: Entry) -> tuple[DisruptionBudget, ...]:
        """The budgets that stop the eviction of a pod; if there are none it is counted as done.

        A pod with more than one budget is never evicted: the API server refuses to choose.
        """
        if entry.pod.status is not None and entry.pod.status.phase == "Pending":
            return ()  # it does not serve yet, so no budget counts it
        protecting = self._of(entry)
        if len(protecting) != 1:
            return protecting
        budget = protecting[0]
        if not may_be_ready(entry.pod) and budget.spares_unhealthy():
            return ()
        if self._left[id(budget)] <= 0:
            return protecting
        self._left[id(budget)] -= 1
        return ()

    def _of(self, entry: Entry) -> tuple[DisruptionBudget, ...]:
        key = (entry.namespace, _labels(entry))
        found = self._protecting.get(key)
        if found is None:
            found = self._protecting[key] = tuple(b for b in self._budgets if b.protects(entry))
        return found
