"""Which rules are broken, kept up to date change by change.

A change of a node's labels costs time in the pods of that node, a change of a pod in the pods whose rules
look at it.  Everything is looked at only once, at the start: whatever happened before, or was left
undone by a process that ended, is found then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from berth.engine.execution.affected_pods import affected_pods
from berth.engine.execution.violations import (
    NODE,
    Violation,
    all_violations,
    is_in_the_way,
    node_violations,
    violations_among,
    violations_of,
)
from berth.engine.state.cluster import pod_name
from berth.engine.state.cluster_events import ClusterEvent, NodeAdded, NodeDeleted, NodeUpdated
from berth.eviction import decisions
from berth.eviction.census import Census
from berth.eviction.decisions import EvictionDecision, Tell
from berth.eviction.ledger import Ledger, rule_of
from berth.eviction.settings import EvictionSettings
from berth.kube import objects
from berth.kube.annotations import without_annotation
from berth.kube.api_resources import PODS
from berth.kube.objects import LivePod
from berth.kube.pods import is_finished, is_terminating
from berth.kube.validation.annotation import fault_of
from berth.machines.contract import DELETED, Event, Key
from berth.machines.mirror import Mirror

MIRROR_POD = "kubernetes.io/config.mirror"


def key_of(pod: str) -> Key:
    namespace, _, name = pod.partition("/")
    return (namespace, name)


def is_mirror_pod(pod: LivePod) -> bool:
    """Whether the pod only shows a static pod of its node, which no API server can remove."""
    return MIRROR_POD in (pod.metadata.annotations or {})


@dataclass(slots=True)
class Found:
    """Attributes:
    changed: The rules that somebody has to go for may be others than before.
    nodes: Nodes whose labels changed.
    """

    changed: bool = False
    nodes: set[str] = field(default_factory=set)


class Finding:
    """Attributes:
    mirror: The engine's cluster.
    ledger: What is broken.
    started: Whether everything was looked at.
    census: How many run where.
    faults: Pods whose annotation has no rules to enforce, with their uids, and why.
    arrivals: When pods were first seen on their node, of those that came since the start.
    """

    def __init__(self, settings: EvictionSettings, tell: Tell) -> None:
        self.mirror = Mirror(settings.options, {})
        self.ledger = Ledger(settings.grace)
        self.started = False
        self.census = Census()
        self._tell = tell
        self.faults: dict[Key, tuple[str | None, str]] = {}
        self.arrivals: dict[str, float] = {}
        self._suspects: set[str] = set()
        self._arrived: set[str] = set()
        self._lost = False  # a pod that broke a rule is gone, whoever has its name now

    @property
    def pending(self) -> bool:
        """Whether there is something to judge."""
        return not self.started or self.mirror.changed or bool(self._suspects)

    def pod(self, name: str) -> LivePod | None:
        """A pod that runs and could be evicted."""
        pod = self.mirror.bound.get(key_of(name))
        if pod is None or not isinstance(pod, LivePod) or is_terminating(pod) or is_mirror_pod(pod):
            return None
        return pod

    def living(self) -> Iterable[LivePod]:
        return (
            pod for pod in self.mirror.bound.values() if isinstance(pod, LivePod) and not is_terminating(pod)
        )

    # --- keeping up ---------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        if event.resource == PODS:
            self._pod(event)
        else:
            self.mirror.handle(event)
        if not self.started:
            # Everything will be looked at anyway.
            self.mirror.changes()
            self._suspects.clear()
            self._arrived.clear()

    def _pod(self, event: Event) -> None:
        pod, key = event.object, event.key
        fault = fault_of(pod)
        if fault is not None:
            pod = without_annotation(pod)
        name = pod_name(pod)
        known = self.mirror.bound.get(key)
        if event.change == DELETED or is_finished(pod):
            self.faults.pop(key, None)
            if known is not None:
                self.mirror.forget(key, known)
                self._lost |= bool(self.ledger.drop(name))
                self.census.drop(name)
                self._suspects.add(name)
                self._arrived.discard(name)
                self.arrivals.pop(name, None)
            return
        if not pod.spec.node_name:
            return
        self._note_fault(key, pod, fault)
        is_new = known is None or known.metadata.uid != pod.metadata.uid
        if is_new:
            self._arrived.add(name)
            if known is not None:
                self._lost |= bool(self.ledger.drop(name))
        if is_new or known is None or _differs(known, pod):
            self._suspects.add(name)
        self.mirror.put(key, pod)
        if is_terminating(pod):
            self.census.drop(name)
        else:
            self.census.put(name, pod.spec.node_name, immovable=is_mirror_pod(pod))

    def _note_fault(self, key: Key, pod: LivePod, fault: str | None) -> None:
        if fault is None:
            self.faults.pop(key, None)
            return
        entry = (pod.metadata.uid, fault)
        if self.faults.get(key) != entry:
            self.faults[key] = entry
            self._suspects.add(pod_name(pod))

    # --- judging ------------------------------------------------------------------------------------

    def judge(self, now: float) -> Found:
        """Look at what may have changed since the last time."""
        if not self.started:
            return self._first(now)
        found, self._lost = Found(changed=self._lost), False
        pods, self._suspects = self._suspects, set()
        self.arrivals.update(dict.fromkeys(self._arrived, now))
        self._arrived.clear()
        cluster = self.mirror.cluster
        for change in self.mirror.changes():
            node = self._node_of(change)
            if node is not None:
                found.nodes.add(node)
            pods |= affected_pods(cluster, change)
        for node in found.nodes:
            pods |= self.ledger.on(node)
            if node in cluster.nodes.slot_of:
                pods.update(breach.pod for breach in node_violations(cluster, node))
        for pod, broken in self._breaches(pods).items():
            found.changed |= self._enter(pod, broken, now)
            # Who goes for a rule about other pods depends on more than a breach tells: on all the peers,
            # also on those it does not name, and on which of them are going already.
            found.changed |= any(breach.kind != NODE for breach in broken)
        found.changed |= self.ledger.ripen(now)
        return found

    def rejudge(self, pod: str, now: float) -> bool:
        """Look at one pod; whether the ledger is different from before."""
        broken = violations_of(self.mirror.cluster, pod) if self.pod(pod) is not None else []
        return self._enter(pod, broken, now)

    def demands(self, breach: Violation, pod: str) -> bool:
        """Whether a rule is broken at this moment, has been for long enough, and is about this pod."""
        if not self.ledger.is_ripe(breach) or self.pod(breach.pod) is None:
            return False
        current = {rule_of(now): now for now in violations_of(self.mirror.cluster, breach.pod)}
        broken = current.get(rule_of(breach))
        if broken is None:
            return False
        return breach.pod == pod or is_in_the_way(self.mirror.cluster, broken, pod)

    def _breaches(self, pods: Iterable[str]) -> dict[str, list[Violation]]:
        """What each of some pods breaks; nothing, if it cannot be evicted."""
        found: dict[str, list[Violation]] = {pod: [] for pod in sorted(pods)}
        judged = [pod for pod in found if self.pod(pod) is not None]
        for breach in violations_among(self.mirror.cluster, judged):
            found[breach.pod].append(breach)
        return found

    def _first(self, now: float) -> Found:
        self.started = True
        by_pod: dict[str, list[Violation]] = defaultdict(list)
        for breach in all_violations(self.mirror.cluster):
            by_pod[breach.pod].append(breach)
        for pod, broken in by_pod.items():
            if self.pod(pod) is not None:
                self._enter(pod, broken, now)
        self.ledger.ripen(now)
        return Found(changed=True)

    def _enter(self, pod: str, broken: list[Violation], now: float) -> bool:
        verdict = self.ledger.update(pod, broken, now)
        news = [(decisions.BROKEN, breach) for breach in verdict.opened]
        if verdict.healed and self.pod(pod) is not None:  # of one that went nothing holds
            news += [(decisions.HEALED, breach) for breach in verdict.healed]
        for what, breach in news:
            self._tell(EvictionDecision(now, what, pod, details_of(breach)))
        return bool(verdict)

    def _node_of(self, change: ClusterEvent) -> str | None:
        """The node whose own rules have to be looked at."""
        if isinstance(change, NodeDeleted):
            return change.old.metadata.name if change.old is not None else None
        if isinstance(change, NodeAdded) or (isinstance(change, NodeUpdated) and change.labels):
            return self.mirror.cluster.nodes.names[change.slot]
        return None


def details_of(breach: Violation) -> dict[str, object]:
    """A broken rule as a log has it: the rule, the node, the label and the value."""
    found: dict[str, object] = {"rule": breach.path, "node": breach.node, "cause": breach.cause}
    if breach.topology is not None:
        found["topology"] = "=".join(breach.topology)
    if breach.peers:
        found["peers"] = list(breach.peers)
    return found


def _differs(old: objects.Pod, new: objects.Pod) -> bool:
    """Whether a pod's own rules may be others, or may be judged otherwise."""
    was, now = old.metadata, new.metadata
    return (
        was.labels != now.labels
        or was.annotations != now.annotations
        or was.deletion_timestamp != now.deletion_timestamp
        or old.spec != new.spec
    )
