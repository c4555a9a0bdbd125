"""The cluster as the mirror has it, and a record of every pod on a node: made here, and forgotten here."""

from __future__ import annotations

from itertools import count

from berth.engine.state.cluster import pod_name
from berth.eviction.open_violations import OpenViolations
from berth.eviction.records import BEGUN, EvictionPhase, PodRecord, expect
from berth.eviction.settings import EvictionSettings
from berth.kube.objects import Key, LivePod
from berth.kube.pods import is_terminating
from berth.kube.well_known import MIRROR_POD
from berth.machines.contract import Action
from berth.machines.mirror import Mirror
from berth.machines.moves import MoveSource, NoMoves


def key_of(pod: str) -> Key:
    namespace, _, name = pod.partition("/")
    return (namespace, name)


class EvictionState:
    """What the parts of the controller know together.

    Attributes:
        mirror: The engine's cluster.
        records: By the pods' names.
        active: Those of them that are to be evicted, or whose condition is to be looked at again.
        ended: By number, records of pods that are gone while what was begun for them is still to be settled.
        violations: What is broken.
        moves: Who wants pods to move for which nothing is broken.
        static_pods: Pods that only show a static pod of their node, which no API server can remove.
    """

    def __init__(self, settings: EvictionSettings) -> None:
        self.mirror = Mirror(settings.options, {})
        self.records: dict[str, PodRecord] = {}
        self.active: dict[str, PodRecord] = {}
        self.ended: dict[int, PodRecord] = {}
        self.violations = OpenViolations(settings.grace)
        self.moves: MoveSource = NoMoves()
        self.static_pods: set[str] = set()
        self._numbers = count(1)

    # --- pods ---------------------------------------------------------------------------------------

    def put(self, key: Key, pod: LivePod) -> tuple[PodRecord, bool]:
        """A pod was seen on a node; its record, and whether that is new."""
        name = pod_name(pod)
        record = self.records.get(name)
        is_new = record is None or record.uid != pod.metadata.uid
        if is_new:
            self._drop(name)
        if record is None or is_new:
            record = PodRecord(name, pod.metadata.uid, pod.spec.node_name or "", next(self._numbers))
            self.records[name] = record
        if MIRROR_POD in (pod.metadata.annotations or {}):
            self.static_pods.add(name)
        self.mirror.put(key, pod)
        return record, is_new

    def forget(self, key: Key) -> bool:
        """A pod is gone; whether it was known."""
        pod = self.mirror.bound.get(key)
        if pod is None:
            return False
        self.mirror.forget(key, pod)
        self._drop(pod_name(pod))
        return True

    def _drop(self, name: str) -> None:
        record = self.records.pop(name, None)
        if record is None:
            return
        self.violations.close(record)
        self.active.pop(name, None)
        self.static_pods.discard(name)
        if record.phase in BEGUN:
            self.ended[record.number] = record

    # --- asking -------------------------------------------------------------------------------------

    def pod(self, name: str) -> LivePod | None:
        """A pod that runs and could be evicted."""
        pod = self.mirror.bound.get(key_of(name))
        if not isinstance(pod, LivePod) or is_terminating(pod) or name in self.static_pods:
            return None
        return pod

    def find(self, action: Action) -> PodRecord | None:
        """The record of the pod that an action is about, be it gone by now."""
        record = self.records.get("/".join(action.key))
        if record is not None and record.number == action.attempt:
            return record
        return self.ended.get(action.attempt)

    def is_current(self, record: PodRecord) -> bool:
        """Whether the pod is still there."""
        return self.records.get(record.name) is record

    def recheck(self, record: PodRecord, when: float | None) -> None:
        """Look at its condition again at a time, or no more."""
        record.recheck_at = when
        self.index(record)

    def index(self, record: PodRecord) -> None:
        """Keep `active` and `ended` in step with a record that changed."""
        if not self.is_current(record):
            if record.phase not in BEGUN:
                self.ended.pop(record.number, None)
        elif record.phase is EvictionPhase.STAYING and record.recheck_at is None:
            self.active.pop(record.name, None)
        else:
            self.active[record.name] = record

    # --- invariants ---------------------------------------------------------------------------------

    def validate(self) -> None:
        """Check what holds between any two calls of the machine; for tests."""
        bound = {pod_name(pod): pod.metadata.uid for pod in self.mirror.bound.values()}
        known = {name: record.uid for name, record in self.records.items()}
        expect(known == bound, "there is a record of every pod on a node, and of no other")
        for record in (*self.records.values(), *self.ended.values()):
            is_going = record.phase is not EvictionPhase.STAYING
            expect(is_going == (record.attempt is not None), f"{record.name} has an attempt if it is to go")
            if self.is_current(record):
                is_active = is_going or record.recheck_at is not None
                expect(is_active == (record.name in self.active), f"{record.name} is active if so indexed")
            else:
                expect(
                    record.phase in BEGUN, f"{record.name} is gone: something is to be settled, or nothing"
                )
        expect(self.active.keys() <= self.records.keys(), "only pods that are there are active")
        expect(self.static_pods <= self.records.keys(), "only pods that are there are static")
        self.violations.validate(self.records)
