"""DaemonSets: one pod on every node that satisfies its node affinity and whose taints it tolerates.

Eligibility considers both required node affinities, in the spec and in the annotation, so a pod that
is evicted because its node stopped matching is not made again there.  A pod whose rule has to hold
during execution is not deleted but left to `berth.eviction`.  Pods that fail or are evicted
while their node stays eligible are replaced ever more slowly.
Upstream: pkg/controller/daemon.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from berth.controllers.workloads.controller import FAILURES, Restraint, WorkloadController
from berth.controllers.workloads.pods import is_available, next_available, pod_from
from berth.controllers.workloads.revisions import History, hash_of, history, keep_up
from berth.engine.placement.daemons import DaemonEligibility, may_keep_running
from berth.kube.amounts.shares import resolved
from berth.kube.api_resources import DAEMON_SETS, NODES, PODS, REVISIONS
from berth.kube.gates import DEFAULT_GATES, FeatureGates
from berth.kube.objects import (
    IntOrString,
    Key,
    LivePod,
    LiveWorkload,
    Node,
    ObjectMeta,
    PodTemplateSpec,
    RawObject,
    RollingUpdate,
    UpdateStrategy,
    key_of,
)
from berth.kube.pods import is_finished, is_ready, is_terminating, phase, pod_condition
from berth.kube.times import created_at
from berth.kube.well_known import (
    DELETED,
    DISRUPTION_TARGET,
    FAILED,
    REQUIRED_DURING_SCHEDULING,
    REVISION_HASH,
    TRUE,
)
from berth.kube.workloads.pod_templates import daemon_tolerations, node_of
from berth.machines.cache import Cache
from berth.machines.contract import Action, Event
from berth.machines.recorder import NORMAL, WARNING
from berth.machines.requests import is_news, status_patch

# --- the pods -------------------------------------------------------------------------------------


def daemon_pod(daemon_set: LiveWorkload, node: str, revision_hash: str) -> RawObject:
    """The pod for one node: pinned by name, which replaces its own rule since that was just checked."""
    pod = pod_from(daemon_set, DAEMON_SETS, labels={REVISION_HASH: revision_hash})
    spec = pod["spec"]
    affinity = spec["affinity"] = spec.get("affinity") or {}
    pin = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity.setdefault("nodeAffinity", {})[REQUIRED_DURING_SCHEDULING] = {"nodeSelectorTerms": [pin]}
    given: list[RawObject] = list(spec.get("tolerations") or ())
    for toleration in daemon_tolerations(host_network=bool(spec.get("hostNetwork"))):
        entry: dict[str, Any] = msgspec.to_builtins(toleration)
        if entry not in given:
            given.append(entry)
    spec["tolerations"] = given
    return pod


# --- the controller -------------------------------------------------------------------------------


_ByNode = dict[str, list[LivePod]]
_COUNTS = (
    *("desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled"),
    *("numberMisscheduled", "numberReady", "numberAvailable"),
)


@dataclass(slots=True)
class _Plan:
    """What has to happen: nodes that need a pod, pods that have to go and why."""

    create: list[str] = field(default_factory=list)
    delete: dict[str, tuple[LivePod, str]] = field(default_factory=dict)

    def remove(self, pods: Iterable[LivePod], cause: str) -> None:
        self.delete |= {pod.metadata.uid or "": (pod, cause) for pod in pods}


class DaemonSetController(WorkloadController):
    name = "daemonset-controller"
    watches = (DAEMON_SETS, PODS, NODES, REVISIONS)
    owner = DAEMON_SETS
    burst = 250

    def __init__(self, cache: Cache, gates: FeatureGates = DEFAULT_GATES) -> None:
        super().__init__(cache)
        self._gates = gates
        self._restraint = Restraint(FAILURES, calm=2 * FAILURES.longest)
        self._evicted: dict[str, tuple[str, str]] = {}  # uid of an evicted pod -> owner, node
        self._eligibility: dict[str, tuple[int, DaemonEligibility]] = {}

    # --- events -------------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        if event.resource != NODES:
            super().handle(event)
            return
        old, new = event.old, event.object
        matters = old is None or old.metadata.labels != new.metadata.labels or old.spec != new.spec
        if matters or event.change == DELETED:
            for daemon_set in self.cache.all(DAEMON_SETS, LiveWorkload):
                self.queue.add(key_of(daemon_set.metadata))

    def forget(self, uid: str) -> None:
        super().forget(uid)
        self._restraint.forget(uid)
        self._eligibility.pop(uid, None)

    def pod_goes(self, owner: str, pod: LivePod) -> None:
        target = pod_condition(pod, DISRUPTION_TARGET)
        if target is not None and target.status == TRUE:
            self._evicted[pod.metadata.uid or ""] = (owner, node_of(pod) or "")

    # --- deciding -----------------------------------------------------------------------------------

    def sync(self, key: Key, now: float) -> Iterator[Action]:
        daemon_set = self.cache.get(DAEMON_SETS, key, LiveWorkload)
        if daemon_set is None:
            return
        metadata = daemon_set.metadata
        for uid in [uid for uid, (of, _) in self._evicted.items() if of == metadata.uid]:
            self._restraint.note(metadata.uid or "", now, self._evicted.pop(uid)[1])
        found = history(self.cache, daemon_set)
        pods = self.owned(daemon_set, LivePod)
        if not metadata.deletion_timestamp:
            yield from keep_up(DAEMON_SETS, daemon_set, found, map(hash_of, pods))
            if claims := self.claims(daemon_set):
                yield from claims
                return
        by_node = _by_node(pods)
        if not metadata.deletion_timestamp and not self.waits(metadata, now):
            rolling = _rolling(daemon_set)
            surge = self._share(daemon_set, rolling.max_surge, default=0) if rolling else 0
            plan = self._plan(daemon_set, by_node, found.hash if surge else None, now)
            if rolling and not plan.create and not plan.delete:
                if surge:
                    self._surge(daemon_set, by_node, found, plan, surge, now)
                else:
                    most = max(self._share(daemon_set, rolling.max_unavailable, default=1), 1)
                    _replace(daemon_set, by_node, found, plan, most, now)
            yield from self._carry_out(daemon_set, plan, found, now)
        yield from self._status(daemon_set, by_node, found, now)

    def _wants(self, daemon_set: LiveWorkload) -> DaemonEligibility:
        uid, generation = daemon_set.metadata.uid or "", daemon_set.metadata.generation or 0
        known = self._eligibility.get(uid)
        if known is None or known[0] != generation:
            template = msgspec.convert(daemon_set.spec.template or {}, PodTemplateSpec)
            known = self._eligibility[uid] = (generation, DaemonEligibility(template, self._gates))
        return known[1]

    def _plan(self, daemon_set: LiveWorkload, by_node: _ByNode, surges_to: str | None, now: float) -> _Plan:
        """One pod a node; while a set surges to a revision, one of that beside one of an older."""
        plan, eligibility = _Plan(), self._wants(daemon_set)
        metadata = daemon_set.metadata
        nodes = {node.metadata.name or "": node for node in self.cache.all(NODES, Node)}
        for name, node in nodes.items():
            found, pods = eligibility.of(node), by_node.get(name, [])
            staying = _staying(pods)
            if not found.keeps:
                # Those who evict for a broken rule ask the budgets first, and say why.
                unwanted = [pod for pod in staying if not (found.stays and self._evicts(pod, node))]
                plan.remove(unwanted, f"node {name} is no longer eligible")
                continue
            for pod in staying:
                # A failed pod is removed once its node's turn has come, which is later each time.
                if phase(pod) == FAILED and not self._is_restrained(metadata, name, now):
                    self._restraint.note(metadata.uid or "", now, name)
                    plan.remove([pod], "it failed")
            living = [pod for pod in staying if phase(pod) != FAILED]
            living.sort(key=lambda pod: (not pod.spec.node_name, created_at(pod.metadata)))
            if surges_to is None:
                plan.remove(living[1:], f"node {name} has another pod")
            else:
                plan.remove(_surplus(living, daemon_set, surges_to, now), f"node {name} has another pod")
            if found.starts and not pods and not self._is_restrained(metadata, name, now):
                plan.create.append(name)
        for name, pods in by_node.items():
            if name not in nodes:
                plan.remove(_staying(pods), f"node {name or '?'} is gone")
        return plan

    def _is_restrained(self, metadata: ObjectMeta, node: str, now: float) -> bool:
        """Whether a pod has yet to wait for its place on a node; its set is looked at when that is over."""
        return self.queue.put_off(key_of(metadata), self._restraint.until(metadata.uid or "", node), now)

    def _evicts(self, pod: LivePod, node: Node) -> bool:
        """Whether a pod breaks a rule of its own that running pods are evicted for."""
        runs = bool(pod.spec.node_name) and not is_finished(pod)
        return runs and not may_keep_running(pod, node, self._gates)

    # --- updating -----------------------------------------------------------------------------------

    def _share(self, daemon_set: LiveWorkload, value: IntOrString | None, default: int) -> int:
        """A number of nodes, or a share of those that are served."""
        eligibility = self._wants(daemon_set)
        total = sum(eligibility.of(node).starts for node in self.cache.all(NODES, Node))
        return resolved(value, total, default=default, up=True)

    def _surge(
        self, daemon_set: LiveWorkload, by_node: _ByNode, found: History, plan: _Plan, most: int, now: float
    ) -> None:
        """Make pods beside those of older revisions: `most` beside available ones."""
        eligibility, beside = self._wants(daemon_set), list[str]()
        for node in self.cache.all(NODES, Node):
            name = node.metadata.name or ""
            new, old = _by_revision(_staying(by_node.get(name, [])), found.hash)
            if new and old:
                most -= 1  # the new one is waited for: if it were available the old one would have gone
            elif old and eligibility.of(node).starts:
                (beside if is_available(old[0], daemon_set, now) else plan.create).append(name)
        plan.create += beside[: max(most, 0)]

    # --- doing --------------------------------------------------------------------------------------

    def _carry_out(
        self, daemon_set: LiveWorkload, plan: _Plan, found: History, now: float
    ) -> Iterator[Action]:
        key = key_of(daemon_set.metadata)
        count = self.creations_allowed(daemon_set.metadata, len(plan.create), now)
        for node in plan.create[:count]:
            body = daemon_pod(daemon_set, node, found.hash)
            yield self.create_pod(daemon_set, body, f"node {node} needs a pod", now)
        for pod, cause in list(plan.delete.values())[: self.burst]:
            yield self.delete_pod(daemon_set, pod, cause, now)
            if cause == "it failed":
                where = f"{key[0]}/{pod.metadata.name} on node {node_of(pod)}"
                message = f"Found failed daemon pod {where}, will try to kill it"
                self.recorder.record(now, DAEMON_SETS, daemon_set, WARNING, "FailedDaemonPod", message)
            else:
                message = f"Deleted pod: {pod.metadata.name}"
                self.recorder.record(now, DAEMON_SETS, daemon_set, NORMAL, "SuccessfulDelete", message)
        if 0 < count < len(plan.create) or len(plan.delete) > self.burst:
            self.queue.add(key)

    # --- status -------------------------------------------------------------------------------------

    def _status(
        self, daemon_set: LiveWorkload, by_node: _ByNode, found: History, now: float
    ) -> Iterator[Action]:
        eligibility = self._wants(daemon_set)
        status = dict.fromkeys(_COUNTS, 0)
        for node in self.cache.all(NODES, Node):
            pods = _staying(by_node.get(node.metadata.name or "", []))
            if not eligibility.of(node).starts:
                status["numberMisscheduled"] += bool(pods)
                continue
            status["desiredNumberScheduled"] += 1
            if pods:
                pod = min(pods, key=lambda pod: created_at(pod.metadata))
                status["currentNumberScheduled"] += 1
                status["numberReady"] += is_ready(pod)
                status["numberAvailable"] += is_available(pod, daemon_set, now)
                status["updatedNumberScheduled"] += hash_of(pod) == found.hash
        everything = [pod for pods in by_node.values() for pod in pods]
        self.queue.put_off(key_of(daemon_set.metadata), next_available(everything, daemon_set, now), now)
        status["numberUnavailable"] = status["desiredNumberScheduled"] - status["numberAvailable"]
        status["observedGeneration"] = daemon_set.metadata.generation or 0
        if is_news(daemon_set, status):
            yield status_patch(DAEMON_SETS, daemon_set, dict(status))


def _rolling(daemon_set: LiveWorkload) -> RollingUpdate | None:
    """How pods of older revisions are replaced; None if somebody else has to delete them."""
    strategy = daemon_set.spec.update_strategy or UpdateStrategy()
    return None if strategy.type == "OnDelete" else strategy.rolling_update or RollingUpdate()


def _replace(
    daemon_set: LiveWorkload, by_node: _ByNode, found: History, plan: _Plan, most: int, now: float
) -> None:
    """Remove pods of older revisions while no more than `most` nodes are without an available pod."""
    outdated: list[LivePod] = []
    for pods in by_node.values():
        living = _staying(pods)
        if not any(is_available(pod, daemon_set, now) for pod in living):
            most -= 1
        outdated += _by_revision(living, found.hash)[1]
    # What is unavailable already costs nothing more.
    unavailable = [pod for pod in outdated if not is_available(pod, daemon_set, now)]
    available = [pod for pod in outdated if is_available(pod, daemon_set, now)]
    plan.remove([*unavailable, *available[: max(most, 0)]], "it has an older revision")


def _surplus(living: list[LivePod], daemon_set: LiveWorkload, new_hash: str, now: float) -> list[LivePod]:
    """Whom a node need not have that may have a pod of the new revision beside one of an older."""
    new, old = _by_revision(living, new_hash)
    is_over = new and old and (not is_ready(old[0]) or is_available(new[0], daemon_set, now))
    return [*new[1:], *old[0 if is_over else 1 :]]


def _by_revision(pods: list[LivePod], new_hash: str) -> tuple[list[LivePod], list[LivePod]]:
    """Those of the new revision, and those of older ones."""
    new = [pod for pod in pods if hash_of(pod) == new_hash]
    return new, [pod for pod in pods if hash_of(pod) != new_hash]


def _staying(pods: list[LivePod]) -> list[LivePod]:
    return [pod for pod in pods if not is_terminating(pod)]


def _by_node(pods: list[LivePod]) -> _ByNode:
    found: _ByNode = defaultdict(list)
    for pod in pods:
        found[node_of(pod) or ""].append(pod)
    return found
