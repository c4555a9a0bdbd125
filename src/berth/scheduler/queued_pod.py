"""What the scheduler knows of one pod that is its to place: one record, in one phase at a time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from berth.engine.state.pod_class import PodClass
from berth.kube.objects import Key, Pod
from berth.kube.pod_groups import GroupKey
from berth.machines.contract import Purpose


class SchedulingPhase(StrEnum):
    """Where a pod is on its way; `berth.scheduler.queue` has the transitions.

    The first four are named as the `queue` label of kube-scheduler's `scheduler_pending_pods`.
    """

    ACTIVE = "active"  # to be tried now, by priority and then by age
    BACKOFF = "backoff"  # tried in vain a moment ago
    UNSCHEDULABLE = "unschedulable"  # no cluster event since its last attempt could help it
    GATED = "gated"  # not to be tried at all: it has gates, or its group is not complete
    SCHEDULING = "scheduling"  # taken from the queue; never between two steps of the machine
    VOLUMES = "volumes"  # assumed on a node, its volumes are being bound and its claims reserved
    BINDING = "binding"  # assumed on a node, the binding was sent or waits to be sent again
    UNSURE = "unsure"  # assumed on a node, the binding may have been made: asking
    BOUND = "bound"  # the binding was made; waiting to see it


PENDING = frozenset(
    {
        SchedulingPhase.ACTIVE,
        SchedulingPhase.BACKOFF,
        SchedulingPhase.UNSCHEDULABLE,
        SchedulingPhase.GATED,
        SchedulingPhase.SCHEDULING,
    }
)
ASSUMED = frozenset(
    {SchedulingPhase.VOLUMES, SchedulingPhase.BINDING, SchedulingPhase.UNSURE, SchedulingPhase.BOUND}
)


class SchedulerPurpose(Purpose):
    """What the scheduler's requests are for."""

    BIND = "bind"  # the best node is its node
    LOOK_UP = "look up"  # is it bound?
    VOLUMES = "volumes"  # tell its claims and volumes where it goes
    RESERVATION = "reservation"  # reserve its claims to devices
    RETURN = "return"  # give a reservation back
    ANNOUNCEMENT = "announcement"  # tell other schedulers that it starts its group
    STATEMENT = "statement"  # state in its status why it has no node
    PREEMPTION = "preemption"  # make room for it
    GROUP = "group"  # state in the status of its group whether that was placed


@dataclass(slots=True, eq=False)
class QueuedPod:
    """One pod that has no node, or was not seen on it yet.

    Attributes:
        pod_class: None while it has no readable rules.
        number: Tells it from another pod that had the same name.
        ticket: Tells current entries of heaps from outdated ones.
        since: When it could first have been tried, which is what users wait from.
        attempts: How often it was tried in vain since its specification last changed.
        tried: When it was last tried.
        rejected_by: The rules that rejected some node then.
        said: Reason, message and nominated node that were last written into its status.
        nominated: The node that is being cleared for it.
        node: Where it is assumed to be, once it is.
        attempt: Tells the requests of this attempt from those of an earlier one.
        started: When it was taken from the queue for that.
        repeats: How often the binding, or the question for it, was put off.
        again: When to repeat the next request, after a pause.
        deadline: When to give up waiting for volumes and devices.
    """

    key: Key
    pod: Pod
    pod_class: PodClass | None
    phase: SchedulingPhase = SchedulingPhase.GATED
    number: int = 0
    ticket: int = 0
    group: GroupKey | None = None
    since: float | None = None
    attempts: int = 0
    tried: float = 0.0
    rejected_by: frozenset[str] = frozenset()
    said: tuple[str, str, str | None] | None = None
    nominated: str | None = None
    node: str | None = None
    attempt: int = 0
    started: float = 0.0
    repeats: int = 0
    again: float | None = None
    deadline: float | None = None

    @property
    def priority(self) -> int:
        return self.pod.spec.priority or 0

    @property
    def created(self) -> str:
        return self.pod.metadata.creation_timestamp or ""

    @property
    def profile(self) -> str:
        return self.pod.spec.scheduler_name or ""

    @property
    def pending(self) -> bool:
        return self.phase in PENDING
