"""Events about bindings and the workloads they stand for, and what the story keeps."""

from __future__ import annotations

from collections.abc import Iterable

from berth.fleet.placement.decision import PlacementDecision
from berth.fleet.scheduler import patches
from berth.kube.api_resources import Resource
from berth.kube.karmada import Binding, TargetCluster
from berth.kube.objects import Key, ObjectMeta, Struct
from berth.machines.recorder import NORMAL, WARNING, Recorder
from berth.machines.story import Story


class _Named(Struct, frozen=True):
    metadata: ObjectMeta


class BindingEvents:
    """Writes events, and tells the story.

    Attributes:
        recorder: Its component is the scheduler's name, as users look events up by it.
    """

    def __init__(self, scheduler_name: str, story: Story) -> None:
        self.recorder = Recorder(scheduler_name)
        self._story = story

    def succeeded(self, key: Key, binding: Binding, targets: Iterable[TargetCluster], now: float) -> None:
        self._record(key, binding, now, NORMAL, patches.SUCCEEDED, patches.success_event(key, targets))

    def failed(self, key: Key, binding: Binding, message: str, now: float) -> None:
        self._record(key, binding, now, WARNING, patches.FAILED, message)

    def attempts_failed(self, key: Key, binding: Binding, decision: PlacementDecision, now: float) -> None:
        """The terms of the cluster affinities that were tried in vain before one succeeded."""
        kind = patches.resource_of(key).kind
        for place, attempt in enumerate(decision.attempts):
            if attempt.error is not None:
                message = (
                    f"failed to schedule {kind}({'/'.join(filter(None, key))}) "
                    f"with clusterAffiliates index({place}): {attempt.error.message}"
                )
                self._record(key, binding, now, WARNING, patches.FAILED, message)

    def _record(self, key: Key, binding: Binding, now: float, kind: str, reason: str, message: str) -> None:
        self._story.tell(now, key, reason, message)
        self.recorder.record(now, patches.resource_of(key), binding, kind, reason, message)
        resource = binding.spec.resource
        group, _, version = (resource.api_version or "").rpartition("/")
        where = Resource(group, version, "", resource.kind or "", namespaced=bool(resource.namespace))
        metadata = ObjectMeta(name=resource.name, namespace=resource.namespace, uid=resource.uid)
        self.recorder.record(now, where, _Named(metadata=metadata), kind, reason, message)
