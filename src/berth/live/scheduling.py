"""The simplest loop that schedules: the engine chooses, the pod is assumed, the binding goes out.

A pod that found no node waits until something changes that could matter.  There is no preemption and
no backoff by pod; `berth scheduler` will replace this.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from berth.engine.cluster import Cluster, is_finished, is_terminating, pod_name
from berth.engine.evaluation import evaluate
from berth.engine.options import Options
from berth.engine.plan import SchedulingError, plan_for
from berth.engine.podclass import PodClass
from berth.engine.snapshot import GATED
from berth.engine.summary import NO_NODES, summarise
from berth.kube.annotations import AnnotationError
from berth.kube.objects import Pod
from berth.machinery.contract import (
    DELETED,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    SERVICES,
    STATEFUL_SETS,
    STRATEGIC,
    Action,
    Bind,
    Event,
    Key,
    Outcome,
    Patch,
    Resource,
)
from berth.machinery.queue import Queue
from berth.machinery.recorder import NORMAL, WARNING, Recorder
from berth.machinery.story import Story
from berth.machinery.times import stamp

NAMES = frozenset({"", "berth", "default-scheduler"})
# Placed in one go before other work gets its turn.
BATCH = 128


class Scheduling:
    """Pods to nodes.

    Attributes:
        cluster: The engine, in step with what was watched and with what was assumed.
        pending: Pods to be placed and not being bound.
        assumed: Pods whose binding is under way or not yet seen, and their node.
    """

    name = "berth-scheduler"
    watches: tuple[Resource, ...] = (NODES, PODS, NAMESPACES, SERVICES, REPLICA_SETS, STATEFUL_SETS)

    def __init__(self, options: Options | None = None, names: frozenset[str] = NAMES) -> None:
        self.cluster = Cluster(options or Options())
        self.pending: dict[Key, Pod] = {}
        self.assumed: dict[Key, str] = {}
        self.story = Story()
        self._names = names
        self._queue: Queue[Key] = Queue()
        self._stuck: dict[Key, str] = {}  # what was last said about a pod that found no node
        self._meanwhile: dict[Key, Pod] = {}  # what pods became while they were being bound
        self._recorder = Recorder(self.name)

    # --- keeping up ---------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        if event.resource is PODS:
            self._pod(event)
        elif event.resource is NODES:
            self._node(event)
        elif event.resource is NAMESPACES:
            if event.change == DELETED:
                self.cluster.remove_namespace(event.key[1])
            else:
                self.cluster.set_namespace(event.object)
            self._retry()
        else:
            self._owner(event)

    def _node(self, event: Event) -> None:
        if event.change == DELETED:
            self.cluster.remove_node(event.key[1])
        elif event.old is not None and _same_node(event.old, event.object):
            return
        else:
            self.cluster.add_node(event.object)
        self._retry()

    def _owner(self, event: Event) -> None:
        kind, (namespace, name) = event.resource.kind, event.key
        if event.change == DELETED:
            self.cluster.remove_owner(kind, namespace, name)
        elif event.old is None or event.old.spec != event.object.spec:
            self.cluster.set_owner(event.object, kind)

    def _pod(self, event: Event) -> None:
        pod, key = event.object, event.key
        gone = event.change == DELETED or is_finished(pod)
        if pod.spec.node_name or gone:
            self.pending.pop(key, None)
            self._stuck.pop(key, None)
            self._queue.forget(key)
        if gone:
            self.assumed.pop(key, None)
            if self.cluster.has_pod(pod_name(pod)):
                self.cluster.remove_pod(pod_name(pod))
                self._retry()
        elif pod.spec.node_name:
            self._bound(key, event.old, pod)
        elif (pod.spec.scheduler_name or "") in self._names and not is_terminating(pod):
            self._waiting(key, pod)

    def _waiting(self, key: Key, pod: Pod) -> None:
        if key in self.assumed:
            self._meanwhile[key] = pod
            return
        known = self.pending.get(key)
        self.pending[key] = pod
        if known is None or known.spec != pod.spec or known.metadata.labels != pod.metadata.labels:
            self._queue.add(key)

    def _bound(self, key: Key, old: Pod | None, pod: Pod) -> None:
        assumed = self.assumed.pop(key, None)
        unchanged = (
            old is not None
            and old.spec == pod.spec
            and old.metadata.labels == pod.metadata.labels
            and is_terminating(old) == is_terminating(pod)
        )
        if assumed == pod.spec.node_name or (unchanged and assumed is None):
            return
        try:
            self.cluster.add_pod(pod)
        except AnnotationError as error:
            self.story.tell(0.0, key, "left out of the counts", str(error))
        self._retry()

    def _retry(self) -> None:
        """Something changed that may help those who found no node."""
        for key in self._stuck:
            self._queue.add(key)

    # --- placing ------------------------------------------------------------------------------------

    def due(self) -> float | None:
        return 0.0 if self._recorder.waiting else self._queue.due()

    def reconcile(self, now: float) -> list[Action]:
        actions: list[Action] = []
        keys = self._queue.take(now)
        entries = sorted(
            ((key, self.pending[key]) for key in keys if key in self.pending),
            key=lambda entry: (-(entry[1].spec.priority or 0), entry[1].metadata.creation_timestamp or ""),
        )
        for key, _ in entries[BATCH:]:
            self._queue.add(key)
        verdicts: dict[PodClass, str] = {}
        for key, pod in entries[:BATCH]:
            actions += self._place(key, pod, verdicts, now)
        if any(isinstance(action, Bind) for action in actions):
            self._retry()  # a pod that was placed may be the peer that another one waits for
        return actions + self._recorder.take()

    def _place(self, key: Key, pod: Pod, verdicts: dict[PodClass, str], now: float) -> Iterator[Action]:
        if pod.spec.scheduling_gates:
            yield from self._refuse(key, pod, "SchedulingGated", GATED, now)
            return
        try:
            pod_class = self.cluster.class_of(pod)
            known = verdicts.get(pod_class)
            node = self._choose(pod_class) if known is None else None
        except (AnnotationError, SchedulingError) as error:
            yield from self._refuse(key, pod, "SchedulerError", str(error), now)
            return
        if node is None:
            message = known or self._why_not(pod_class)
            verdicts[pod_class] = message
            yield from self._refuse(key, pod, "Unschedulable", message, now)
            return
        verdicts.clear()  # a peer came: others may fit now
        self.cluster.assume(pod_name(pod), pod_class, node)
        self.assumed[key] = node
        del self.pending[key]
        self._stuck.pop(key, None)
        self._queue.started(key, 1)
        self.story.tell(now, key, f"bind to {node}")
        yield Bind(
            resource=PODS,
            key=(key, pod),
            namespace=key[0],
            name=key[1],
            node=node,
            uid=pod.metadata.uid,
            cause="best node",
        )

    def _choose(self, pod_class: PodClass) -> str | None:
        if not self.cluster.nodes.live:
            return None
        slot = plan_for(self.cluster, pod_class).choose()
        return None if slot is None else self.cluster.nodes.names[slot]

    def _why_not(self, pod_class: PodClass) -> str:
        if not self.cluster.nodes.live:
            return NO_NODES
        return summarise(self.cluster, evaluate(plan_for(self.cluster, pod_class)))

    def _refuse(self, key: Key, pod: Pod, reason: str, message: str, now: float) -> Iterator[Action]:
        said = self._stuck.get(key)
        self._stuck[key] = message
        if said == message or _says(pod, reason, message):
            return
        self.story.tell(now, key, "found no node", message)
        if reason != "SchedulingGated":
            self._recorder.record(now, PODS, pod, WARNING, "FailedScheduling", message)
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastProbeTime": None,
            "lastTransitionTime": stamp(now),
        }
        yield Patch(
            resource=PODS,
            key=None,
            namespace=key[0],
            name=key[1],
            body={"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}},
            subresource="status",
            form=STRATEGIC,
            cause=reason,
        )

    # --- outcomes -----------------------------------------------------------------------------------

    def done(self, action: Action, outcome: Outcome) -> None:
        if not isinstance(action, Bind):
            return
        key: Key
        pod: Any
        key, pod = action.key
        self._queue.finished(key, ok=outcome.ok, at=outcome.at, wait=outcome.retry_after)
        latest = self._meanwhile.pop(key, pod)
        if outcome.ok:
            message = f"Successfully assigned {key[0]}/{key[1]} to {action.node}"
            self._recorder.record(outcome.at, PODS, pod, NORMAL, "Scheduled", message)
            return
        self.story.tell(outcome.at, key, f"failed to bind to {action.node}", outcome.message)
        if self.assumed.pop(key, None) is None:
            return  # it was seen to be bound, or gone, in the meantime
        self.cluster.remove_pod(pod_name(pod))
        if outcome.missing:
            self._queue.forget(key)
        else:
            # A conflict may mean that someone else bound it: the watch will tell.
            self.pending[key] = latest
            self._queue.add_at(key, outcome.at + (outcome.retry_after or 0.5))


def _says(pod: Any, reason: str, message: str) -> bool:  # noqa: ANN401 - a pod view with messages
    """Whether the pod's condition says so already, from an earlier run."""
    for condition in (pod.status.conditions if pod.status else None) or ():
        if condition.type == "PodScheduled":
            found = (condition.reason, getattr(condition, "message", None))
            return bool(found == (reason, message))
    return False


def _same_node(old: Any, new: Any) -> bool:  # noqa: ANN401 - node views
    """Whether two states of a node are the same to scheduling: heartbeats are not."""
    return bool(
        old.metadata.labels == new.metadata.labels
        and old.spec == new.spec
        and (old.status and old.status.allocatable) == (new.status and new.status.allocatable)
        and (old.status and old.status.images) == (new.status and new.status.images)
    )
