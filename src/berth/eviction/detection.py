"""Which rules are broken, kept up to date change by change.

A change of a node's labels costs time in the pods of that node, a change of a pod in the pods whose rules
look at it.  Everything is looked at only once, at the start: whatever happened before, or was left
undone by a process that ended, is found then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from berth.engine.execution.violations import (
    affected_pods,
    all_violations,
    is_in_the_way,
    node_violations,
    violations_among,
    violations_of,
)
from berth.engine.rules.verdicts import RuleViolation
from berth.engine.state.cluster import pod_name
from berth.engine.state.cluster_events import ClusterEvent, NodeAdded, NodeDeleted, NodeUpdated
from berth.eviction.reports import BROKEN, HEALED, EvictionReports
from berth.eviction.state import EvictionState, PodRecord, rule_of
from berth.kube.affinity.annotations import without_annotation
from berth.kube.api_resources import PODS
from berth.kube.objects import Pod
from berth.kube.pods import is_finished
from berth.kube.validation.annotation import fault_of
from berth.kube.well_known import DELETED
from berth.machines.contract import Event


class ViolationDetector:
    """Keeps the state in step with what is watched, and judges what may have changed."""

    def __init__(self, state: EvictionState, reports: EvictionReports) -> None:
        self._state = state
        self._reports = reports
        self._unjudged: set[str] = set()
        self._arrived: set[str] = set()
        self.started = False  # whether everything was looked at

    @property
    def pending(self) -> bool:
        """Whether there is something to judge."""
        return not self.started or self._state.mirror.changed or bool(self._unjudged)

    # --- keeping up ---------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        if event.resource == PODS:
            self._pod(event)
        else:
            self._state.mirror.handle(event)
        if not self.started:
            # At the start everything is judged anyway.
            self._state.mirror.changes()
            self._unjudged.clear()
            self._arrived.clear()

    def _pod(self, event: Event) -> None:
        pod, key = event.object, event.key
        name = pod_name(pod)
        if event.change == DELETED or is_finished(pod):
            if self._state.forget(key):
                self._unjudged.add(name)
                self._arrived.discard(name)
            return
        if not pod.spec.node_name:
            return
        invalid = fault_of(pod) or ""
        if invalid:
            pod = without_annotation(pod)
        known = self._state.mirror.bound.get(key)
        record, is_new = self._state.put(key, pod)
        if is_new:
            self._arrived.add(name)
        if is_new or known is None or _differs(known, pod) or invalid != record.invalid:
            self._unjudged.add(name)
        record.invalid = invalid

    # --- judging ------------------------------------------------------------------------------------

    def judge(self, now: float) -> set[str]:
        """Judge what may have changed since the last call; returns the nodes whose labels have changed."""
        if not self.started:
            self._judge_all(now)
            return set()
        state = self._state
        pods, self._unjudged = self._unjudged, set()
        for name in self._arrived:
            state.records[name].arrived = now
        self._arrived.clear()
        own, cluster, nodes = set(pods), state.mirror.cluster, set[str]()
        for change in state.mirror.changes():
            node = self._node_of(change)
            if node is not None:
                nodes.add(node)
            pods |= affected_pods(cluster, change)
        for node in nodes:
            pods.update(state.violations.on(node))
            if node in cluster.nodes.slot_of:
                pods.update(violation.pod for violation in node_violations(cluster, node))
        for pod, broken in self._violations_among(pods).items():
            self._enter(pod, broken, now)
            if any(violation.about_peers for violation in broken):
                # Which pod goes for a rule about other pods depends on all peers, also on those that no
                # violation names, and on which of them are going already.
                state.violations.outdated()
        state.violations.end_grace(now)
        self._tell_invalid(own, now)
        return nodes

    def _judge_all(self, now: float) -> None:
        self.started = True
        state = self._state
        by_pod: dict[str, list[RuleViolation]] = defaultdict(list)
        for violation in all_violations(state.mirror.cluster):
            by_pod[violation.pod].append(violation)
        for pod, broken in by_pod.items():
            if state.pod(pod) is not None:
                self._enter(pod, broken, now)
        state.violations.end_grace(now)
        state.violations.outdated()
        self._tell_invalid(state.records, now)

    def _violations_among(self, pods: Iterable[str]) -> dict[str, list[RuleViolation]]:
        """What each of some pods breaks; nothing, if it cannot be evicted."""
        found: dict[str, list[RuleViolation]] = {pod: [] for pod in sorted(pods)}
        judged = [pod for pod in found if self._state.pod(pod) is not None]
        for violation in violations_among(self._state.mirror.cluster, judged):
            found[violation.pod].append(violation)
        return found

    def _enter(self, pod: str, broken: list[RuleViolation], now: float) -> None:
        record = self._state.records.get(pod)
        if record is None:
            return  # the pod is gone, and its violations with it
        opened, healed = self._state.violations.update(record, broken, now)
        for violation in opened:
            self._reports.rule(BROKEN, violation, now)
        if self._state.pod(pod) is not None:  # not for pods that are terminating or static
            for violation in healed:
                self._reports.rule(HEALED, violation, now)

    def _tell_invalid(self, pods: Iterable[str], now: float) -> None:
        """Report once for every pod that its annotation cannot be read."""
        for name in pods:
            record = self._state.records.get(name)
            if record is None or record.invalid == record.told_invalid:
                continue
            record.told_invalid = record.invalid
            pod = self._state.pod(name)
            if record.invalid and pod is not None:
                self._reports.invalid_annotation(pod, record.invalid, now)

    def _node_of(self, change: ClusterEvent) -> str | None:
        """The node whose own rules have to be looked at."""
        if isinstance(change, NodeDeleted):
            return change.old.metadata.name if change.old is not None else None
        if isinstance(change, NodeAdded) or (isinstance(change, NodeUpdated) and change.labels):
            return self._state.mirror.cluster.nodes.names[change.slot]
        return None

    # --- one pod ------------------------------------------------------------------------------------

    def rejudge(self, record: PodRecord, now: float) -> bool:
        """Judge again every rule for which a pod would be evicted; returns whether it still has to go."""
        if record.attempt is not None:
            for pod in {violation.pod for violation in record.attempt.planned.violations}:
                is_there = self._state.pod(pod) is not None
                self._enter(pod, violations_of(self._state.mirror.cluster, pod) if is_there else [], now)
        return self.has_to_go(record)

    def has_to_go(self, record: PodRecord) -> bool:
        """Whether a pod has to go, by what is known at this moment."""
        attempt = record.attempt
        if attempt is None or not self._state.is_current(record) or self._state.pod(record.name) is None:
            return False
        planned = attempt.planned
        if planned.move is not None:
            return self._state.moves.wants(record.name)
        return any(self._demands(record.name, violation) for violation in planned.violations)

    def _demands(self, pod: str, violation: RuleViolation) -> bool:
        """Whether a rule is broken at this moment, has been for long enough, and is about this pod."""
        state, owner = self._state, violation.pod
        if not state.violations.is_enforced(violation) or state.pod(owner) is None:
            return False
        current = {rule_of(now): now for now in violations_of(state.mirror.cluster, owner)}
        broken = current.get(rule_of(violation))
        if broken is None:
            return False
        return owner == pod or is_in_the_way(state.mirror.cluster, broken, pod)


def _differs(old: Pod, new: Pod) -> bool:
    """Whether a change of a pod can change its own rules or how they are judged."""
    was, now = old.metadata, new.metadata
    return (
        was.labels != now.labels
        or was.annotations != now.annotations
        or was.deletion_timestamp != now.deletion_timestamp
        or old.spec != new.spec
    )
