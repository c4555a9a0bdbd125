"""Pods that were given a node and are not yet seen there: from the decision to the watched fact.

A binding whose fate is unknown (no answer, a server error, a conflict) is not forgotten: the pod may
well be on its node.  It is looked up first, and while it is unbound the same binding is sent again; only
an answer that says the binding was not made frees the place for others.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from berth.engine.state.pod_class import PodClass
from berth.kube.api_resources import PODS
from berth.kube.objects import Key
from berth.machines.contract import Action, Bind, Get, Outcome
from berth.scheduler.waiting import SchedulerPurpose, Waiting

# So often the same binding is repeated before another node is tried.
REPEATS = 12
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 10.0


class Phase(Enum):
    VOLUMES = auto()  # its volumes are being bound
    BINDING = auto()  # the binding was sent
    UNSURE = auto()  # the binding may have been made; asking
    BOUND = auto()  # the binding was made; waiting to see it


@dataclass(slots=True, eq=False)
class Assumed:
    """Attributes:
    node: Where it is assumed to be.
    number: Tells its requests from those of an earlier attempt.
    started: When it was taken from the queue, which is when its attempt began.
    again: When to repeat the next request, after a pause.
    deadline: When to give up waiting for volumes.
    """

    waiting: Waiting
    pod_class: PodClass
    node: str
    uid: str | None
    started: float
    number: int
    phase: Phase = Phase.BINDING
    repeats: int = 0
    again: float | None = None
    deadline: float | None = None

    @property
    def key(self) -> Key:
        return self.waiting.key

    def bind(self) -> Bind:
        namespace, name = self.key
        self.phase, self.again = Phase.BINDING, None
        return Bind(
            resource=PODS,
            key=self.key,
            namespace=namespace,
            name=name,
            node=self.node,
            uid=self.uid,
            purpose=SchedulerPurpose.BIND,
            attempt=self.number,
        )

    def ask(self) -> Get:
        namespace, name = self.key
        self.again = None
        return Get(
            resource=PODS,
            key=self.key,
            namespace=namespace,
            name=name,
            purpose=SchedulerPurpose.LOOK_UP,
            attempt=self.number,
        )

    def pause(self, now: float, wait: float | None = None) -> None:
        delay = min(_FIRST_PAUSE * 2.0 ** min(self.repeats, 10), _LONGEST_PAUSE)
        self.repeats += 1
        self.again = now + max(delay, wait or 0.0)


class Assumptions:
    """Attributes:
    pods: By pod, from the decision until it is seen on its node or given up.
    """

    def __init__(self) -> None:
        self.pods: dict[Key, Assumed] = {}
        self.in_flight = 0

    def add(self, assumed: Assumed) -> None:
        self.pods[assumed.key] = assumed
        if assumed.phase is Phase.BINDING:
            self.in_flight += 1

    def get(self, key: Key) -> Assumed | None:
        return self.pods.get(key)

    def of(self, action: Action) -> Assumed | None:
        """Whom a request was made for; None if that is settled, or another attempt is under way."""
        assumed = self.pods.get(action.key)
        return assumed if assumed is not None and assumed.number == action.attempt else None

    def drop(self, key: Key) -> Assumed | None:
        assumed = self.pods.pop(key, None)
        if assumed is not None and assumed.phase in (Phase.BINDING, Phase.UNSURE):
            self.in_flight -= 1
        return assumed

    def start(self, assumed: Assumed) -> Bind:
        """Send the binding of a pod whose volumes are ready."""
        if assumed.phase is Phase.VOLUMES:
            self.in_flight += 1
        return assumed.bind()

    def bound(self, assumed: Assumed) -> None:
        if assumed.phase in (Phase.BINDING, Phase.UNSURE):
            self.in_flight -= 1
        assumed.phase = Phase.BOUND

    def due(self) -> float | None:
        times = [
            when
            for assumed in self.pods.values()
            if assumed.phase is not Phase.BOUND
            for when in (assumed.again, assumed.deadline)
            if when is not None
        ]
        return min(times, default=None)

    def rested(self, now: float) -> list[Assumed]:
        """Those whose pause is over."""
        return [a for a in self.pods.values() if a.again is not None and a.again <= now]


def is_uncertain(outcome: Outcome) -> bool:
    """Whether a binding may have been made all the same."""
    return outcome.code == 0 or outcome.code >= 500 or outcome.conflict
